// Series of figures, as charts draw them.

import type { Series } from '../types'

/** Brokers measure bursts, one for each run of a channel. Charts show the mean of this many seconds. */
export const SMOOTH_S = 10

export type Direction = 'In + out' | 'In' | 'Out'

export function inDirection(direction: Direction, incoming: Series, outgoing: Series): Series {
  if (direction === 'In') return incoming
  if (direction === 'Out') return outgoing
  return incoming.map((one, index) => {
    const other = outgoing[index] ?? null
    return one === null || other === null ? null : one + other
  })
}

/** The mean of the last `SMOOTH_S` seconds at each moment. */
export function smooth(values: Series, times_s: number[]): Series {
  const smoothed: Series = []
  let first = 0
  let sum = 0
  let number = 0
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] ?? null
    if (value !== null) {
      sum += value
      number += 1
    }
    while ((times_s[first] ?? 0) < (times_s[index] ?? 0) - SMOOTH_S) {
      const gone = values[first] ?? null
      if (gone !== null) {
        sum -= gone
        number -= 1
      }
      first += 1
    }
    smoothed.push(value === null || number === 0 ? null : Math.max(0, sum / number))
  }
  return smoothed
}
