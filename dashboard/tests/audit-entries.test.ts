import { describe, expect, test } from 'vitest'
import { contains, detailsOf, grouped, waysOf, withNewest } from '../src/audit-entries'
import { entry, move } from './samples'

const numbers = (entries: { number: number }[]) => entries.map((one) => one.number)

describe('pages', () => {
  test('a new first page replaces the entries that it repeats; older ones stay', () => {
    const known = [entry(5), entry(4), entry(3), entry(2)]
    expect(numbers(withNewest(known, [entry(6), entry(5), entry(4)]))).toEqual([6, 5, 4, 3, 2])
  })

  test('the first page of all is the whole list', () => {
    expect(numbers(withNewest([], [entry(2), entry(1)]))).toEqual([2, 1])
    expect(withNewest([], [])).toEqual([])
  })
})

describe('groups', () => {
  test('moves of one plan that follow each other are one group', () => {
    const entries = [entry(6), move(5, 'a'), move(4, 'a'), move(3, 'b'), entry(2), move(1, 'b')]
    expect(grouped(entries).map(numbers)).toEqual([[6], [5, 4], [3], [2], [1]])
  })

  test('other actions are never grouped', () => {
    expect(grouped([entry(2), entry(1)])).toHaveLength(2)
  })

  test('a group says how many moves went from where to where, and how they ended', () => {
    const moves = [move(3, 'a'), move(2, 'a', { step: 'failed' }), move(1, 'a')]
    expect(waysOf(moves)).toBe('broker-1 → broker-2 done 2 · broker-1 → broker-2 failed 1')
  })
})

describe('words', () => {
  test('a move reads from source to destination, with its outcome, duration, reason and plan', () => {
    const one = move(1, 'plan-7', { step: 'failed', outcome: 'it did not arrive', took_s: 1.234, reason: 'most loaded broker' })
    expect(detailsOf(one)).toBe('broker-1 → broker-2 · failed: it did not arrive · 1.23 s · most loaded broker · plan-7')
  })

  test('details that are no text are shown as JSON', () => {
    const one = entry(1, { details: { alpha: { from: 0.1, to: 0.2 }, automatic: true } })
    expect(detailsOf(one)).toBe('alpha {"from":0.1,"to":0.2} · automatic true')
  })

  test('a filter looks at all columns, whatever the case', () => {
    const one = entry(1, { who: 'Ada', details: { reason: 'Too many' } })
    for (const wanted of ['', 'ada', 'CORDON', 'broker-1', 'too MANY']) expect(contains(one, wanted)).toBe(true)
    expect(contains(one, 'grace')).toBe(false)
  })
})
