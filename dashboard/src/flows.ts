// The moves of a plan, summed by source and destination.

import type { Plan } from './types'

export interface Flow {
  source: string
  destination: string
  moves: number
  load: number
  /** Each reason once, in the order of the moves. */
  reasons: string[]
}

/** The largest flow first. */
export function flowsOf(moves: Plan['moves']): Flow[] {
  const flows = new Map<string, Flow>()
  for (const { source, destination, load, reason } of moves) {
    const key = `${source} ${destination}`
    const flow = flows.get(key) ?? { source, destination, moves: 0, load: 0, reasons: [] }
    flow.moves += 1
    flow.load += load
    if (!flow.reasons.includes(reason)) flow.reasons.push(reason)
    flows.set(key, flow)
  }
  return [...flows.values()].sort((a, b) => b.moves - a.moves)
}
