import { useEffect, useState } from 'preact/hooks'
import { get, myName, send, wordsOf } from '../api'
import { count, plural, when } from '../format'
import { link } from '../router'
import { cluster, isOperator } from '../store'
import type { DeadLetters } from '../types'
import { Empty, Panel, Refusal } from '../ui/bits'
import { confirmed } from '../ui/confirm'
import { act } from '../ui/toast'

interface Replayed {
  replayed: number
  accepted: number
  rejected: number
}

export function DeadLettersPanel({ dataset }: { dataset: string }) {
  const [found, setFound] = useState<DeadLetters | null>(null)
  const [failure, setFailure] = useState('')
  const rejected = cluster.value?.feeds.filter((one) => one.dataset === dataset).reduce((sum, one) => sum + one.rejected, 0)

  const load = async () => {
    try {
      setFound(await get<DeadLetters>(`/dashboard/api/dead-letters?dataset=${encodeURIComponent(dataset)}`))
      setFailure('')
    } catch (error) {
      setFailure(wordsOf(error))
    }
  }
  useEffect(() => {
    void load()
  }, [dataset, rejected])

  const replay = async (positions: number[] | null) => {
    if (positions === null && !(await confirmed(`Replay all dead letters of ${dataset}?`, 'They are published again. Those that still do not fit become dead letters again.', 'Replay all')))
      return
    await act(async () => {
      const body = { dataset, positions, by: myName() }
      const told = await send<Replayed>('POST', '/dashboard/api/dead-letters/replay', body)
      await load()
      return `${plural(told.replayed, 'record')} replayed: ${told.accepted} accepted, ${told.rejected} rejected`
    })
  }

  return (
    <Panel
      title={`Dead letters of ${dataset}`}
      id="dead-letters"
      aside={
        <span class="buttons">
          {isOperator.value && found && found.total > 0 && (
            <button type="button" onClick={() => void replay(null)}>
              Replay all {count(found.total)}
            </button>
          )}
          <a class="button" href={link('channels')}>
            Close
          </a>
        </span>
      }
    >
      <Refusal why={failure} />
      {found && found.total === 0 && <Empty>None: every record fitted its dataset.</Empty>}
      {found && found.total > 0 && (
        <div class="table">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Feed</th>
                <th scope="col">Why</th>
                <th scope="col">Record</th>
                {isOperator.value && <th scope="col">Do</th>}
              </tr>
            </thead>
            <tbody>
              {found.dead_letters.map((one) => (
                <tr key={`${one.position} ${one.line}`}>
                  <td data-label="When">
                    <time>{when(Date.parse(one.rejected_at) / 1000)}</time>
                  </td>
                  <td data-label="Feed">{one.feed}</td>
                  <td data-label="Why">{one.reason}</td>
                  <td data-label="Record">
                    <code class="raw">{one.raw}</code>
                  </td>
                  {isOperator.value && (
                    <td class="actions">
                      <button
                        type="button"
                        title="Replays all records of the same request"
                        aria-label={`Replay the request at ${one.position}`}
                        onClick={() => void replay([one.position])}
                      >
                        Replay
                      </button>
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}
