import { expect, test } from 'vitest'
import { grantedTo, lastHourOf, parametersOf, sizeOf } from '../src/channel-words'
import { channel } from './samples'

test('parameters read as a statement declares them, those that brokers fill in last', () => {
  const one = channel({
    parameters: [
      { name: 'etype', type: 'STRING' },
      { name: 'x', type: 'DOUBLE' },
    ],
    filled: [{ name: 'who', filled_by: 'USER' }],
  })
  expect(parametersOf(one)).toBe('etype STRING, x DOUBLE, who IS USER')
})

test('a channel says which classes may subscribe', () => {
  expect(grantedTo(channel({ granted_to: null }))).toBe('granted to all')
  expect(grantedTo(channel({ granted_to: [] }))).toBe('granted to nobody')
  expect(grantedTo(channel({ granted_to: ['medics', ''] }))).toBe('granted to medics, users without a class')
})

test('a channel says what it cost in all and in the last hour', () => {
  const one = channel({
    spark_s: 400,
    results: 90_000,
    result_bytes: 1_230_000,
    last_hour_spark_s: 12.34,
    last_hour_results: 1,
    last_hour_result_bytes: 140,
  })
  expect(sizeOf(one)).toBe('1.23 MB of results')
  expect(lastHourOf(one)).toBe('last hour: 12.3 s, 1 result, 140 B')
})

test('a channel that has not run for an hour says so', () => {
  expect(lastHourOf(channel({ spark_s: 3, results: 5, result_bytes: 700 }))).toBe('nothing in the last hour')
})

test('a run without results is a cost of the last hour', () => {
  expect(lastHourOf(channel({ last_hour_spark_s: 0.5 }))).toBe('last hour: 500 ms, 0 results, 0 B')
})
