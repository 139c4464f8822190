// Draws the scene on a canvas: roads, lines to brokers, people, brokers, events.

import { colourOf, eventColour, kindNumber } from '../colours'
import { token } from '../theme'
import { type Camera, scaleBar } from './camera'
import { FADES_AFTER_MS, type Scene, whereIs } from './scene'

export interface Drawn {
  scene: Scene
  camera: Camera
  showsLines: boolean
  /** Only this broker's people stand out, if one is chosen. */
  chosen: string
  now_ms: number
}

/** How long a move stays visible after the colour has changed. */
const CHANGE_MS = 2500

export function draw(context: CanvasRenderingContext2D, drawn: Drawn): void {
  const { camera } = drawn
  context.fillStyle = token('--map')
  context.fillRect(0, 0, camera.width, camera.height)
  drawRoads(context, drawn)
  if (drawn.showsLines) drawLines(context, drawn)
  drawPeople(context, drawn)
  drawBrokers(context, drawn)
  drawEvents(context, drawn)
  drawScale(context, drawn)
}

function drawRoads(context: CanvasRenderingContext2D, { scene, camera }: Drawn): void {
  if (!scene.roads) return
  context.strokeStyle = token('--road')
  context.lineWidth = Math.min(3, Math.max(0.7, camera.scale * 12))
  context.lineJoin = 'round'
  context.beginPath()
  for (const line of scene.roads.lines) {
    for (let index = 0; index < line.length; index += 2) {
      const [left, top] = camera.toScreen(line[index] ?? 0, line[index + 1] ?? 0)
      if (index === 0) context.moveTo(left, top)
      else context.lineTo(left, top)
    }
  }
  context.stroke()
}

function drawLines(context: CanvasRenderingContext2D, { scene, camera, chosen, now_ms }: Drawn): void {
  const locations = new Map(scene.brokers.map((one) => [one.name, camera.toScreen(...one.location)]))
  context.lineWidth = 0.7
  for (const [name, [toLeft, toTop]] of locations) {
    context.strokeStyle = colourOf(name)
    context.globalAlpha = chosen && chosen !== name ? 0.04 : 0.22
    context.beginPath()
    for (const one of scene.people) {
      if (one.broker !== name) continue
      const [left, top] = camera.toScreen(...whereIs(one, now_ms))
      context.moveTo(left, top)
      context.lineTo(toLeft, toTop)
    }
    context.stroke()
  }
  context.globalAlpha = 1
}

function drawPeople(context: CanvasRenderingContext2D, { scene, camera, chosen, now_ms }: Drawn): void {
  const crowd = scene.people.length
  const radius = crowd > 1500 ? 2.2 : crowd > 400 ? 3 : 4
  const edge = token('--map')
  for (const one of scene.people) {
    if (!one.broker) continue
    const [left, top] = camera.toScreen(...whereIs(one, now_ms))
    if (left < -20 || top < -20 || left > camera.width + 20 || top > camera.height + 20) continue
    const age_ms = now_ms - one.changedAt_ms
    context.globalAlpha = chosen && chosen !== one.broker ? 0.15 : 1
    context.fillStyle = colourOf(one.broker)
    circle(context, left, top, radius)
    context.fill()
    context.lineWidth = 1
    context.strokeStyle = edge
    context.stroke()
    if (age_ms < CHANGE_MS) {
      const share = age_ms / CHANGE_MS
      context.globalAlpha = 1 - share
      context.lineWidth = 2
      context.strokeStyle = colourOf(one.broker)
      circle(context, left, top, radius + 14 * share)
      context.stroke()
      if (share < 0.3 && one.before) {
        context.fillStyle = colourOf(one.before)
        context.globalAlpha = 1 - share / 0.3
        circle(context, left, top, radius)
        context.fill()
      }
    }
  }
  context.globalAlpha = 1
}

function drawBrokers(context: CanvasRenderingContext2D, { scene, camera }: Drawn): void {
  const ink = token('--ink')
  const panel = token('--panel')
  context.font = `600 12px ${token('--font')}`
  context.textAlign = 'center'
  context.textBaseline = 'top'
  for (const one of scene.brokers) {
    const [left, top] = camera.toScreen(...one.location)
    const size = 9
    context.globalAlpha = one.isUp ? 1 : 0.45
    context.fillStyle = one.isUp ? colourOf(one.name) : panel
    context.strokeStyle = one.isUp ? panel : colourOf(one.name)
    context.lineWidth = 2.5
    context.beginPath()
    context.roundRect(left - size, top - size, 2 * size, 2 * size, 4)
    context.fill()
    context.stroke()
    context.strokeStyle = ink
    context.lineWidth = 1
    context.beginPath()
    context.roundRect(left - size - 1.5, top - size - 1.5, 2 * size + 3, 2 * size + 3, 5)
    context.stroke()
    context.lineWidth = 4
    context.lineJoin = 'round'
    context.strokeStyle = token('--map')
    context.strokeText(one.name, left, top + size + 5)
    context.fillStyle = ink
    context.fillText(one.name, left, top + size + 5)
  }
  context.globalAlpha = 1
}

function drawEvents(context: CanvasRenderingContext2D, { scene, camera, now_ms }: Drawn): void {
  for (const one of scene.events) {
    const age_ms = now_ms - one.seenAt_ms
    if (age_ms < 0 || age_ms > FADES_AFTER_MS) continue
    const [left, top] = camera.toScreen(one.x, one.y)
    const fade = 1 - age_ms / FADES_AFTER_MS
    context.strokeStyle = context.fillStyle = eventColour(one.kind)
    if (age_ms < 2400) {
      const wave = (age_ms % 1200) / 1200
      context.globalAlpha = 0.8 * (1 - wave)
      context.lineWidth = 2.5
      circle(context, left, top, 8 + 30 * wave)
      context.stroke()
    }
    context.globalAlpha = 0.16 * fade
    circle(context, left, top, 16)
    context.fill()
    context.globalAlpha = Math.max(0.25, fade)
    shape(context, kindNumber(one.kind), left, top, 7)
    context.fill()
    context.lineWidth = 1.5
    context.strokeStyle = token('--panel')
    context.stroke()
  }
  context.globalAlpha = 1
}

/** Types differ by shape as well as by colour. */
export function shape(context: CanvasRenderingContext2D, number: number, left: number, top: number, size: number): void {
  const corners = [3, 4, 0, 5, 6, 4][number % 6] ?? 0
  const turned = number % 6 === 5 ? Math.PI / 4 : 0
  if (corners === 0) {
    circle(context, left, top, size * 0.9)
    return
  }
  context.beginPath()
  for (let corner = 0; corner < corners; corner += 1) {
    const angle = -Math.PI / 2 + turned + (2 * Math.PI * corner) / corners
    context.lineTo(left + size * 1.15 * Math.cos(angle), top + size * 1.15 * Math.sin(angle))
  }
  context.closePath()
}

function drawScale(context: CanvasRenderingContext2D, { camera }: Drawn): void {
  const { width, text } = scaleBar(camera.scale)
  const [left, top] = [16, camera.height - 18]
  context.strokeStyle = context.fillStyle = token('--muted')
  context.lineWidth = 1.5
  context.beginPath()
  context.moveTo(left, top - 5)
  context.lineTo(left, top)
  context.lineTo(left + width, top)
  context.lineTo(left + width, top - 5)
  context.stroke()
  context.font = `11px ${token('--font')}`
  context.textAlign = 'left'
  context.textBaseline = 'bottom'
  context.fillText(text, left + 4, top - 2)
}

function circle(context: CanvasRenderingContext2D, left: number, top: number, radius: number): void {
  context.beginPath()
  context.arc(left, top, radius, 0, 2 * Math.PI)
}
