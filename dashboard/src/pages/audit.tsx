import { useEffect, useState } from 'preact/hooks'
import { get, wordsOf } from '../api'
import { contains, detailsOf, grouped, waysOf, withNewest } from '../audit-entries'
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
        setEntries((before) => withNewest(before ?? [], found))
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

  const shown = (entries ?? []).filter((one) => contains(one, wanted))
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
        <Empty>{wanted ? 'No entry contains that.' : 'No entries yet. Plans, moves and changed settings appear here.'}</Empty>
      ) : (
        <div class="table">
          <table class="cards audit">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">By</th>
                <th scope="col">Action</th>
                <th scope="col">Subject</th>
                <th scope="col">Details</th>
              </tr>
            </thead>
            <tbody>
              {grouped(shown).map((group) => {
                const first = group[0]
                if (!first) return null
                if (group.length === 1 || opened.has(first.number)) return group.map((one) => <Row key={one.number} entry={one} />)
                return (
                  <tr key={first.number}>
                    <td data-label="When">
                      <time>{when(first.at_us / 1e6)}</time>
                    </td>
                    <td data-label="By">{first.who}</td>
                    <td data-label="Action">
                      <b>{group.length} moves</b>
                    </td>
                    <td data-label="Subject">{String(first.details.plan)}</td>
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
      <td data-label="By">{one.who}</td>
      <td data-label="Action">
        <b>{one.action}</b>
      </td>
      <td data-label="Subject">{one.subject}</td>
      <td data-label="Details" class="muted">
        {detailsOf(one)}
      </td>
    </tr>
  )
}

async function fetchPage(before?: number): Promise<AuditEntry[]> {
  const older = before === undefined ? '' : `&before=${before}`
  return (await get<{ entries: AuditEntry[] }>(`/v1/audit?limit=${PAGE}${older}`)).entries
}
