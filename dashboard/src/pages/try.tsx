// Try a channel: give parameters, and see notifications arrive.

import { useEffect, useRef, useState } from 'preact/hooks'
import { call, wordsOf } from '../api'
import { eventsOf } from '../event-stream'
import { clock, count, seconds } from '../format'
import { inputModeOf, parameterValues } from '../forms'
import { link } from '../router'
import { isOperator } from '../store'
import type { Channel } from '../types'
import { Badge, Empty, Panel, Refusal } from '../ui/bits'

/** More would only scroll by. */
const KEPT = 100

interface Arrived {
  position: string
  committed_at_s: number
  arrived_at_s: number
  broker: string
  kind: 'result' | 'exit'
  payload: Record<string, unknown>
}

export function TryPanel({ channel, name }: { channel: Channel | undefined; name: string }) {
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [arrived, setArrived] = useState<Arrived[]>([])
  const [total, setTotal] = useState(0)
  const [listening, setListening] = useState('')
  const [failure, setFailure] = useState('')
  const [busy, setBusy] = useState(false)
  const running = useRef<AbortController | null>(null)
  useEffect(() => () => running.current?.abort(), [])

  const stop = () => {
    running.current?.abort()
    running.current = null
    setListening('')
    setBusy(false)
  }

  const start = async (event: Event) => {
    event.preventDefault()
    if (!channel) return
    stop()
    const control = new AbortController()
    running.current = control
    setBusy(true)
    setFailure('')
    setArrived([])
    setTotal(0)
    try {
      const body = { channel: channel.name, parameters: parameterValues(channel.parameters, texts) }
      const answer = await call('POST', '/dashboard/api/try', body, control.signal)
      for await (const { name: kind, data } of eventsOf(answer)) {
        if (kind === 'subscribed') setListening((data as { subscription: string }).subscription)
        else if (kind === 'notification') {
          const one = { ...(data as Arrived), arrived_at_s: Date.now() / 1000 }
          setArrived((before) => [one, ...before].slice(0, KEPT))
          setTotal((before) => before + 1)
        } else if (kind === 'failed') setFailure((data as { message: string }).message)
      }
    } catch (error) {
      if (!control.signal.aborted) setFailure(wordsOf(error))
    }
    if (running.current === control) stop()
  }

  return (
    <Panel
      title={`Try ${name}`}
      id="try"
      aside={
        <a class="button" href={link('channels')}>
          Close
        </a>
      }
    >
      {!channel ? (
        <Empty>The cluster has no channel called {name}.</Empty>
      ) : !isOperator.value ? (
        <Empty>Only operators can try channels: a trial makes a subscription.</Empty>
      ) : (
        <form class="fields" onSubmit={start}>
          {channel.parameters.map((one) => (
            <label key={one.name}>
              {one.name} <small>{one.type}</small>
              <input
                name={one.name}
                required
                autocomplete="off"
                inputMode={inputModeOf(one.type)}
                value={texts[one.name] ?? ''}
                onInput={(event) => setTexts({ ...texts, [one.name]: event.currentTarget.value })}
              />
            </label>
          ))}
          <span class="buttons">
            <button type="submit" class="primary" disabled={busy && !listening}>
              {listening ? 'Subscribe again' : 'Subscribe'}
            </button>
            {listening && (
              <button type="button" onClick={stop}>
                Stop
              </button>
            )}
          </span>
        </form>
      )}
      <Refusal why={failure} />
      {listening && (
        <p role="status">
          <Badge tone="good">listening</Badge> <code>{listening}</code> · {count(total)} arrived
          {channel?.is_paused && ' · the channel is paused, so no notifications will come'}
        </p>
      )}
      {listening && arrived.length === 0 && <Empty>No notifications yet. Publish a record that matches.</Empty>}
      {arrived.length > 0 && (
        <ol class="arrived" aria-label="Notifications">
          {arrived.map((one) => (
            <li key={one.position}>
              <span class="muted">
                {clock(one.arrived_at_s)} · {seconds(Math.max(0, one.arrived_at_s - one.committed_at_s))} after its commit ·{' '}
                {one.broker} · {one.position}
                {one.kind === 'exit' && ' · a result no longer holds'}
              </span>
              <dl>
                {Object.entries(one.payload).map(([key, value]) => (
                  <div key={key}>
                    <dt>{key}</dt>
                    <dd>{typeof value === 'object' ? JSON.stringify(value) : String(value)}</dd>
                  </div>
                ))}
              </dl>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  )
}
