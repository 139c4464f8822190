import { myName, send } from '../api'
import { byName, colourOf } from '../colours'
import { bytes, count, percent, plural, seconds } from '../format'
import { isOperator, live } from '../store'
import type { Broker, BrokerState } from '../types'
import { Bar, BrokerName, Empty, Panel, StateBadge } from '../ui/bits'
import { confirmed } from '../ui/confirm'
import { act } from '../ui/toast'

export function BrokersPage() {
  const seen = live.value
  if (!seen) return <Empty>Waiting for the first figures …</Empty>
  const brokers = [...seen.brokers].sort((a, b) => byName(a.name, b.name))
  const most = Math.max(...brokers.map((one) => one.model_in + one.model_out), 1)
  return (
    <Panel title="Brokers" id="brokers">
      {brokers.length === 0 ? (
        <Empty>
          <strong>No brokers yet.</strong> Start one with <code>tocsin broker --name broker-1</code>; it registers by
          itself and shows up here.
        </Empty>
      ) : (
        <div class="table">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Broker</th>
                <th scope="col">State</th>
                <th scope="col" class="number">
                  Subscribers
                </th>
                <th scope="col">Load, by the model</th>
                <th scope="col" class="number">
                  Measured in
                </th>
                <th scope="col" class="number">
                  Measured out
                </th>
                <th scope="col" class="number">
                  Latency p50 / p99
                </th>
                <th scope="col" class="number">
                  Cache hits
                </th>
                <th scope="col" class="number">
                  CPU
                </th>
                <th scope="col" class="number">
                  Last heard
                </th>
                {isOperator.value && <th scope="col">Actions</th>}
              </tr>
            </thead>
            <tbody>
              {brokers.map((one) => (
                <Row key={one.name} broker={one} most={most} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="caption">
        A <b>cordoned</b> broker takes no new subscribers and keeps its own. A <b>draining</b> one moves its subscribers
        to the others. A <b>dead</b> one has fallen silent; other brokers adopt its subscribers.
      </p>
    </Panel>
  )
}

function Row({ broker: one, most }: { broker: Broker; most: number }) {
  const load = one.model_in + one.model_out
  return (
    <tr data-broker={one.name}>
      <th scope="row">
        <BrokerName name={one.name} />
        <small class="muted address">{one.url}</small>
      </th>
      <td data-label="State">
        <StateBadge state={one.state} />
      </td>
      <td data-label="Subscribers" class="number">
        {count(one.subscribers)}
        <small class="muted"> {count(one.connections)} connected</small>
      </td>
      <td data-label="Load, by the model">
        <span class="load">
          <span>{bytes(load)}</span>
          <Bar share={load / most} colour={colourOf(one.name)} />
          {one.capacity !== 1 && <small class="muted">capacity {one.capacity}</small>}
        </span>
      </td>
      <td data-label="Measured in" class="number">
        {bytes(one.in)}
      </td>
      <td data-label="Measured out" class="number">
        {bytes(one.out)}
      </td>
      <td data-label="Latency p50 / p99" class="number">
        {seconds(one.p50_s)} / {seconds(one.p99_s)}
      </td>
      <td data-label="Cache hits" class="number">
        {percent(one.hit_rate)}
      </td>
      <td data-label="CPU" class="number">
        {percent(one.cpu_cores)}
      </td>
      <td data-label="Last heard" class="number">
        {one.silent_s < 2 ? 'now' : `${seconds(one.silent_s)} ago`}
      </td>
      {isOperator.value && (
        <td class="actions">
          <Actions broker={one} />
        </td>
      )}
    </tr>
  )
}

function Actions({ broker: one }: { broker: Broker }) {
  const button = (name: string, work: () => void, kind = '') => (
    <button type="button" class={kind} aria-label={`${name} ${one.name}`} onClick={work}>
      {name}
    </button>
  )
  return (
    <span class="buttons">
      {one.state === 'active' && button('Cordon', () => void setState(one, 'cordoned', `${one.name} takes no new subscribers`))}
      {(one.state === 'cordoned' || one.state === 'draining') &&
        button('Activate', () => void setState(one, 'active', `${one.name} is active again`))}
      {(one.state === 'active' || one.state === 'cordoned' || one.subscribers > 0) &&
        button('Drain', () => void drain(one))}
      {one.state !== 'active' && one.subscribers === 0 && button('Remove', () => void remove(one), 'danger')}
    </span>
  )
}

async function setState(broker: Broker, state: BrokerState, message: string): Promise<void> {
  await act(async () => {
    await send('PUT', `/v1/brokers/${encodeURIComponent(broker.name)}/state`, { state, by: myName() })
    return message
  })
}

async function drain(broker: Broker): Promise<void> {
  const agreed = await confirmed(
    `Drain ${broker.name}?`,
    `${plural(broker.subscribers, 'subscriber')} will be moved to other brokers, without missing anything. ` +
      'It takes no subscribers until it is activated again.',
    'Drain',
  )
  if (agreed) await setState(broker, 'draining', `${broker.name} moves its subscribers away`)
}

async function remove(broker: Broker): Promise<void> {
  const agreed = await confirmed(`Remove ${broker.name}?`, 'The coordinator forgets this broker. A broker that still runs registers again.', 'Remove')
  if (agreed)
    await act(async () => {
      await send('DELETE', `/v1/brokers/${encodeURIComponent(broker.name)}`)
      return `${broker.name} is removed`
    })
}
