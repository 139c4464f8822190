import { useEffect } from 'preact/hooks'
import { myName, send } from '../api'
import { grantedTo, lastHourOf, parametersOf, sizeOf } from '../channel-words'
import { bytes, count, perSecond, seconds } from '../format'
import { link, route } from '../router'
import { cluster, isOperator, me, refreshCluster } from '../store'
import type { Channel, Cluster, Feed } from '../types'
import { Badge, Empty, Panel } from '../ui/bits'
import { act } from '../ui/toast'
import { DeadLettersPanel } from './dead-letters'
import { TryPanel } from './try'

export function ChannelsPage() {
  useEffect(() => {
    void refreshCluster().catch(() => {})
  }, [])
  if (!me.value?.has_cluster)
    return (
      <Empty>
        <strong>This coordinator knows no data cluster.</strong> Start it with{' '}
        <code>tocsin coordinator --cluster-url http://127.0.0.1:8600</code>, and channels and feeds appear here.
      </Empty>
    )
  const found = cluster.value
  if (!found) return <Empty>Asking the data cluster …</Empty>
  const [, part, name] = route.value
  return (
    <>
      {found.trouble && (
        <p class="trouble" role="alert">
          The data cluster can't be reached, so this page is not up to date: {found.trouble}
        </p>
      )}
      {part === 'try' && <TryPanel key={name} channel={found.channels.find((one) => one.name === name)} name={name ?? ''} />}
      {part === 'dead-letters' && <DeadLettersPanel key={name} dataset={name ?? ''} />}
      <ChannelsPanel found={found} />
      <FeedsPanel found={found} />
    </>
  )
}

function ChannelsPanel({ found }: { found: Cluster }) {
  return (
    <Panel title="Channels">
      {found.channels.length === 0 ? (
        <Empty>
          <strong>No channels yet.</strong> Make one with <code>tocsin sql "CREATE CONTINUOUS CHANNEL …"</code>.
        </Empty>
      ) : (
        <div class="table">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Channel</th>
                <th scope="col">Runs</th>
                <th scope="col" class="number">
                  Subscriptions
                </th>
                <th scope="col" class="number">
                  Last run
                </th>
                <th scope="col" class="number">
                  Window lag
                </th>
                <th scope="col" class="number">
                  Results
                </th>
                <th scope="col" class="number">
                  Cost
                </th>
                <th scope="col" class="number">
                  Overruns
                </th>
                <th scope="col">State</th>
                {isOperator.value && <th scope="col">Actions</th>}
              </tr>
            </thead>
            <tbody>
              {found.channels.map((one) => (
                <ChannelRow key={one.name} channel={one} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}

function ChannelRow({ channel: one }: { channel: Channel }) {
  return (
    <tr data-channel={one.name}>
      <th scope="row">
        {one.name}
        <small class="muted">
          {parametersOf(one)}
        </small>
      </th>
      <td data-label="Runs">
        {one.period_s === null ? 'when records arrive' : `every ${seconds(one.period_s)}`}
        <small class="muted"> {count(one.runs)} so far</small>
      </td>
      <td data-label="Subscriptions" class="number">
        {count(one.subscriptions)}
        <small class="muted"> {grantedTo(one)}</small>
      </td>
      <td data-label="Last run" class="number">
        {one.runs ? seconds(one.last_run_s) : '–'}
      </td>
      <td data-label="Window lag" class="number">
        {count(one.window_lag_commits)}
        <small class="muted"> commits</small>
      </td>
      <td data-label="Results" class="number">
        {count(one.results)}
        <small class="muted"> {count(one.last_results)} in the last run</small>
      </td>
      <td data-label="Cost" class="number">
        {seconds(one.spark_s)} of Spark
        <small class="muted"> {sizeOf(one)}</small>
        <small class="muted"> {lastHourOf(one)}</small>
      </td>
      <td data-label="Overruns" class="number">
        {one.overruns > 0 ? <Badge tone="warn">{count(one.overruns)}</Badge> : '0'}
      </td>
      <td data-label="State">
        {one.is_paused ? <Badge tone="warn">paused</Badge> : one.last_error ? <Badge tone="bad">failing</Badge> : <Badge tone="good">running</Badge>}
        {one.last_error && <small class="refused">{one.last_error}</small>}
      </td>
      {isOperator.value && (
        <td class="actions">
          <span class="buttons">
            <button
              type="button"
              aria-label={`${one.is_paused ? 'Resume' : 'Pause'} ${one.name}`}
              onClick={() => void pause(one)}
            >
              {one.is_paused ? 'Resume' : 'Pause'}
            </button>
            <a class="button" href={link('channels', 'try', one.name)} aria-label={`Try ${one.name}`}>
              Try
            </a>
          </span>
        </td>
      )}
    </tr>
  )
}

async function pause(channel: Channel): Promise<void> {
  await act(async () => {
    const body = { channel: channel.name, paused: !channel.is_paused, by: myName() }
    const { message } = await send<{ message: string }>('POST', '/dashboard/api/channels', body)
    await refreshCluster()
    return message
  })
}

function FeedsPanel({ found }: { found: Cluster }) {
  return (
    <Panel title="Feeds" aside={<span class="muted">{bytes(found.pending_bytes, false)} accepted and not in tables yet</span>}>
      {found.feeds.length === 0 ? (
        <Empty>
          <strong>No feeds yet.</strong> Make one with <code>tocsin sql "CREATE FEED … INTO … FROM HTTP"</code>.
        </Empty>
      ) : (
        <div class="table">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Feed</th>
                <th scope="col">Into</th>
                <th scope="col" class="number">
                  Records
                </th>
                <th scope="col" class="number">
                  Accepted
                </th>
                <th scope="col" class="number">
                  Rejected
                </th>
                <th scope="col">Dead letters</th>
              </tr>
            </thead>
            <tbody>
              {found.feeds.map((one) => (
                <FeedRow key={one.name} feed={one} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}

function FeedRow({ feed: one }: { feed: Feed }) {
  return (
    <tr data-feed={one.name}>
      <th scope="row">
        {one.name}
        <small class="muted">{[one.source, ...one.publishers].join(', ')}</small>
      </th>
      <td data-label="Into">{one.dataset}</td>
      <td data-label="Records" class="number">
        {perSecond(one.accepted_per_s)}
      </td>
      <td data-label="Accepted" class="number">
        {count(one.accepted)}
      </td>
      <td data-label="Rejected" class="number">
        {one.rejected > 0 ? <Badge tone="warn">{count(one.rejected)}</Badge> : '0'}
        {one.rejected_per_s > 0 && <small class="muted"> {perSecond(one.rejected_per_s)}</small>}
      </td>
      <td data-label="Dead letters">
        <a href={link('channels', 'dead-letters', one.dataset)} aria-label={`Dead letters of ${one.dataset}`}>
          Show
        </a>
      </td>
    </tr>
  )
}
