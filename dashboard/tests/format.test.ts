import { describe, expect, test } from 'vitest'
import { bytes, clock, count, percent, perSecond, plural, promiseOf, promisesOf, ratio, seconds, shortBytes, when } from '../src/format'

describe('bytes', () => {
  test.each([
    [0, '0 B/s'],
    [999, '999 B/s'],
    [999.4, '999 B/s'],
    [1000, '1.00 kB/s'],
    [12_345, '12.3 kB/s'],
    [123_456, '123 kB/s'],
    [2_500_000, '2.50 MB/s'],
    [3e15, '3000 TB/s'],
    [-1500, '−1.50 kB/s'],
  ])('%d reads %s: three digits and a decimal unit', (value, text) => {
    expect(bytes(value)).toBe(text)
  })

  test('a value that rounds up to a thousand gets the next unit', () => {
    expect(bytes(999.5)).toBe('1.00 kB/s')
    expect(bytes(999_600)).toBe('1.00 MB/s')
  })

  test('a size has no "per second"', () => {
    expect(bytes(1500, false)).toBe('1.50 kB')
  })

  test.each([
    [0, '0 B/s'],
    [2000, '2 kB/s'],
    [2500, '2.5 kB/s'],
    [2250, '2.25 kB/s'],
    [100_000, '100 kB/s'],
    [20_000, '20 kB/s'],
  ])('on an axis %d reads %s: no zeros after the decimal point', (value, text) => {
    expect(shortBytes(value)).toBe(text)
  })
})

describe('seconds', () => {
  test.each([
    [0, '0.0 ms'],
    [0.0042, '4.2 ms'],
    [0.042, '42 ms'],
    [0.42, '420 ms'],
    [0.9996, '1 s'],
    [1.234, '1.23 s'],
    [12.34, '12.3 s'],
    [89.9, '89.9 s'],
    [90, '2 min'],
    [3600, '60 min'],
    [5400, '1.5 h'],
  ])('%d reads %s', (value, text) => {
    expect(seconds(value)).toBe(text)
  })
})

describe('other figures', () => {
  test('counts are whole and have thousands separators', () => {
    expect(count(1234567.4)).toBe('1,234,567')
  })

  test.each([
    [0, '0/s'],
    [0.25, '0.3/s'],
    [9.94, '9.9/s'],
    [42.4, '42/s'],
    [1234, '1,234/s'],
  ])('a rate of %d reads %s: one decimal below ten', (value, text) => {
    expect(perSecond(value)).toBe(text)
  })

  test('a share is shown in per cent', () => {
    expect(percent(0.987)).toBe('99 %')
    expect(percent(0.987, 1)).toBe('98.7 %')
  })

  test('a ratio has three decimals unless told otherwise', () => {
    expect(ratio(0.12345)).toBe('0.123')
    expect(ratio(0.12345, 2)).toBe('0.12')
  })

  test('only one thing is in the singular', () => {
    expect(plural(1, 'move')).toBe('1 move')
    expect(plural(0, 'move')).toBe('0 moves')
    expect(plural(1200, 'move')).toBe('1,200 moves')
    expect(plural(2, 'entry', 'entries')).toBe('2 entries')
  })

  test.each(Object.entries({ bytes, seconds, count, perSecond, percent, ratio }))('%s shows a dash for a missing value', (_, format) => {
    expect(format(null)).toBe('–')
    expect(format(undefined)).toBe('–')
  })

  test.each(Object.entries({ bytes, seconds, ratio }))('%s shows a dash for a value that is not finite', (_, format) => {
    expect(format(NaN)).toBe('–')
    expect(format(Infinity)).toBe('–')
  })
})

describe('promises', () => {
  test('a plan shows what it promised and what was kept, as far as that is known', () => {
    expect(promiseOf({ promised_cov: 0.123, kept_cov: 0.456 })).toBe('0.12, 0.46')
    expect(promiseOf({ promised_cov: 0.123, kept_cov: null })).toBe('0.12, not yet')
    expect(promiseOf({ promised_cov: null, kept_cov: null })).toBe('–')
  })

  test('all plans are summed up in one line', () => {
    expect(promisesOf({ plans: 0, promised_cov: null, kept_cov: null })).toBe('no plan yet')
    expect(promisesOf({ plans: 1, promised_cov: 0.1, kept_cov: 0.2 })).toBe('1 plan: cov 0.10 promised, 0.20 kept')
  })
})

describe('times', () => {
  const local_s = (...parts: [number, number, number, number, number, number]) => new Date(...parts).getTime() / 1000

  test('a clock has 24 hours and seconds', () => {
    expect(clock(local_s(2026, 10, 18, 15, 4, 5))).toBe('15:04:05')
  })

  test('a moment of today has no date', () => {
    const now_s = Date.now() / 1000
    expect(when(now_s)).toBe(clock(now_s))
  })

  test('a moment of another day has its date', () => {
    expect(when(local_s(2020, 2, 9, 7, 8, 9))).toBe('9 Mar 07:08:09')
  })
})
