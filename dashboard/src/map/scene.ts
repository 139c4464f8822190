// The map's contents and their changes: people move and change their broker; events come and fade.

import { byName } from '../colours'
import type { Broker, MapEvents, Locations, Point, Roads } from '../types'
import type { Bounds } from './camera'

export interface Person {
  name: string
  broker: string
  x: number
  y: number
  /** Where it was before, to glide from. */
  fromX: number
  fromY: number
  movedAt_ms: number
  /** The broker it was at before, and since when it is not any more. */
  before: string
  changedAt_ms: number
}

export interface Happening {
  x: number
  y: number
  kind: string
  text: string
  dataset: string
  seenAt_ms: number
}

export const FADES_AFTER_MS = 20_000
const MAX_EVENTS = 400

export class Scene {
  people: Person[] = []
  events: Happening[] = []
  brokers: { name: string; location: Point; isUp: boolean }[] = []
  roads: Roads | null = null
  version = -1

  takeLocations(answer: Locations, now_ms: number): void {
    const names = answer.names
    if (names) {
      const known = new Map(this.people.map((one) => [one.name, one]))
      this.people = names.map((name, index) => known.get(name) ?? this.newPerson(name, answer, index, now_ms))
      this.version = answer.version
    }
    if (answer.points.length !== this.people.length * 3) return
    this.people.forEach((one, index) => {
      const [x, y, broker] = at(answer, index)
      if (x !== one.x || y !== one.y) {
        ;[one.fromX, one.fromY] = whereIs(one, now_ms)
        one.x = x
        one.y = y
        one.movedAt_ms = now_ms
      }
      if (broker !== one.broker) {
        one.before = one.broker
        one.broker = broker
        one.changedAt_ms = now_ms
      }
    })
  }

  takeEvents(answer: MapEvents, now_ms: number, isFirst: boolean): Happening[] {
    // Events from before the page was opened have faded for the most part.
    const age_ms = isFirst ? FADES_AFTER_MS * 0.6 : 0
    const fresh = answer.rows.slice(-MAX_EVENTS).map(([x, y, kind, text], index) => ({
      x,
      y,
      kind,
      text,
      dataset: answer.dataset,
      // Events of one answer come together; a little apart they read better.
      seenAt_ms: now_ms - age_ms + Math.min(800, index * 40),
    }))
    this.events = [...this.events.filter((one) => now_ms - one.seenAt_ms < FADES_AFTER_MS), ...fresh].slice(-MAX_EVENTS)
    return fresh
  }

  takeBrokers(brokers: Broker[]): void {
    this.brokers = brokers
      .filter((one) => one.location !== null)
      .map((one) => ({ name: one.name, location: one.location as Point, isUp: one.state !== 'dead' }))
      .sort((a, b) => byName(a.name, b.name))
  }

  bounds(): Bounds | null {
    const bounds = { left: Infinity, bottom: Infinity, right: -Infinity, top: -Infinity }
    const include = (x: number, y: number) => {
      bounds.left = Math.min(bounds.left, x)
      bounds.right = Math.max(bounds.right, x)
      bounds.bottom = Math.min(bounds.bottom, y)
      bounds.top = Math.max(bounds.top, y)
    }
    for (const one of this.people) include(one.x, one.y)
    for (const one of this.brokers) include(one.location[0], one.location[1])
    if (this.roads) {
      include(this.roads.bounds[0], this.roads.bounds[1])
      include(this.roads.bounds[2], this.roads.bounds[3])
    }
    if (!Number.isFinite(bounds.left)) for (const one of this.events) include(one.x, one.y)
    return Number.isFinite(bounds.left) ? bounds : null
  }

  counts(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const one of this.people) if (one.broker) counts.set(one.broker, (counts.get(one.broker) ?? 0) + 1)
    return counts
  }

  private newPerson(name: string, answer: Locations, index: number, now_ms: number): Person {
    const [x, y, broker] = at(answer, index)
    return { name, broker, x, y, fromX: x, fromY: y, movedAt_ms: now_ms - 1e6, before: broker, changedAt_ms: -1e6 }
  }
}

function at(answer: Locations, index: number): [number, number, string] {
  const { points, brokers } = answer
  return [points[index * 3] ?? 0, points[index * 3 + 1] ?? 0, brokers[points[index * 3 + 2] ?? -1] ?? '']
}

const GLIDE_MS = 1000
const still = matchMedia('(prefers-reduced-motion: reduce)')

export function whereIs(one: Person, now_ms: number): [number, number] {
  const share = still.matches ? 1 : Math.min(1, Math.max(0, (now_ms - one.movedAt_ms) / GLIDE_MS))
  return [one.fromX + (one.x - one.fromX) * share, one.fromY + (one.y - one.fromY) * share]
}
