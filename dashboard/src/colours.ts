// A colour for each broker, the same in charts, tables and on the map. Chosen so that people with any kind of colour
// vision can tell neighbours apart (after Okabe and Ito, darkened or lightened to stand out from the background).

import { isDark } from './theme'

const LIGHT = ['#0072b2', '#d55e00', '#00805d', '#b0458a', '#7a5c00', '#5a4fcf', '#0090a8', '#6b7280', '#a3242b', '#3d7a00']
const DARK = ['#58b4f0', '#ff9e57', '#3ecb9a', '#f08cc6', '#e6c84a', '#ab9df7', '#5ed4e0', '#b4bcc8', '#ff8a84', '#a5d65a']

const known = new Map<string, number>()

export function byName(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}

/** Gives each new broker the next colour, in the order of their names. */
export function meet(brokers: Iterable<string>): void {
  for (const name of [...brokers].sort(byName)) if (!known.has(name)) known.set(name, known.size)
}

export function colourOf(broker: string): string {
  if (!known.has(broker)) known.set(broker, known.size)
  const palette = isDark.value ? DARK : LIGHT
  return palette[(known.get(broker) ?? 0) % palette.length] ?? '#888888'
}

/** Emergencies and other events, by their type. */
const EVENTS = ['#c9252d', '#1f6feb', '#8250df', '#a85400', '#1a7f37', '#bf3989']
const EVENTS_DARK = ['#ff6b6b', '#79b8ff', '#c297ff', '#ffb454', '#56d364', '#ff8fcf']
/** Types that have a usual colour; others get theirs in the order of their arrival. */
const kinds = new Map<string, number>([
  ['fire', 0],
  ['flood', 1],
  ['storm', 2],
  ['accident', 3],
])

export function kindNumber(kind: string): number {
  if (!kinds.has(kind)) kinds.set(kind, kinds.size)
  return kinds.get(kind) ?? 0
}

export function eventColour(kind: string): string {
  const palette = isDark.value ? EVENTS_DARK : EVENTS
  return palette[kindNumber(kind) % palette.length] ?? '#cc0000'
}
