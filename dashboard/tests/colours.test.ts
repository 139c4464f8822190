// @vitest-environment happy-dom
import { beforeEach, describe, expect, test, vi } from 'vitest'

let colours: typeof import('../src/colours')
let theme: typeof import('../src/theme')

beforeEach(async () => {
  vi.resetModules()
  localStorage.clear()
  theme = await import('../src/theme')
  colours = await import('../src/colours')
  theme.choose('light')
})

test('names are sorted as people count: broker-2 before broker-10', () => {
  expect(['broker-10', 'broker-2', 'broker-1'].sort(colours.byName)).toEqual(['broker-1', 'broker-2', 'broker-10'])
})

describe("a broker's colour", () => {
  test('follows the order of names, not the order of an answer', () => {
    colours.meet(['broker-2', 'broker-1'])
    const first = colours.colourOf('broker-1')
    expect(first).toBe('#0072b2')
    expect(colours.colourOf('broker-2')).not.toBe(first)
  })

  test('stays when other brokers appear', () => {
    colours.meet(['broker-5'])
    const before = colours.colourOf('broker-5')
    colours.meet(['broker-1', 'broker-5', 'broker-9'])
    expect(colours.colourOf('broker-5')).toBe(before)
  })

  test('differs among the first ten brokers', () => {
    const names = Array.from({ length: 10 }, (_, index) => `broker-${index}`)
    expect(new Set(names.map(colours.colourOf)).size).toBe(10)
  })

  test('is given to brokers beyond ten as well', () => {
    for (let index = 0; index < 25; index += 1) expect(colours.colourOf(`broker-${index}`)).toMatch(/^#[0-9a-f]{6}$/)
  })

  test('has a brighter form in the dark', () => {
    const before = colours.colourOf('broker-1')
    theme.choose('dark')
    expect(colours.colourOf('broker-1')).not.toBe(before)
  })
})

test('a fire is red, a flood is blue; unknown types get colours in the order of their arrival', () => {
  expect(colours.kindNumber('flood')).toBe(1)
  expect(colours.eventColour('fire')).toBe('#c9252d')
  expect(colours.kindNumber('meteor')).toBe(4)
  expect(colours.kindNumber('plague')).toBe(5)
  expect(colours.kindNumber('meteor')).toBe(4)
})

test('the choice of colours is remembered; the system decides until there is one', async () => {
  localStorage.clear()
  vi.resetModules()
  const fresh = await import('../src/theme')
  expect(fresh.choice.value).toBe('auto')
  fresh.choose('dark')
  expect(fresh.isDark.value).toBe(true)
  vi.resetModules()
  const later = await import('../src/theme')
  expect(later.choice.value).toBe('dark')
})
