// Where a chart's axes begin and end.

import type { Series } from '../types'

/** The seconds that a time axis covers: the range, or less if the past is shorter, but a minute at least. */
export function extent(times_s: number[][], range_s: number, now_s: number): { from: number; to: number } {
  const to = Math.max(...times_s.map((one) => one.at(-1) ?? 0), 0) || now_s
  const first = Math.min(...times_s.map((one) => one[0] ?? to), to - 60)
  return { from: Math.max(to - range_s, first), to }
}

/** The end of a value axis: all values fit, and a quarter of it is a short number. */
export function highestOf(values: Series[], atLeast: number): number {
  return roundUp(Math.max(atLeast, ...values.flatMap((one) => one.map((value) => value ?? 0))))
}

/** The next number that an axis can be divided by. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return power * ([1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8].find((one) => one * power >= value) ?? 10)
}

/** A logarithmic axis has no room for zero: such values are left out. */
export function positive(value: number | null, log = false): number | null {
  return log && value !== null && value <= 0 ? null : value
}
