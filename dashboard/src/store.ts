// The page's state. A few small requests fill it, as often as the page on the screen needs them.

import { batch, computed, signal } from '@preact/signals'
import { forgetToken, get, hasToken, keepToken, Refused, whenSignedOut, wordsOf } from './api'
import { meet } from './colours'
import { carriedOn, RANGES, type Range } from './history'
import { route } from './router'
import type { Cluster, Execution, History, Live, Locations, Me } from './types'

export const me = signal<Me | null>(null)
/** Why the page asks for a token; null while it does not know whether one is needed. */
export const signInWhy = signal<string | null>(null)
export const live = signal<Live | null>(null)
/** Why the figures are old; empty if they are not. */
export const trouble = signal('')
export const history = signal<History | null>(null)
export const executions = signal<Execution[]>([])
export const cluster = signal<Cluster | null>(null)
export const hasLocations = signal(false)

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

/** Asks the coordinator for our role, then loads history and figures; asks for a token if one is needed. */
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

// History: fetched when the page opens or the range changes, then carried on with live figures.

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
    if (!missed && history.value) history.value = carriedOn(history.value, seen, range.value)
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
