// @vitest-environment happy-dom
import { beforeEach, describe, expect, test } from 'vitest'
import { Camera } from '../../src/map/camera'
import { nearest } from '../../src/map/nearest'
import { FADES_AFTER_MS, Scene, whereIs } from '../../src/map/scene'
import type { Locations } from '../../src/types'
import { broker } from '../samples'

const FIRST: Locations = { version: 1, brokers: ['one', 'two'], names: ['ann', 'bob'], points: [0, 0, 0, 100, 50, 1] }
let scene: Scene

beforeEach(() => {
  scene = new Scene()
  scene.takeLocations(FIRST, 1000)
})

function person(name: string) {
  const found = scene.people.find((one) => one.name === name)
  if (!found) throw new Error(`no ${name} on the map`)
  return found
}

describe('people', () => {
  test('stand where the coordinator says, at their brokers', () => {
    expect(scene.people.map((one) => [one.name, one.x, one.y, one.broker])).toEqual([
      ['ann', 0, 0, 'one'],
      ['bob', 100, 50, 'two'],
    ])
    expect(scene.version).toBe(1)
  })

  test('are counted by broker; those at no broker are not', () => {
    expect([...scene.counts()]).toEqual([
      ['one', 1],
      ['two', 1],
    ])
    scene.takeLocations({ version: 1, brokers: ['one'], points: [0, 0, 0, 100, 50, -1] }, 2000)
    expect([...scene.counts()]).toEqual([['one', 1]])
  })

  test('glide to a new location within a second', () => {
    scene.takeLocations({ version: 1, brokers: ['one', 'two'], points: [80, 40, 0, 100, 50, 1] }, 5000)
    expect(whereIs(person('ann'), 5000)).toEqual([0, 0])
    expect(whereIs(person('ann'), 5500)).toEqual([40, 20])
    expect(whereIs(person('ann'), 7000)).toEqual([80, 40])
  })

  test('turn on their way without a jump', () => {
    scene.takeLocations({ version: 1, brokers: ['one', 'two'], points: [80, 40, 0, 100, 50, 1] }, 5000)
    scene.takeLocations({ version: 1, brokers: ['one', 'two'], points: [0, 0, 0, 100, 50, 1] }, 5500)
    expect(whereIs(person('ann'), 5500)).toEqual([40, 20])
    expect(whereIs(person('ann'), 6000)).toEqual([20, 10])
  })

  test('remember the broker that they have left, and when', () => {
    scene.takeLocations({ version: 1, brokers: ['one', 'two'], points: [0, 0, 1, 100, 50, 1] }, 6000)
    expect(person('ann')).toMatchObject({ broker: 'two', before: 'one', changedAt_ms: 6000 })
    expect(person('bob').changedAt_ms).toBeLessThan(0)
  })

  test('keep their history when the list of names changes', () => {
    scene.takeLocations({ version: 1, brokers: ['one', 'two'], points: [0, 0, 1, 100, 50, 1] }, 6000)
    scene.takeLocations({ version: 2, brokers: ['one', 'two'], names: ['cid', 'ann'], points: [9, 9, 0, 0, 0, 1] }, 7000)
    expect(scene.people.map((one) => one.name)).toEqual(['cid', 'ann'])
    expect(person('ann')).toMatchObject({ broker: 'two', before: 'one', changedAt_ms: 6000 })
    expect(whereIs(person('cid'), 7000)).toEqual([9, 9])
  })

  test('stay where they are if an answer is for another list of names', () => {
    scene.takeLocations({ version: 2, brokers: ['one'], points: [7, 7, 0] }, 7000)
    expect(person('ann')).toMatchObject({ x: 0, y: 0, broker: 'one' })
  })
})

describe('events', () => {
  const events = (...texts: string[]) => ({
    dataset: 'Reports',
    commit: 1,
    rows: texts.map((text): [number, number, string, string] => [1, 2, 'fire', text]),
  })

  test('of one answer appear one after the other', () => {
    expect(scene.takeEvents(events('a', 'b', 'c'), 1000, false).map((one) => one.seenAt_ms)).toEqual([1000, 1040, 1080])
  })

  test('from before the page was opened have faded for the most part', () => {
    const [one] = scene.takeEvents(events('old'), 50_000, true)
    expect(50_000 - (one?.seenAt_ms ?? 0)).toBe(FADES_AFTER_MS * 0.6)
  })

  test('are dropped once they have faded', () => {
    scene.takeEvents(events('old'), 1000, false)
    scene.takeEvents(events('new'), 1001 + FADES_AFTER_MS, false)
    expect(scene.events.map((one) => one.text)).toEqual(['new'])
  })

  test('are at most 400, the newest ones', () => {
    scene.takeEvents(events(...Array.from({ length: 300 }, () => 'first')), 1000, false)
    scene.takeEvents(events(...Array.from({ length: 300 }, () => 'second')), 1100, false)
    expect(scene.events).toHaveLength(400)
    expect(scene.events.filter((one) => one.text === 'second')).toHaveLength(300)
  })
})

describe('brokers', () => {
  test('with a location are on the map, sorted by name; dead ones are not up', () => {
    scene.takeBrokers([
      broker('b-10', { location: [1, 1] }),
      broker('b-2', { location: [2, 2], state: 'dead' }),
      broker('b-1'),
    ])
    expect(scene.brokers).toEqual([
      { name: 'b-2', location: [2, 2], isUp: false },
      { name: 'b-10', location: [1, 1], isUp: true },
    ])
  })
})

describe('bounds', () => {
  test('hold people, brokers and roads', () => {
    scene.takeBrokers([broker('one', { location: [-5, 300] })])
    scene.roads = { bounds: [-100, -50, 80, 60], lines: [] }
    expect(scene.bounds()).toEqual({ left: -100, bottom: -50, right: 100, top: 300 })
  })

  test('are those of the events if nothing else has a location', () => {
    const bare = new Scene()
    expect(bare.bounds()).toBeNull()
    bare.takeEvents({ dataset: 'Reports', commit: 1, rows: [[3, 4, 'fire', '']] }, 0, false)
    expect(bare.bounds()).toEqual({ left: 3, bottom: 4, right: 3, top: 4 })
  })
})

describe('the pointer', () => {
  let camera: Camera
  beforeEach(() => {
    camera = new Camera()
    camera.width = 200
    camera.height = 200
  })

  test('names the nearest thing within twelve pixels', () => {
    scene.takeBrokers([broker('one', { location: [10, 0] })])
    expect(nearest(scene, camera, 102, 100, 9000)).toBe('ann at one')
    expect(nearest(scene, camera, 108, 100, 9000)).toBe('one')
    expect(nearest(scene, camera, 100, 113, 9000)).toBe('')
  })

  test('names an event by its type, or by its dataset if it has none', () => {
    scene.takeEvents({ dataset: 'Reports', commit: 1, rows: [[0, 60, '', 'smoke'], [0, -60, 'fire', 'a barn']] }, 0, false)
    expect(nearest(scene, camera, 100, 40, 0)).toBe('Reports: smoke')
    expect(nearest(scene, camera, 100, 160, 0)).toBe('fire: a barn')
  })
})
