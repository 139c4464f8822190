// Preview a plan: before and after, reasons, how far from the best; then carry it out.

import { useState } from 'preact/hooks'
import { myName, send, wordsOf } from '../api'
import { byName, colourOf } from '../colours'
import { flowsOf } from '../flows'
import { bytes, count, plural, ratio } from '../format'
import { asNumber, numberOrNone } from '../forms'
import { isOperator } from '../store'
import type { Live, Plan, Policies } from '../types'
import { BrokerName, Empty, Panel, Refusal } from '../ui/bits'
import { confirmed } from '../ui/confirm'
import { act } from '../ui/toast'

const SHOWN_MOVES = 200

export function PlanPanel({ seen, policies }: { seen: Live; policies: Policies | null }) {
  const [stage, setStage] = useState<'migration' | 'shuffle'>('migration')
  const [policy, setPolicy] = useState('')
  const [covAtMost, setCovAtMost] = useState('')
  const [maxMoves, setMaxMoves] = useState('')
  const [reason, setReason] = useState('')
  const [plan, setPlan] = useState<Plan | null>(null)
  const [failure, setFailure] = useState('')
  const [busy, setBusy] = useState(false)

  const preview = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    setFailure('')
    try {
      const body = {
        stage,
        policy,
        cov_at_most: covAtMost.trim() === '' ? seen.balancing.alpha : asNumber(covAtMost),
        max_moves: numberOrNone(maxMoves),
        reason: reason.trim() || `cov ${ratio(seen.overall.cov)}, asked for at most ${covAtMost.trim() || seen.balancing.alpha}`,
      }
      setPlan(await send<Plan>('POST', `/v1/plans?moves=${SHOWN_MOVES}`, body))
    } catch (error) {
      setPlan(null)
      setFailure(wordsOf(error))
    }
    setBusy(false)
  }
  const carryOut = async () => {
    if (!plan) return
    const agreed = await confirmed(
      `Move ${plural(plan.move_count, 'subscriber')}?`,
      'They go to other brokers, a few at a time, and miss nothing. You can stop at any time.',
      'Carry it out',
    )
    if (!agreed) return
    const went = await act(async () => {
      const begun = await send<{ moves: number }>('POST', `/v1/plans/${encodeURIComponent(plan.plan)}/execution`, { by: myName() })
      return `${plan.plan} is being carried out: ${plural(begun.moves, 'move')}`
    })
    if (went) setPlan(null)
  }
  if (!isOperator.value)
    return (
      <Panel title="Plan">
        <Empty>Only operators make plans.</Empty>
      </Panel>
    )
  return (
    <Panel title="Plan" id="plan">
      <form class="fields" onSubmit={preview}>
        <label>
          Stage
          <select
            name="stage"
            value={stage}
            onChange={(event) => {
              setStage(event.currentTarget.value as 'migration' | 'shuffle')
              setPolicy('')
            }}
          >
            <option value="migration">migration</option>
            <option value="shuffle">shuffle</option>
          </select>
        </label>
        <label>
          Policy
          <select name="policy" value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
            <option value="">default</option>
            {(policies?.[stage] ?? []).map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <label title="The unevenness that the plan aims at">
          cov at most
          <input
            name="cov_at_most"
            inputMode="decimal"
            placeholder={String(seen.balancing.alpha)}
            value={covAtMost}
            onInput={(event) => setCovAtMost(event.currentTarget.value)}
          />
        </label>
        <label title="The plan has at most this many moves">
          Most moves
          <input
            name="plan_max_moves"
            inputMode="numeric"
            placeholder="no limit"
            value={maxMoves}
            onInput={(event) => setMaxMoves(event.currentTarget.value)}
          />
        </label>
        <label title="For the audit log">
          Reason
          <input
            name="reason"
            maxLength={500}
            placeholder="cov is too high"
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </label>
        <span class="buttons">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? 'Planning …' : 'Preview a plan'}
          </button>
        </span>
      </form>
      <Refusal why={failure} />
      {plan ? (
        <Preview plan={plan} onExecute={() => void carryOut()} onDiscard={() => setPlan(null)} isBusy={seen.runs.length > 0} />
      ) : (
        !failure && <Empty>A preview moves no subscribers. It shows each broker's load before and after, the moves and their reasons.</Empty>
      )}
    </Panel>
  )
}

function Preview(props: { plan: Plan; onExecute: () => void; onDiscard: () => void; isBusy: boolean }) {
  const { plan } = props
  const rows = [...plan.brokers].sort((a, b) => byName(a.broker, b.broker))
  const most = Math.max(...rows.map((one) => Math.max(one.score_before, one.score_after)), plan.lower_bound, 1)
  const at = (value: number) => `${((100 * value) / most).toFixed(2)}%`
  return (
    <div class="preview" data-plan={plan.plan}>
      <div class="figures-and-bars">
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">{plan.move_count === 0 ? 'Nothing to move' : plural(plan.move_count, 'move')}</th>
            <th scope="col" class="number">
              before
            </th>
            <th scope="col" class="number">
              after
            </th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">cov</th>
            <td class="number">{ratio(plan.before.cov)}</td>
            <td class="number">
              <b>{ratio(plan.after.cov)}</b>
            </td>
          </tr>
          <tr>
            <th scope="row">highest load</th>
            <td class="number">{bytes(plan.before.max)}</td>
            <td class="number">
              <b>{bytes(plan.after.max)}</b>
            </td>
          </tr>
          <tr>
            <th scope="row">sum of loads</th>
            <td class="number">{bytes(plan.before.total)}</td>
            <td class="number">{bytes(plan.after.total)}</td>
          </tr>
          <tr>
            <th scope="row">lower bound</th>
            <td class="number" title="No plan brings the highest load below it">
              {bytes(plan.lower_bound)}
            </td>
            <td class="number" title="The highest load over the lower bound">
              {ratio(plan.gap, 2)} ×
            </td>
          </tr>
        </tbody>
      </table>
      <div>
      <ul class="before-after" aria-label="Loads before and after, for their capacity">
        {rows.map((one) => (
          <li key={one.broker}>
            <BrokerName name={one.broker} />
            <span class="pair" aria-hidden="true">
              <i class="before" style={{ width: at(one.score_before), borderColor: colourOf(one.broker) }} />
              <i class="after" style={{ width: at(one.score_after), background: colourOf(one.broker) }} />
              <i class="bound" style={{ left: at(plan.lower_bound) }} />
            </span>
            <span class="number">
              {bytes(one.score_before)} → <b>{bytes(one.score_after)}</b>
            </span>
          </li>
        ))}
      </ul>
      <p class="caption">Hollow: before. Filled: after. Dashed: the lower bound, which no plan beats.</p>
      </div>
      </div>
      {plan.move_count > 0 && <Moves plan={plan} />}
      <p class="buttons">
        <button type="button" class="primary" disabled={plan.move_count === 0 || props.isBusy} onClick={props.onExecute}>
          Carry out {plural(plan.move_count, 'move')}
        </button>
        <button type="button" onClick={props.onDiscard}>
          Discard
        </button>
        {props.isBusy && <span class="muted">another plan is under way</span>}
      </p>
    </div>
  )
}

function Moves({ plan }: { plan: Plan }) {
  const ordered = flowsOf(plan.moves)
  return (
    <div class="table">
      <table class="cards moves">
        <caption>
          The moves and their reasons
          {plan.move_count > plan.moves.length && ` (the first ${count(plan.moves.length)} of ${count(plan.move_count)})`}
        </caption>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col" class="number">
              Subscribers
            </th>
            <th scope="col" class="number">
              Their load
            </th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {ordered.map((one) => (
            <tr key={`${one.source} ${one.destination}`}>
              <td data-label="From">
                <BrokerName name={one.source} />
              </td>
              <td data-label="To">
                <BrokerName name={one.destination} />
              </td>
              <td data-label="Subscribers" class="number">
                {count(one.moves)}
              </td>
              <td data-label="Their load" class="number">
                {bytes(one.load)}
              </td>
              <td data-label="Why">{one.reasons.join('; ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
