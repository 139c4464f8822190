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

const REPLAY_ALL = 'The records are published again. Records that still do not fit become dead letters again.'
const DISCARD = 'This can\'t be undone: nobody can read or replay discarded dead letters.'

export function DeadLettersPanel({ dataset }: { dataset: string }) {
  const [found, setFound] = useState<DeadLetters | null>(null)
  const [failure, setFailure] = useState('')
  const rejected = cluster.value?.feeds.filter((one) => one.dataset === dataset).reduce((sum, one) => sum + one.rejected, 0)

  const fetchPage = (after: string) =>
    get<DeadLetters>(`/dashboard/api/dead-letters?dataset=${encodeURIComponent(dataset)}&after=${encodeURIComponent(after)}`)
  const load = async () => {
    try {
      setFound(await fetchPage(''))
      setFailure('')
    } catch (error) {
      setFailure(wordsOf(error))
    }
  }
  const loadOlder = async (shown: DeadLetters) => {
    try {
      const page = await fetchPage(shown.next)
      setFound({ ...page, dead_letters: [...shown.dead_letters, ...page.dead_letters] })
    } catch (error) {
      setFailure(wordsOf(error))
    }
  }
  useEffect(() => {
    void load()
  }, [dataset, rejected])

  const replay = async (letters: string[] | null) => {
    if (letters === null && !(await confirmed(`Replay all dead letters of ${dataset}?`, REPLAY_ALL, 'Replay all'))) return
    await act(async () => {
      const body = { dataset, letters, by: myName() }
      const answer = await send<Replayed>('POST', '/dashboard/api/dead-letters/replay', body)
      await load()
      return `${plural(answer.replayed, 'record')} replayed: ${answer.accepted} accepted, ${answer.rejected} rejected`
    })
  }

  const discard = async (letters: string[] | null) => {
    const which = letters === null ? `all dead letters of ${dataset}` : `dead letter ${letters[0]} of ${dataset}`
    if (!(await confirmed(`Discard ${which}?`, DISCARD, letters === null ? 'Discard all' : 'Discard'))) return
    await act(async () => {
      const body = { dataset, letters, by: myName() }
      const answer = await send<{ discarded: number }>('POST', '/dashboard/api/dead-letters/discard', body)
      await load()
      return `${plural(answer.discarded, 'dead letter')} discarded`
    })
  }

  return (
    <Panel
      title={`Dead letters of ${dataset}`}
      id="dead-letters"
      aside={
        <span class="buttons">
          {isOperator.value && found && found.total > 0 && (
            <>
              <button type="button" onClick={() => void replay(null)}>
                Replay all {count(found.total)}
              </button>
              <button type="button" class="danger" onClick={() => void discard(null)}>
                Discard all {count(found.total)}
              </button>
            </>
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
                {isOperator.value && <th scope="col">Actions</th>}
              </tr>
            </thead>
            <tbody>
              {found.dead_letters.map((one) => (
                <tr key={`${one.id} ${one.reason}`}>
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
                      <span class="buttons">
                        {one.position >= 0 && (
                          <button type="button" aria-label={`Replay ${one.id}`} onClick={() => void replay([one.id])}>
                            Replay
                          </button>
                        )}
                        <button
                          type="button"
                          class="danger"
                          aria-label={`Discard ${one.id}`}
                          onClick={() => void discard([one.id])}
                        >
                          Discard
                        </button>
                      </span>
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found?.next && (
        <p class="buttons">
          <button type="button" onClick={() => void loadOlder(found)}>
            Older dead letters
          </button>
        </p>
      )}
    </Panel>
  )
}
