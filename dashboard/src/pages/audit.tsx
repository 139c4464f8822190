import { useEffect, useState } from 'preact/hooks'
import { get, wordsOf } from '../api'
import { when } from '../format'
import { live } from '../store'
import type { AuditEntry } from '../types'
import { Empty, Panel, Refusal } from '../ui/bits'

const PAGE = 200

export function AuditPage() {
  const [entries, setEntries] = useState<AuditEntry[] | null>(null)
  const [hasMore, setHasMore] = useState(false)
  const [wanted, setWanted] = useState('')
  const [failure, setFailure] = useState('')
  const [opened, setOpened] = useState<Set<number>>(new Set())
  const audited = live.value?.audited

  useEffect(() => {
    let isCurrent = true
    fetchPage()
      .then((found) => {
        if (!isCurrent) return
        // Older ones that were loaded stay.
        setEntries((before) => [...found, ...(before ?? []).filter((one) => one.number < (found.at(-1)?.number ?? 0))])
        setHasMore((before) => before || found.length === PAGE)
        setFailure('')
      })
      .catch((error: unknown) => isCurrent && setFailure(wordsOf(error)))
    return () => {
      isCurrent = false
    }
  }, [audited])

  const more = async () => {
    try {
      const found = await fetchPage(entries?.at(-1)?.number)
      setEntries([...(entries ?? []), ...found])
      setHasMore(found.length === PAGE)
    } catch (error) {
      setFailure(wordsOf(error))
    }
  }

  const words = wanted.toLowerCase()
  const shown = (entries ?? []).filter((one) => !words || textOf(one).includes(words))
  return (
    <Panel
      title="Audit log"
      aside={
        <input
          type="search"
          placeholder="Filter"
          aria-label="Show entries that contain"
          value={wanted}
          onInput={(event) => setWanted(event.currentTarget.value)}
        />
      }
    >
      <Refusal why={failure} />
      {entries !== null && shown.length === 0 ? (
        <Empty>{words ? 'No entry contains that.' : 'Nothing was done yet: plans, moves and changed settings appear here.'}</Empty>
      ) : (
        <div class="table">
          <table class="cards audit">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Who</th>
                <th scope="col">What</th>
                <th scope="col">To whom</th>
                <th scope="col">Details</th>
              </tr>
            </thead>
            <tbody>
              {together(shown).map((group) => {
                const first = group[0]
                if (!first) return null
                if (group.length === 1 || opened.has(first.number)) return group.map((one) => <Row key={one.number} entry={one} />)
                return (
                  <tr key={first.number}>
                    <td data-label="When">
                      <time>{when(first.at_us / 1e6)}</time>
                    </td>
                    <td data-label="Who">{first.who}</td>
                    <td data-label="What">
                      <b>{group.length} moves</b>
                    </td>
                    <td data-label="To whom">{String(first.details.plan)}</td>
                    <td data-label="Details" class="muted">
                      {waysOf(group)}{' '}
                      <button type="button" class="quiet" onClick={() => setOpened(new Set([...opened, first.number]))}>
                        Show each
                      </button>
                    </td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      )}
      {hasMore && (
        <p class="buttons">
          <button type="button" onClick={() => void more()}>
            Older entries
          </button>
        </p>
      )}
    </Panel>
  )
}

function Row({ entry: one }: { entry: AuditEntry }) {
  return (
    <tr>
      <td data-label="When">
        <time>{when(one.at_us / 1e6)}</time>
      </td>
      <td data-label="Who">{one.who}</td>
      <td data-label="What">
        <b>{one.action}</b>
      </td>
      <td data-label="To whom">{one.subject}</td>
      <td data-label="Details" class="muted">
        {detailsOf(one)}
      </td>
    </tr>
  )
}

/** Moves of one plan that follow each other are told together. */
function together(entries: AuditEntry[]): AuditEntry[][] {
  const groups: AuditEntry[][] = []
  for (const one of entries) {
    const last = groups.at(-1)
    const before = last?.[0]
    const isSame = one.action === 'move' && before?.action === 'move' && before.details.plan === one.details.plan
    if (last && isSame) last.push(one)
    else groups.push([one])
  }
  return groups
}

/** From where to where, how many, and how it ended. */
function waysOf(moves: AuditEntry[]): string {
  const ways = new Map<string, number>()
  for (const { details } of moves) {
    const way = `${String(details.source)} → ${String(details.destination)} ${String(details.step)}`
    ways.set(way, (ways.get(way) ?? 0) + 1)
  }
  return [...ways].map(([way, number]) => `${way} ${number}`).join(' · ')
}

async function fetchPage(before?: number): Promise<AuditEntry[]> {
  const older = before === undefined ? '' : `&before=${before}`
  return (await get<{ entries: AuditEntry[] }>(`/v1/audit?limit=${PAGE}${older}`)).entries
}

function textOf(one: AuditEntry): string {
  return `${one.who} ${one.action} ${one.subject} ${detailsOf(one)}`.toLowerCase()
}

/** A move in words; everything else as it was written down. */
function detailsOf(one: AuditEntry): string {
  const { source, destination, step, outcome, reason, took_s, plan, ...rest } = one.details
  const texts: string[] = []
  if (source && destination) texts.push(`${String(source)} → ${String(destination)}`)
  if (step) texts.push(outcome ? `${String(step)}: ${String(outcome)}` : String(step))
  if (typeof took_s === 'number') texts.push(`${took_s.toFixed(2)} s`)
  for (const [name, value] of Object.entries(rest)) texts.push(`${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
  if (reason) texts.push(String(reason))
  if (plan) texts.push(String(plan))
  return texts.join(' · ')
}
