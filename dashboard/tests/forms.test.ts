import { expect, test } from 'vitest'
import { asNumber, inputModeOf, numberOrNone, parameterValues, settingsOf, withChosen } from '../src/forms'

test('numbers are sent as numbers, spaces around them are dropped', () => {
  expect(asNumber(' 0.25 ')).toBe(0.25)
  expect(asNumber('-3')).toBe(-3)
  expect(asNumber('1e3')).toBe(1000)
})

test('a text that is no finite number is sent as it was typed, so that the server can refuse it in words', () => {
  for (const text of ['a lot', '', '  ', 'Infinity', '1,5', '1 2']) expect(asNumber(text)).toBe(text)
})

test('an empty limit is no limit', () => {
  expect(numberOrNone(' ')).toBeNull()
  expect(numberOrNone('12')).toBe(12)
  expect(numberOrNone('many')).toBe('many')
})

test('policies are sent as texts, thresholds as numbers, and an empty number of moves as none', () => {
  const draft = { rule: 'plain', migration: 'ldm', shuffle: '', alpha: '0.25', max_moves: '', every_s: 'often' }
  expect(settingsOf(draft)).toEqual({ rule: 'plain', migration: 'ldm', shuffle: '', alpha: 0.25, max_moves: null, every_s: 'often' })
})

test('the placement policy is not sent with the balancing settings', () => {
  expect(settingsOf({ placement: 'nearest' })).toEqual({})
})

test('the chosen policy can be seen even if the server does not list it', () => {
  expect(withChosen(['ldm', 'group'], 'mine')).toEqual(['ldm', 'group', 'mine'])
  expect(withChosen(['ldm', 'group'], 'ldm')).toEqual(['ldm', 'group'])
  expect(withChosen(['ldm'], '')).toEqual(['ldm'])
})

test('a phone shows the keyboard that fits a parameter', () => {
  expect(inputModeOf('BIGINT')).toBe('numeric')
  expect(inputModeOf('DOUBLE')).toBe('decimal')
  expect(inputModeOf('STRING')).toBe('text')
})

test('each parameter is sent in its type', () => {
  const parameters = [
    { name: 'x', type: 'DOUBLE' },
    { name: 'severity', type: 'INT' },
    { name: 'etype', type: 'STRING' },
    { name: 'open', type: 'BOOLEAN' },
  ]
  const texts = { x: ' 1.5', severity: '3', etype: '42', open: 'True' }
  expect(parameterValues(parameters, texts)).toEqual({ x: 1.5, severity: 3, etype: '42', open: true })
})

test('a parameter that does not fit its type is sent as it was typed', () => {
  const parameters = [
    { name: 'x', type: 'DOUBLE' },
    { name: 'open', type: 'BOOLEAN' },
    { name: 'missing', type: 'INT' },
  ]
  expect(parameterValues(parameters, { x: 'here', open: 'perhaps' })).toEqual({ x: 'here', open: 'perhaps', missing: '' })
})
