// What the page knows: filled by a few small requests, as often as what is on the screen needs them.

import { batch, computed, signal } from '@preact/signals'
import { forgetToken, get, hasToken, keepToken, Refused, whenSignedOut, wordsOf } from './api'
import { meet } from './colours'
import { route } from './router'
import type { BrokerFigure, Cluster, Execution, History, Live, Me, OverallName, Locations } from './types'

export const me = signal<Me | null>(null)
/** Why a token is asked for; null while it is not known whether one is needed. */
export const signInWhy = signal<string | null>(null)
export const live = signal<Live | null>(null)
/** Why what is shown is old; empty if it is not. */
export const trouble = signal('')
export const history = signal<History | null>(null)
export const executions = signal<Execution[]>([])
export const cluster = signal<Cluster | null>(null)
export const hasLocations = signal(false)

export const RANGES = { '5 min': 300, '30 min': 1800, '24 h': 86400 } as const
export type Range = keyof typeof RANGES
export const range = signal<Range>('5 min')

export const isOperator = computed(() => me.value?.role === 'operator')
export const hasMap = computed(
  () =>
    hasLocations.value ||
    (me.value?.has_roads ?? false) ||
    (live.value?.brokers.some((one) => one.location !== null) ?? false) ||
    (cluster.value?.datasets.some((one) => one.on_map) ?? false),
)

export async function signIn(token: string, name: string): Promise<void> {
  keepToken(token, name)
  await enter()
}

export function signOut(why = ''): void {
  forgetToken()
  batch(() => {
    me.value = null
    live.value = null
    history.value = null
    cluster.value = null
    signInWhy.value = why
  })
}

/** Ask who we are; what follows from that is shown. */
export async function enter(): Promise<void> {
  try {
    if (!hasToken() && (await get<{ needs_token: boolean }>('/dashboard/api/sign-in')).needs_token) {
      signOut()
      return
    }
    me.value = await get<Me>('/dashboard/api/me')
    signInWhy.value = null
    trouble.value = ''
    await Promise.all([loadHistory(), refresh()])
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) {
      trouble.value = wordsOf(error)
      setTimeout(() => void enter(), 2000)
    }
  }
}

whenSignedOut((why) => signOut(why))

// History: fetched when the page opens or the range changes, then carried on with what is seen live.

let loading = 0

export async function loadHistory(): Promise<void> {
  loading += 1
  const number = loading
  const found = await get<History>(`/dashboard/api/history?back_s=${RANGES[range.value]}`)
  if (number !== loading) return
  meet(Object.keys(found.brokers))
  history.value = found
}

export function chooseRange(next: Range): void {
  range.value = next
  void attempt(loadHistory)
}

/** A day is told minute by minute; adding every second to it would only fill the memory. */
function carryOn(seen: Live): void {
  const past = history.value
  if (!past) return
  const last_s = past.times_s.at(-1) ?? 0
  const every_s = range.value === '24 h' ? 60 : range.value === '30 min' ? 2 : 0.5
  if (seen.at_s - last_s < every_s) return
  const since_s = seen.at_s - RANGES[range.value]
  let drop = 0
  while (drop < past.times_s.length && (past.times_s[drop] ?? 0) < since_s) drop += 1
  const length = past.times_s.length
  const next: History = {
    times_s: [...past.times_s.slice(drop), seen.at_s],
    overall: { ...past.overall },
    brokers: {},
  }
  for (const name of Object.keys(past.overall) as OverallName[])
    next.overall[name] = [...past.overall[name].slice(drop), seen.overall[name]]
  const there = new Map(seen.brokers.map((one) => [one.name, one]))
  for (const name of new Set([...Object.keys(past.brokers), ...there.keys()])) {
    const before = past.brokers[name]
    const now = there.get(name)
    const figures = {} as Record<BrokerFigure, (number | null)[]>
    for (const figure of ['in', 'out', 'model_in', 'model_out', 'connections', 'subscribers'] as BrokerFigure[]) {
      const earlier = before ? before[figure].slice(drop) : new Array<null>(length - drop).fill(null)
      figures[figure] = [...earlier, now ? now[figure] : null]
    }
    next.brokers[name] = figures
  }
  history.value = next
}

// Live

let audited = -1
let seen_s = 0

export async function refresh(): Promise<void> {
  const seen = await get<Live>('/dashboard/api/live')
  meet(seen.brokers.map((one) => one.name))
  const missed = seen_s > 0 && seen.at_s - seen_s > 10
  seen_s = seen.at_s
  batch(() => {
    live.value = seen
    trouble.value = ''
    if (!missed) carryOn(seen)
  })
  if (missed) await loadHistory()
  if (seen.audited !== audited || seen.runs.length > 0) {
    audited = seen.audited
    executions.value = (await get<{ executions: Execution[] }>('/v1/executions?limit=60')).executions
  }
}

export async function refreshCluster(): Promise<void> {
  if (me.value?.has_cluster) cluster.value = await get<Cluster>('/dashboard/api/cluster')
}

async function lookForLocations(): Promise<void> {
  if (!hasLocations.value) hasLocations.value = (await get<Locations>('/dashboard/api/locations')).points.length > 0
}

async function attempt(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (me.value) trouble.value = wordsOf(error)
  }
}

/** One request a second, while somebody looks. */
export function keepUp(): void {
  let turn = 0
  const beat = async () => {
    if (me.value && !document.hidden) {
      await attempt(refresh)
      const needsCluster = route.value[0] === 'channels' || route.value[0] === 'map'
      if (turn % (needsCluster ? 2 : 10) === 0) await attempt(refreshCluster)
      if (turn % 10 === 1) await attempt(lookForLocations)
      turn += 1
    }
    setTimeout(() => void beat(), 1000)
  }
  void beat()
  document.addEventListener('visibilitychange', () => {
    if (me.value && !document.hidden) void attempt(refresh)
  })
}
