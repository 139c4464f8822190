import { expect, test } from 'vitest'
import { grantedTo, parametersOf } from '../src/channel-words'
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
