// The map: subscribers, their brokers, and events.

import { useEffect, useRef, useState } from 'preact/hooks'
import { get, wordsOf } from '../api'
import { byName, colourOf, eventColour } from '../colours'
import { clock, count } from '../format'
import { Camera } from '../map/camera'
import { draw } from '../map/draw'
import { nearest } from '../map/nearest'
import { type Happening, Scene } from '../map/scene'
import { cluster, hasMap, live, me } from '../store'
import { isDark } from '../theme'
import type { MapEvents, Locations, Roads } from '../types'
import { Empty, Panel, Refusal } from '../ui/bits'

const FRAME_MS = 33
const LISTED = 30
/** With more people than this, lines to their brokers hide the city. */
const LINES_UP_TO = 700

export function MapPage() {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [scene] = useState(() => new Scene())
  const [camera] = useState(() => new Camera())
  const [counts, setCounts] = useState<Map<string, number>>(new Map())
  const [latest, setLatest] = useState<Happening[]>([])
  const [chosen, setChosen] = useState('')
  const [showsLines, setShowsLines] = useState(true)
  const [failure, setFailure] = useState('')
  const [tip, setTip] = useState<{ left: number; top: number; text: string } | null>(null)
  const shown = useRef({ chosen, showsLines })
  shown.current = { chosen, showsLines: showsLines && scene.people.length <= LINES_UP_TO }

  useEffect(() => {
    const follow = new Follower(scene, (fresh) => {
      setCounts(scene.counts())
      if (fresh.length > 0) setLatest((before) => [...fresh.reverse(), ...before].slice(0, LISTED))
    })
    const stop = follow.run(setFailure)
    return stop
  }, [])
  useEffect(() => (canvas.current ? animate(canvas.current, scene, camera, shown) : undefined), [])
  if (live.value) scene.takeBrokers(live.value.brokers)
  void isDark.value

  if (!hasMap.value && scene.people.length === 0)
    return (
      <Empty>
        <strong>Nothing has a location yet.</strong> Brokers get one with <code>--location x,y</code>, subscribers report
        theirs, and rows of active datasets with columns <code>x</code> and <code>y</code> appear as events.
      </Empty>
    )
  const kinds = [...new Set(latest.map((one) => one.kind))].filter(Boolean).sort()
  const people = [...counts.values()].reduce((sum, one) => sum + one, 0)
  return (
    <div class="map-page">
      <Panel
        title="Map"
        class="map-panel"
        aside={
          <div class="controls">
            <button type="button" aria-pressed={showsLines} onClick={() => setShowsLines(!showsLines)}>
              Lines to brokers
            </button>
            <span class="choice" role="group" aria-label="Zoom">
              <button type="button" aria-label="Closer" onClick={() => camera.zoom(1.4)}>
                +
              </button>
              <button type="button" aria-label="Farther" onClick={() => camera.zoom(1 / 1.4)}>
                −
              </button>
              <button type="button" onClick={() => fit(scene, camera)}>
                All
              </button>
            </span>
          </div>
        }
      >
        <Refusal why={failure} />
        <div class="map-box">
          <canvas
            ref={canvas}
            tabIndex={0}
            role="img"
            aria-label={`Map: ${count(people)} subscribers at ${counts.size} brokers, ${latest.length} recent events. Arrow keys move it, plus and minus zoom.`}
            data-people={people}
            onKeyDown={(event) => steer(event, scene, camera)}
            onPointerMove={(event) => setTip(near(event, scene, camera))}
            onPointerLeave={() => setTip(null)}
          />
          {tip && (
            <div class="map-tip" style={{ left: `${tip.left}px`, top: `${tip.top}px` }}>
              {tip.text}
            </div>
          )}
        </div>
      </Panel>
      <aside class="map-side">
        <Panel title="Subscribers by broker" id="by-broker">
          {people === 0 ? (
            <Empty>No subscriber has reported a location yet.</Empty>
          ) : (
            <ul class="legend column">
              {[...counts.keys()].sort(byName).map((name) => (
                <li key={name}>
                  <button
                    type="button"
                    class="quiet"
                    aria-pressed={chosen === name}
                    onClick={() => setChosen(chosen === name ? '' : name)}
                  >
                    <i class="dot" style={{ background: colourOf(name) }} />
                    {name}
                    <span class="number">{count(counts.get(name))}</span>
                  </button>
                </li>
              ))}
            </ul>
          )}
        </Panel>
        {me.value?.has_cluster && (
          <Panel title="Events" aside={<KindLegend kinds={kinds} />}>
            {latest.length === 0 ? (
              <Empty>No events since the page was opened.</Empty>
            ) : (
              <ol class="events">
                {latest.map((one) => (
                  <li key={`${one.dataset} ${one.seenAt_ms} ${one.x} ${one.y} ${one.text}`}>
                    <time>{clock((performance.timeOrigin + one.seenAt_ms) / 1000)}</time>
                    <i class="dot" style={{ background: eventColour(one.kind) }} />
                    <span>
                      <b>{one.kind || one.dataset}</b>{' '}
                      <span class="muted" title={one.text}>
                        {one.text}
                      </span>
                    </span>
                  </li>
                ))}
              </ol>
            )}
          </Panel>
        )}
      </aside>
    </div>
  )
}

function KindLegend({ kinds }: { kinds: string[] }) {
  return (
    <ul class="legend">
      {kinds.map((one) => (
        <li key={one}>
          <i class="dot" style={{ background: eventColour(one) }} />
          {one}
        </li>
      ))}
    </ul>
  )
}

/** Asks for locations and events once a second, one after the other, while the map is shown. */
class Follower {
  private commits = new Map<string, number>()

  constructor(
    private readonly scene: Scene,
    private readonly changed: (fresh: Happening[]) => void,
  ) {}

  run(failed: (why: string) => void): () => void {
    let isOn = true
    const turn = async () => {
      if (!document.hidden) {
        try {
          await this.fetch()
          failed('')
        } catch (error) {
          failed(wordsOf(error))
        }
      }
      if (isOn) setTimeout(() => void turn(), 1000)
    }
    void turn()
    return () => {
      isOn = false
    }
  }

  private async fetch(): Promise<void> {
    if (!this.scene.roads && me.value?.has_roads) this.scene.roads = await get<Roads>('/dashboard/api/roads')
    this.scene.takeLocations(await get<Locations>(`/dashboard/api/locations?version=${this.scene.version}`), performance.now())
    const fresh: Happening[] = []
    for (const one of cluster.value?.datasets.filter((dataset) => dataset.on_map) ?? []) {
      const known = this.commits.get(one.name)
      const asked = `/dashboard/api/events?dataset=${encodeURIComponent(one.name)}&after=${known ?? 0}`
      const events = await get<MapEvents>(known === undefined ? `${asked}&limit=20` : asked)
      this.commits.set(one.name, events.commit)
      fresh.push(...this.scene.takeEvents(events, performance.now(), known === undefined))
    }
    this.changed(fresh)
  }
}

function fit(scene: Scene, camera: Camera): void {
  const bounds = scene.bounds()
  if (bounds) camera.fit(bounds)
}

/** Draws as long as the canvas is there. When the first things with a location appear, the camera shows all of them. */
function animate(
  canvas: HTMLCanvasElement,
  scene: Scene,
  camera: Camera,
  shown: { current: { chosen: string; showsLines: boolean } },
): () => void {
  const context = canvas.getContext('2d')
  if (!context) return () => {}
  let isOn = true
  let drawnAt_ms = 0
  let fitted = 0
  const frame = (now_ms: number) => {
    if (!isOn) return
    requestAnimationFrame(frame)
    if (now_ms - drawnAt_ms < FRAME_MS) return
    drawnAt_ms = now_ms
    const ratio = devicePixelRatio || 1
    const { clientWidth: width, clientHeight: height } = canvas
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio)
      canvas.height = Math.round(height * ratio)
      camera.width = width
      camera.height = height
      fitted = 0
    }
    const extent = (scene.people.length > 0 ? 2 : 0) + (scene.roads ? 1 : 0) + (scene.brokers.length > 0 ? 4 : 0) + 1
    if (extent > fitted && scene.bounds()) {
      fit(scene, camera)
      fitted = extent
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    draw(context, { scene, camera, ...shown.current, now_ms })
  }
  requestAnimationFrame(frame)
  const release = moveByHand(canvas, camera)
  return () => {
    isOn = false
    release()
  }
}

/** Drag to move, wheel or two fingers to zoom. */
function moveByHand(canvas: HTMLCanvasElement, camera: Camera): () => void {
  const pointers = new Map<number, { left: number; top: number }>()
  const at = (event: PointerEvent | WheelEvent) => {
    const box = canvas.getBoundingClientRect()
    return { left: event.clientX - box.left, top: event.clientY - box.top }
  }
  const down = (event: PointerEvent) => {
    pointers.set(event.pointerId, at(event))
    canvas.setPointerCapture(event.pointerId)
  }
  const move = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId)
    if (!before) return
    const now = at(event)
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1]
    if (other) {
      const was = Math.hypot(before.left - other.left, before.top - other.top)
      const is = Math.hypot(now.left - other.left, now.top - other.top)
      if (was > 0 && is > 0) camera.zoom(is / was, (now.left + other.left) / 2, (now.top + other.top) / 2)
    } else camera.pan(now.left - before.left, now.top - before.top)
    pointers.set(event.pointerId, now)
  }
  const up = (event: PointerEvent) => pointers.delete(event.pointerId)
  const wheel = (event: WheelEvent) => {
    event.preventDefault()
    const { left, top } = at(event)
    camera.zoom(Math.exp(-event.deltaY / 400), left, top)
  }
  const stop = new AbortController()
  const { signal } = stop
  canvas.addEventListener('pointerdown', down, { signal })
  canvas.addEventListener('pointermove', move, { signal })
  canvas.addEventListener('pointerup', up, { signal })
  canvas.addEventListener('pointercancel', up, { signal })
  canvas.addEventListener('wheel', wheel, { signal, passive: false })
  return () => stop.abort()
}

function steer(event: KeyboardEvent, scene: Scene, camera: Camera): void {
  const step = 60
  const moves: Record<string, () => void> = {
    ArrowLeft: () => camera.pan(step, 0),
    ArrowRight: () => camera.pan(-step, 0),
    ArrowUp: () => camera.pan(0, step),
    ArrowDown: () => camera.pan(0, -step),
    '+': () => camera.zoom(1.25),
    '-': () => camera.zoom(0.8),
    '0': () => fit(scene, camera),
  }
  const move = moves[event.key]
  if (move) {
    event.preventDefault()
    move()
  }
}

function near(event: PointerEvent, scene: Scene, camera: Camera): { left: number; top: number; text: string } | null {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
  const left = event.clientX - box.left
  const top = event.clientY - box.top
  const text = nearest(scene, camera, left, top, performance.now())
  return text ? { left, top, text } : null
}
