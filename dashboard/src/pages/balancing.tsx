import { useEffect, useState } from 'preact/hooks'
import { get, myName, send, wordsOf } from '../api'
import { bytes, count, ratio } from '../format'
import { settingsOf, withChosen } from '../forms'
import { isOperator, live } from '../store'
import type { BalancingSettings, Live, Policies, Run } from '../types'
import { Badge, Empty, Panel, Progress, Refusal } from '../ui/bits'
import { confirmed } from '../ui/confirm'
import { act } from '../ui/toast'
import { ExecutionsPanel } from './executions'
import { PlanPanel } from './plan'

export function BalancingPage() {
  const [policies, setPolicies] = useState<Policies | null>(null)
  const [failure, setFailure] = useState('')
  useEffect(() => {
    get<Policies>('/dashboard/api/policies')
      .then(setPolicies)
      .catch((error: unknown) => setFailure(wordsOf(error)))
  }, [])
  const seen = live.value
  if (!seen) return <Empty>Waiting for the first figures …</Empty>
  return (
    <>
      <Refusal why={failure} />
      {seen.runs.map((one) => (
        <RunPanel key={one.plan} run={one} />
      ))}
      <div class="columns">
        <PlanPanel seen={seen} policies={policies} />
        <SettingsPanel seen={seen} policies={policies} />
      </div>
      <ExecutionsPanel />
    </>
  )
}

function RunPanel({ run }: { run: Run }) {
  const ended = run.done + run.failed + run.cancelled
  const stop = async () => {
    await act(async () => {
      await send('DELETE', `/v1/plans/${encodeURIComponent(run.plan)}/execution?by=${encodeURIComponent(myName())}`)
      return `${run.plan}: no more moves begin`
    })
  }
  return (
    <Panel
      title="Under way"
      id={`run-${run.plan}`}
      class="running"
      aside={
        isOperator.value &&
        run.state === 'running' && (
          <button type="button" class="danger" onClick={() => void stop()}>
            Stop
          </button>
        )
      }
    >
      <p>
        <b>
          {run.stage} by {run.policy}
        </b>{' '}
        {run.state !== 'running' && <Badge tone="warn">{run.state}</Badge>} <span class="muted">{run.reason}</span>
      </p>
      <Progress value={ended} of={run.moves} label="Moves that have ended" />
      <p class="muted">
        {count(run.done)} of {count(run.moves)} moved{run.failed > 0 && `, ${run.failed} failed`}
        {run.cancelled > 0 && `, ${run.cancelled} not begun`} · {run.plan} · {run.by}
      </p>
    </Panel>
  )
}

type NumberName = 'alpha' | 'beta' | 'gamma' | 'theta' | 'every_s' | 'hits' | 'shuffle_hits' | 'settle_s' | 'rest_s' | 'evacuate_after_s' | 'idle_below' | 'least_worth'

const THRESHOLDS: [NumberName, string, string][] = [
  ['alpha', 'α', 'Migration is due when cov is above this'],
  ['beta', 'β, bytes/s', 'Migration also needs a mean load above this'],
  ['gamma', 'γ', 'Shuffle is due when cov is above this'],
  ['theta', 'θ, bytes/s', 'Shuffle also needs a mean load above this'],
]
const PACE: [NumberName, string, string][] = [
  ['least_worth', 'Worth at least', 'By the rule worthwhile, a plan gains at least this many times what its moves cost'],
  ['every_s', 'Check every, s', 'Seconds between two checks of the loads'],
  ['hits', 'Checks before migration', 'Migration begins after this many checks in a row find it due'],
  ['shuffle_hits', 'Checks before shuffle', 'Shuffle begins after this many checks in a row find it due'],
  ['settle_s', 'Settle, s', 'After a plan, no other plan begins for this long'],
  ['rest_s', 'Rest, s', 'A subscriber that was moved is not moved again for this long'],
  ['idle_below', 'Idle below', 'A broker whose load is below this share of the mean is idle'],
  ['evacuate_after_s', 'Evacuate after, s', 'A broker that has been dead for this long is evacuated'],
]

function SettingsPanel({ seen, policies }: { seen: Live; policies: Policies | null }) {
  // Typed and not saved yet; all other fields follow the coordinator.
  const [draft, setDraft] = useState<Record<string, string>>({})
  const settings = seen.balancing
  const shown = (name: keyof BalancingSettings) => draft[name] ?? String(settings[name] ?? '')
  const type = (name: string) => (event: { currentTarget: { value: string } }) =>
    setDraft({ ...draft, [name]: event.currentTarget.value })
  const isViewer = !isOperator.value

  const save = async (event: Event) => {
    event.preventDefault()
    const went = await act(async () => {
      await send('PUT', '/v1/balancing', { by: myName(), ...settingsOf(draft) })
      return 'Settings saved'
    })
    if (went) setDraft({})
  }
  const automatic = async () => {
    const on = !settings.automatic
    if (on && !(await confirmed('Balance automatically?', 'From now on the coordinator makes and carries out plans by itself, whenever a threshold is exceeded.', 'Switch on'))) return
    await act(async () => {
      await send('PUT', '/v1/balancing', { automatic: on, by: myName() })
      return on ? 'Balancing is automatic from now on' : 'Plans are carried out only on request from now on'
    })
  }
  const choosePlacement = async (policy: string) => {
    await act(async () => {
      await send('PUT', '/v1/placement-policy', { policy, by: myName() })
      return `New subscribers are placed by ${policy} from now on`
    })
  }
  const number = ([name, label, help]: [NumberName, string, string]) => (
    <label key={name} title={help}>
      {label}
      <input name={name} inputMode="decimal" disabled={isViewer} value={shown(name)} onInput={type(name)} />
    </label>
  )
  const choice = (name: 'migration' | 'shuffle', label: string) => (
    <label>
      {label}
      <select name={name} disabled={isViewer || !policies} value={shown(name)} onChange={type(name)}>
        <option value="">off</option>
        {withChosen(policies?.[name] ?? [], shown(name)).map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  )
  return (
    <Panel
      title="Policies and thresholds"
      aside={
        <button
          type="button"
          role="switch"
          class="switch"
          aria-checked={settings.automatic}
          disabled={isViewer}
          onClick={() => void automatic()}
        >
          Automatic
        </button>
      }
    >
      <p class="verdict">
        {seen.verdict || 'not checked yet'}
        <span class="muted">
          {' '}
          · cov {ratio(seen.overall.cov)} · by chance {ratio(seen.chance_cov)} · mean {bytes(seen.overall.mean)}
        </span>
      </p>
      <form class="fields" onSubmit={save}>
        <label>
          Placement of new subscribers
          <select
            name="placement"
            disabled={isViewer || !policies}
            value={seen.placement}
            onChange={(event) => void choosePlacement(event.currentTarget.value)}
          >
            {withChosen(policies?.placement ?? [], seen.placement).map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        {choice('migration', 'Migration')}
        {choice('shuffle', 'Shuffle')}
        <label title="Whether a plan that is due must also be worth its moves, or not, as in the paper">
          Rule
          <select name="rule" disabled={isViewer} value={shown('rule')} onChange={type('rule')}>
            <option value="worthwhile">worthwhile</option>
            <option value="plain">plain</option>
          </select>
        </label>
        {THRESHOLDS.map(number)}
        <label title="A plan has at most this many moves; empty: no limit">
          Most moves
          <input
            name="max_moves"
            inputMode="numeric"
            placeholder="no limit"
            disabled={isViewer}
            value={shown('max_moves')}
            onInput={type('max_moves')}
          />
        </label>
        <details>
          <summary>Pace</summary>
          <div class="fields">{PACE.map(number)}</div>
        </details>
        {Object.keys(draft).length > 0 && (
          <span class="buttons">
            <button type="submit" class="primary">
              Save
            </button>
            <button type="button" onClick={() => setDraft({})}>
              Discard
            </button>
          </span>
        )}
      </form>
    </Panel>
  )
}
