import { expect, test } from 'vitest'
import { covTone, covWords } from '../../src/ui/tones'

test('cov is good up to α, a warning up to γ, and bad above', () => {
  expect([0, 0.15, 0.16, 0.5, 0.51].map((cov) => covTone(cov, 0.15, 0.5))).toEqual(['good', 'good', 'warn', 'warn', 'bad'])
})

test('the words name the threshold that decides', () => {
  expect(covWords(0.1, 0.15, 0.5)).toBe('≤ α 0.15')
  expect(covWords(0.2, 0.15, 0.5)).toBe('> α 0.15')
  expect(covWords(0.6, 0.15, 0.5)).toBe('> γ 0.5')
})
