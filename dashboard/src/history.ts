// The charts' past, carried on with the figures that arrive live.

import type { BrokerFigure, History, Live, OverallName } from './types'

/** How far back charts can reach, in seconds. */
export const RANGES = { '5 min': 300, '30 min': 1800, '24 h': 86400 } as const
export type Range = keyof typeof RANGES

/** Seconds between two moments of a history. A day has one moment a minute: one a second would only fill the memory. */
const EVERY_S: Record<Range, number> = { '5 min': 0.5, '30 min': 2, '24 h': 60 }

const FIGURES: BrokerFigure[] = ['in', 'out', 'model_in', 'model_out', 'connections', 'subscribers']

/** The history with the newest figures added and moments before the range dropped; the same one if it is too early. */
export function carriedOn(past: History, seen: Live, range: Range): History {
  const last_s = past.times_s.at(-1) ?? 0
  if (seen.at_s - last_s < EVERY_S[range]) return past
  const since_s = seen.at_s - RANGES[range]
  let drop = 0
  while (drop < past.times_s.length && (past.times_s[drop] ?? 0) < since_s) drop += 1
  const length = past.times_s.length
  const next: History = {
    times_s: [...past.times_s.slice(drop), seen.at_s],
    overall: { ...past.overall },
    brokers: {},
  }
  for (const name of Object.keys(past.overall) as OverallName[])
    next.overall[name] = [...past.overall[name].slice(drop), seen.overall[name]]
  const there = new Map(seen.brokers.map((one) => [one.name, one]))
  for (const name of new Set([...Object.keys(past.brokers), ...there.keys()])) {
    const before = past.brokers[name]
    const now = there.get(name)
    const figures = {} as Record<BrokerFigure, (number | null)[]>
    for (const figure of FIGURES) {
      const earlier = before ? before[figure].slice(drop) : new Array<null>(length - drop).fill(null)
      figures[figure] = [...earlier, now ? now[figure] : null]
    }
    next.brokers[name] = figures
  }
  return next
}
