import { expect, test } from 'vitest'
import { carriedOn, type Range } from '../src/history'
import { broker, historyOf, liveAt } from './samples'

test('the newest figures come last', () => {
  const past = historyOf([100, 101], { one: [5, 6] })
  const seen = liveAt(102, { brokers: [broker('one', { subscribers: 7, in: 10 })] })
  const next = carriedOn(past, { ...seen, overall: { ...seen.overall, cov: 0.25 } }, '5 min')
  expect(next.times_s).toEqual([100, 101, 102])
  expect(next.brokers.one?.subscribers).toEqual([5, 6, 7])
  expect(next.brokers.one?.in).toEqual([0, 0, 10])
  expect(next.overall.cov).toEqual([0, 0, 0.25])
})

test('the past itself does not change: charts compare it by identity', () => {
  const past = historyOf([100], { one: [5] })
  carriedOn(past, liveAt(200, { brokers: [broker('one')] }), '5 min')
  expect(past).toEqual(historyOf([100], { one: [5] }))
})

test.each<[Range, number, number]>([
  ['5 min', 0.4, 0.5],
  ['30 min', 1.9, 2],
  ['24 h', 59, 60],
])('over %s, figures after %d s are too early, after %d s they are added', (range, early_s, due_s) => {
  const past = historyOf([1000])
  expect(carriedOn(past, liveAt(1000 + early_s), range)).toBe(past)
  expect(carriedOn(past, liveAt(1000 + due_s), range).times_s).toHaveLength(2)
})

test('moments before the range are dropped from all series alike', () => {
  const past = historyOf([100, 200, 300, 500], { one: [1, 2, 3, 5] })
  const next = carriedOn(past, liveAt(600, { brokers: [broker('one', { subscribers: 6 })] }), '5 min')
  expect(next.times_s).toEqual([300, 500, 600])
  expect(next.brokers.one?.subscribers).toEqual([3, 5, 6])
  expect(next.overall.rate).toHaveLength(3)
})

test('a new broker has no past', () => {
  const next = carriedOn(historyOf([100, 101]), liveAt(102, { brokers: [broker('new', { subscribers: 1 })] }), '5 min')
  expect(next.brokers.new?.subscribers).toEqual([null, null, 1])
})

test('a broker that is gone keeps its past and has no present', () => {
  const next = carriedOn(historyOf([100, 101], { gone: [4, 4] }), liveAt(102), '5 min')
  expect(next.brokers.gone?.subscribers).toEqual([4, 4, null])
})

test('an empty history begins with the newest figures', () => {
  expect(carriedOn(historyOf([]), liveAt(102), '24 h').times_s).toEqual([102])
})
