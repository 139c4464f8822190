import { describe, expect, test } from 'vitest'
import { extent, highestOf, positive, roundUp } from '../../src/charts/axis'

describe('the time axis', () => {
  test('covers the range and ends with the newest moment', () => {
    expect(extent([[1000, 1999], [1500, 2000]], 300, 9999)).toEqual({ from: 1700, to: 2000 })
  })

  test('begins with the first moment if the past is shorter than the range', () => {
    expect(extent([[1800, 2000]], 1800, 9999)).toEqual({ from: 1800, to: 2000 })
  })

  test('covers a minute at least', () => {
    expect(extent([[1995, 2000]], 300, 9999)).toEqual({ from: 1940, to: 2000 })
  })

  test('ends now if there are no moments', () => {
    expect(extent([], 300, 5000)).toEqual({ from: 4940, to: 5000 })
    expect(extent([[]], 300, 5000)).toEqual({ from: 4940, to: 5000 })
  })
})

describe('the value axis', () => {
  test.each([
    [1, 1],
    [1.1, 1.2],
    [0.575, 0.6],
    [7, 8],
    [8.1, 10],
    [950, 1000],
    [1234, 1600],
  ])('%d fits on an axis up to %d', (value, end) => {
    expect(roundUp(value)).toBeCloseTo(end, 12)
  })

  test('every value fits, and at most half of the axis is empty', () => {
    for (let value = 0.001; value < 1e6; value *= 1.07) {
      const end = roundUp(value)
      expect(end).toBeGreaterThanOrEqual(value * (1 - 1e-12))
      expect(end).toBeLessThan(value * 2)
    }
  })

  test('reaches the highest value of all series, and the threshold that must be visible', () => {
    expect(highestOf([[1, null, 3.5], [2]], 1)).toBe(4)
    expect(highestOf([[0.1, null]], 0.575)).toBeCloseTo(0.6, 12)
    expect(highestOf([], 1)).toBe(1)
  })
})

test('a logarithmic axis leaves out values that have no logarithm', () => {
  expect(positive(0, true)).toBeNull()
  expect(positive(-1, true)).toBeNull()
  expect(positive(0.5, true)).toBe(0.5)
  expect(positive(null, true)).toBeNull()
  expect(positive(0)).toBe(0)
})
