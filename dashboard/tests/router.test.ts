// @vitest-environment happy-dom
import { beforeEach, describe, expect, test } from 'vitest'
import { go, link, partsOf, route } from '../src/router'

beforeEach(() => {
  location.hash = ''
})

describe('hash routes', () => {
  test.each([
    ['', []],
    ['#', []],
    ['#/', []],
    ['#/channels/try/EmergenciesNear', ['channels', 'try', 'EmergenciesNear']],
    ['#channels', ['channels']],
    ['#/a//b/', ['a', 'b']],
    ['#/channels/try/a%2Fb%20c', ['channels', 'try', 'a/b c']],
  ])('%s has the parts %j', (hash, parts) => {
    expect(partsOf(hash)).toEqual(parts)
  })

  test('a part that can not be decoded stays as it is', () => {
    expect(partsOf('#/try/100%')).toEqual(['try', '100%'])
  })

  test('a link leads to its parts, whatever characters they have', () => {
    const parts = ['channels', 'try', 'a/b #ü%']
    expect(partsOf(link(...parts))).toEqual(parts)
  })

  test('the route follows the address', async () => {
    const changed = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }))
    go('brokers', 'broker 1')
    await changed
    expect(location.hash).toBe('#/brokers/broker%201')
    expect(route.value).toEqual(['brokers', 'broker 1'])
  })
})
