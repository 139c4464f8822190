import { describe, expect, test } from 'vitest'
import { inDirection, smooth } from '../../src/charts/series'

describe('directions', () => {
  test('one direction is shown as it is', () => {
    expect(inDirection('In', [1, 2], [10, 20])).toEqual([1, 2])
    expect(inDirection('Out', [1, 2], [10, 20])).toEqual([10, 20])
  })

  test('both directions are added up; a sum with an unknown part is unknown', () => {
    expect(inDirection('In + out', [1, null, 3, 4], [10, 20, null])).toEqual([11, null, null, null])
  })
})

describe('smoothing', () => {
  test('each moment shows the mean of the last ten seconds', () => {
    expect(smooth([0, 10, 20, 100], [0, 5, 10, 18])).toEqual([0, 5, 10, 60])
  })

  test('a burst is spread out and its bytes are kept', () => {
    const times_s = Array.from({ length: 40 }, (_, second) => second)
    const values = times_s.map((second) => (second === 15 ? 1100 : 0))
    const smoothed = smooth(values, times_s)
    expect(smoothed[15]).toBe(100)
    expect(smoothed.reduce<number>((sum, one) => sum + (one ?? 0), 0)).toBeCloseTo(1100)
  })

  test('unknown values stay unknown and do not count as zero', () => {
    expect(smooth([4, null, 8], [0, 1, 2])).toEqual([4, null, 6])
  })

  test('rounding never makes a load negative', () => {
    const values = [0.1, 0.2, 0.3, 1e9, 0, 0, 0]
    for (const one of smooth(values, [0, 1, 2, 3, 14, 15, 30])) expect(one).toBeGreaterThanOrEqual(0)
  })
})
