// The thing under the pointer, in words.

import type { Camera } from './camera'
import { type Scene, whereIs } from './scene'

/** Pixels from the pointer. */
const REACH = 12

/** The nearest subscriber, broker or event in reach of a pixel; empty if there is none. */
export function nearest(scene: Scene, camera: Camera, left: number, top: number, now_ms: number): string {
  let best = REACH
  let text = ''
  const consider = (x: number, y: number, label: string) => {
    const [oneLeft, oneTop] = camera.toScreen(x, y)
    const distance = Math.hypot(oneLeft - left, oneTop - top)
    if (distance < best) {
      best = distance
      text = label
    }
  }
  for (const one of scene.people) if (one.broker) consider(...whereIs(one, now_ms), `${one.name} at ${one.broker}`)
  for (const one of scene.brokers) consider(...one.location, one.name)
  for (const one of scene.events) consider(one.x, one.y, `${one.kind || one.dataset}: ${one.text}`)
  return text
}
