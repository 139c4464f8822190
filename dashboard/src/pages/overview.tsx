import { useMemo, useState } from 'preact/hooks'
import { Chart } from '../charts/chart'
import { type Line, linesOption, STAGES } from '../charts/lines'
import { type Direction, inDirection, smooth, SMOOTH_S } from '../charts/series'
import { byName, colourOf } from '../colours'
import { bytes, count, percent, perSecond, plural, promisesOf, ratio, seconds, shortBytes, when } from '../format'
import { RANGES, type Range } from '../history'
import { link } from '../router'
import { chooseRange, executions, history, live, range } from '../store'
import { isDark, token } from '../theme'
import type { Execution, History, Live, OverallName, Series } from '../types'
import { Badge, Bar, BrokerName, Choice, Empty, Panel, StateBadge, Tile } from '../ui/bits'
import { covTone } from '../ui/tones'

type Source = 'Both' | 'Measured' | 'Model'

export function OverviewPage() {
  const seen = live.value
  const past = history.value
  if (!seen) return <Empty>Waiting for the first figures …</Empty>
  if (seen.brokers.length === 0)
    return (
      <Empty>
        <strong>No brokers yet.</strong> Start one with <code>tocsin broker --name broker-1</code>, or everything at once
        with <code>tocsin up</code>.
      </Empty>
    )
  return (
    <>
      <Tiles seen={seen} />
      <div class="toolbar">
        <Choice<Range>
          label="How far back"
          options={Object.keys(RANGES) as Range[]}
          value={range.value}
          onChange={chooseRange}
        />
        <MarkLegend />
      </div>
      {past && (
        <div class="charts">
          <LoadPanel past={past} seen={seen} />
          <SharePanel seen={seen} />
          <CovPanel past={past} seen={seen} />
          <ScorePanel past={past} seen={seen} />
          <LatencyPanel past={past} seen={seen} />
          <SubscribersPanel past={past} seen={seen} />
        </div>
      )}
      <PlansPanel />
    </>
  )
}

function Tiles({ seen }: { seen: Live }) {
  const all = seen.overall
  const { alpha, gamma } = seen.balancing
  const connected = seen.brokers.reduce((sum, one) => sum + one.connections, 0)
  return (
    <dl class="tiles">
      <Tile
        name="Unevenness (cov)"
        value={ratio(all.cov)}
        tone={covTone(all.cov ?? 0, alpha, gamma)}
        note={`measured ${ratio(all.measured_cov)} · α ${alpha} · γ ${gamma}`}
        title="Standard deviation of the brokers' loads over their mean, by the load model"
      />
      <Tile
        name="Highest load"
        value={bytes(all.max)}
        note={`mean ${bytes(all.mean)}${all.mean ? ` · ${((all.max ?? 0) / all.mean).toFixed(2)} × mean` : ''}`}
      />
      <Tile name="Subscribers" value={count(all.subscribers)} note={`${count(connected)} connected`} />
      <Tile
        name="Moves per person, hour"
        value={ratio(seen.moves_per_person_hour, 2)}
        note={promisesOf(seen.promise_kept)}
        title="Moves of plans over the last hour; and the mean cov that plans promised, beside the one that brokers measured in the minute after each"
      />
      <Tile name="Notifications" value={perSecond(all.rate)} note="to live subscriptions" />
      <Tile
        name="Latency p50"
        value={seconds(all.p50_s)}
        note={`p95 ${seconds(all.p95_s)} · p99 ${seconds(all.p99_s)}`}
        title="From a result's commit until it was written to the subscribers' sockets; the last ten seconds"
      />
      <Tile
        name="Cache hit rate"
        value={percent(all.hit_rate)}
        note={all.hit_rate === null ? 'no subscriber had to catch up' : 'while catching up, last minute'}
      />
    </dl>
  )
}

function MarkLegend() {
  void isDark.value
  return (
    <ul class="legend marks" aria-label="Marks in the charts">
      {Object.entries(STAGES).map(([stage, { letter, colour }]) => (
        <li key={stage}>
          <b class="mark-letter" style={{ background: token(colour) }}>
            {letter}
          </b>
          {stage}
        </li>
      ))}
    </ul>
  )
}

function LoadPanel({ past, seen }: { past: History; seen: Live }) {
  const [direction, setDirection] = useState<Direction>('In + out')
  const [source, setSource] = useState<Source>('Both')
  const dark = isDark.value
  const option = useMemo(() => {
    const lines: Line[] = []
    for (const name of Object.keys(past.brokers).sort(byName)) {
      const of = past.brokers[name]
      if (!of) continue
      const base = { colour: colourOf(name), times_s: past.times_s }
      if (source !== 'Model')
        lines.push({
          ...base,
          name: source === 'Both' ? `${name} measured` : name,
          values: smooth(inDirection(direction, of.in, of.out), past.times_s),
          width: source === 'Both' ? 1.5 : 2,
          dashed: source === 'Both',
          faint: source === 'Both',
        })
      if (source !== 'Measured') lines.push({ ...base, name, values: inDirection(direction, of.model_in, of.model_out) })
    }
    return linesOption({ lines, format: (value) => bytes(value), formatAxis: shortBytes, marks: true })
  }, [past, direction, source, dark, executions.value])
  const words = seen.brokers.map((one) => `${one.name} ${bytes(one.model_in + one.model_out)}`).join(', ')
  return (
    <Panel
      title="Load by broker"
      class="wide"
      aside={
        <div class="controls">
          <Choice<Direction>
            label="Direction"
            options={['In + out', 'In', 'Out']}
            value={direction}
            onChange={setDirection}
          />
          <Choice<Source>
            label="Source of the figures"
            options={['Both', 'Measured', 'Model']}
            value={source}
            onChange={setSource}
          />
        </div>
      }
    >
      <Chart name="Load by broker" option={option} words={words} class="tall" />
      <p class="caption">
        Solid: by the load model. Dashed: measured by the brokers, mean of {SMOOTH_S} seconds.
      </p>
    </Panel>
  )
}

function SharePanel({ seen }: { seen: Live }) {
  const loads = seen.brokers.map((one) => one.model_in + one.model_out)
  const most = Math.max(...loads, 1)
  return (
    <Panel title="Brokers" aside={<a href={link('brokers')}>Manage</a>} class="share" id="share">
      <ul class="share-list">
        {seen.brokers.map((one, index) => (
          <li key={one.name}>
            <BrokerName name={one.name} />
            {one.state !== 'active' && <StateBadge state={one.state} />}
            <span class="number">{bytes(loads[index])}</span>
            <Bar share={(loads[index] ?? 0) / most} colour={colourOf(one.name)} />
            <small class="muted">{plural(one.subscribers, 'subscriber')}</small>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

function CovPanel({ past, seen }: { past: History; seen: Live }) {
  const { alpha, gamma } = seen.balancing
  const dark = isDark.value
  const option = useMemo(
    () =>
      linesOption({
        lines: [
          { ...overall(past, 'measured_cov'), name: 'measured', colour: token('--muted'), width: 1.5, dashed: true },
          { ...overall(past, 'cov'), name: 'by the load model', colour: token('--accent') },
        ],
        format: (value) => ratio(value, 2),
        thresholds: [
          { name: `α ${alpha}`, value: alpha, colour: token('--warn') },
          { name: `γ ${gamma}`, value: gamma, colour: token('--bad') },
        ],
        marks: true,
        atLeast: gamma * 1.15,
      }),
    [past, alpha, gamma, dark, executions.value],
  )
  return (
    <Panel title="Unevenness: cov">
      <Chart name="cov" option={option} words={`${ratio(seen.overall.cov)}, α ${alpha}, γ ${gamma}`} />
    </Panel>
  )
}

function ScorePanel({ past, seen }: { past: History; seen: Live }) {
  const { beta, theta } = seen.balancing
  const dark = isDark.value
  const option = useMemo(
    () =>
      linesOption({
        lines: [
          { ...overall(past, 'mean'), name: 'mean', colour: token('--muted'), dashed: true },
          { ...overall(past, 'max'), name: 'highest', colour: token('--accent') },
        ],
        format: (value) => bytes(value),
        formatAxis: shortBytes,
        thresholds: [
          ...(beta > 0 ? [{ name: `β ${bytes(beta)}`, value: beta, colour: token('--warn') }] : []),
          ...(theta > 0 ? [{ name: `θ ${bytes(theta)}`, value: theta, colour: token('--bad') }] : []),
        ],
        marks: true,
      }),
    [past, beta, theta, dark, executions.value],
  )
  const words = `highest ${bytes(seen.overall.max)}, mean ${bytes(seen.overall.mean)}`
  return (
    <Panel title="Highest and mean load">
      <Chart name="Highest and mean load" option={option} words={words} />
    </Panel>
  )
}

function LatencyPanel({ past, seen }: { past: History; seen: Live }) {
  const dark = isDark.value
  const option = useMemo(
    () =>
      linesOption({
        lines: [
          { ...overall(past, 'p50_s'), name: 'p50', colour: token('--line-1') },
          { ...overall(past, 'p95_s'), name: 'p95', colour: token('--line-2') },
          { ...overall(past, 'p99_s'), name: 'p99', colour: token('--line-3') },
        ],
        format: seconds,
        log: true,
        marks: true,
      }),
    [past, dark, executions.value],
  )
  const { p50_s, p95_s, p99_s } = seen.overall
  return (
    <Panel
      title="Notification latency"
      aside={
        <ul class="legend">
          {(['p50', 'p95', 'p99'] as const).map((name, index) => (
            <li key={name}>
              <i class="dot" style={{ background: `var(--line-${index + 1})` }} />
              {name}
            </li>
          ))}
        </ul>
      }
    >
      <Chart
        name="Notification latency"
        option={option}
        words={`p50 ${seconds(p50_s)}, p95 ${seconds(p95_s)}, p99 ${seconds(p99_s)}`}
      />
    </Panel>
  )
}

function SubscribersPanel({ past, seen }: { past: History; seen: Live }) {
  const dark = isDark.value
  const option = useMemo(
    () =>
      linesOption({
        lines: Object.keys(past.brokers)
          .sort(byName)
          .map((name) => ({
            name,
            colour: colourOf(name),
            times_s: past.times_s,
            values: past.brokers[name]?.subscribers ?? [],
          })),
        format: count,
        marks: true,
      }),
    [past, dark, executions.value],
  )
  const words = seen.brokers.map((one) => `${one.name} ${one.subscribers}`).join(', ')
  return (
    <Panel title="Subscribers per broker">
      <Chart name="Subscribers per broker" option={option} words={words} />
    </Panel>
  )
}

function PlansPanel() {
  const recent = executions.value.slice(0, 8)
  return (
    <Panel title="Plans carried out" aside={<a href={link('balancing')}>Balancing</a>}>
      {recent.length === 0 ? (
        <Empty>None yet. Plans appear here, and as marks in the charts, with their reasons.</Empty>
      ) : (
        <ul class="plans">
          {recent.map((one) => (
            <PlanLine key={one.plan} execution={one} />
          ))}
        </ul>
      )}
    </Panel>
  )
}

function PlanLine({ execution: one }: { execution: Execution }) {
  const stage = STAGES[one.stage]
  void isDark.value
  return (
    <li>
      <time>{when(one.begun_at_us / 1e6)}</time>
      <b class="mark-letter" style={{ background: token(stage?.colour ?? '--muted') }}>
        {stage?.letter ?? '?'}
      </b>
      <span>
        <strong>
          {one.stage} by {one.policy}
        </strong>
        , {plural(one.done, 'move')} done
        {one.failed > 0 && `, ${one.failed} failed`}
        {one.cancelled > 0 && `, ${one.cancelled} not begun`}
        {one.state !== 'done' && (
          <>
            {' '}
            <Badge tone={one.state === 'running' ? 'busy' : 'plain'}>{one.state}</Badge>
          </>
        )}
        <br />
        <span class="muted">
          {one.reason || 'no reason was given'} · {one.by}
        </span>
      </span>
    </li>
  )
}

function overall(past: History, name: OverallName): { times_s: number[]; values: Series } {
  return { times_s: past.times_s, values: past.overall[name] }
}
