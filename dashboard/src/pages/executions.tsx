import { useState } from 'preact/hooks'
import { get, wordsOf } from '../api'
import { byName } from '../colours'
import { bytes, count, promiseOf, ratio, when } from '../format'
import { executions } from '../store'
import type { Execution, Step } from '../types'
import { Badge, BrokerName, Empty, Panel } from '../ui/bits'
import { tell } from '../ui/toast'

const TONES: Record<string, 'good' | 'busy' | 'warn' | 'plain'> = {
  done: 'good',
  running: 'busy',
  stopping: 'warn',
  stopped: 'warn',
}

export function ExecutionsPanel() {
  const [open, setOpen] = useState('')
  const [steps, setSteps] = useState<Step[]>([])
  const toggle = async (plan: string) => {
    if (open === plan) {
      setOpen('')
      return
    }
    try {
      setSteps((await get<{ steps: Step[] }>(`/v1/plans/${encodeURIComponent(plan)}/execution?moves=500`)).steps)
      setOpen(plan)
    } catch (error) {
      tell(wordsOf(error), true)
    }
  }
  return (
    <Panel title="Plans carried out" id="executions">
      {executions.value.length === 0 ? (
        <Empty>None yet.</Empty>
      ) : (
        <div class="table">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Begun</th>
                <th scope="col">Stage</th>
                <th scope="col">State</th>
                <th scope="col" class="number">
                  Moves
                </th>
                <th scope="col" class="number">
                  cov expected
                </th>
                <th scope="col" class="number" title="The cov to be expected after the plan, with what chance adds, and the one that brokers measured in the minute after it">
                  Promised, kept
                </th>
                <th scope="col">Why</th>
                <th scope="col">By</th>
                <th scope="col">Moves</th>
              </tr>
            </thead>
            <tbody>
              {executions.value.map((one) => (
                <Rows key={one.plan} execution={one} isOpen={open === one.plan} steps={steps} onToggle={() => void toggle(one.plan)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}

function Rows(props: { execution: Execution; isOpen: boolean; steps: Step[]; onToggle: () => void }) {
  const one = props.execution
  const { before, after } = one.expected
  return (
    <>
      <tr data-execution={one.plan}>
        <td data-label="Begun">
          <time>{when(one.begun_at_us / 1e6)}</time>
        </td>
        <td data-label="Stage">
          {one.stage}
          <small class="muted"> {one.policy}</small>
        </td>
        <td data-label="State">
          <Badge tone={TONES[one.state] ?? 'plain'}>{one.state}</Badge>
        </td>
        <td data-label="Moves" class="number">
          {count(one.done)} of {count(one.moves)}
          {one.failed > 0 && <small class="refused"> {count(one.failed)} failed</small>}
        </td>
        <td data-label="cov expected" class="number">
          {before && after ? `${ratio(before.cov, 2)} → ${ratio(after.cov, 2)}` : '–'}
        </td>
        <td data-label="Promised, kept" class="number">
          {promiseOf(one)}
        </td>
        <td data-label="Why">{one.reason}</td>
        <td data-label="By">{one.by}</td>
        <td class="actions">
          <button type="button" aria-expanded={props.isOpen} aria-label={`Moves of ${one.plan}`} onClick={props.onToggle}>
            {props.isOpen ? 'Hide' : 'Show'}
          </button>
        </td>
      </tr>
      {props.isOpen && (
        <tr class="steps">
          <td colSpan={9}>
            <ul>
              {[...props.steps]
                .sort((a, b) => byName(a.subscriber, b.subscriber))
                .map((step) => (
                  <li key={step.subscriber}>
                    <b>{step.subscriber}</b> <BrokerName name={step.source} /> → <BrokerName name={step.destination} />{' '}
                    <Badge tone={step.step === 'done' ? 'good' : step.step === 'failed' ? 'bad' : 'plain'}>{step.step}</Badge>{' '}
                    <span class="muted">
                      {bytes(step.load)} · {step.reason}
                    </span>
                  </li>
                ))}
            </ul>
          </td>
        </tr>
      )}
    </>
  )
}
