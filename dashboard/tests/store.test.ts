// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Coordinator } from './coordinator'
import { broker, historyOf, liveAt } from './samples'

type Store = typeof import('../src/store')
const ME = { role: 'operator', needs_token: true, version: '0', has_cluster: true, has_roads: false }
const CLUSTER = { trouble: '', state: 'up', pending_bytes: 0, channels: [], feeds: [], datasets: [] }
let coordinator: Coordinator
let store: Store

beforeEach(async () => {
  vi.useFakeTimers()
  vi.resetModules()
  sessionStorage.clear()
  coordinator = new Coordinator()
  coordinator.answer('/dashboard/api/sign-in', { needs_token: true })
  coordinator.answer('/dashboard/api/me', ME)
  coordinator.answer('/dashboard/api/live', liveAt(1000, { brokers: [broker('one')] }))
  coordinator.answer('/dashboard/api/history', historyOf([999], { one: [3] }))
  coordinator.answer('/dashboard/api/cluster', CLUSTER)
  coordinator.answer('/v1/executions', { executions: [] })
  store = await import('../src/store')
})

afterEach(() => vi.useRealTimers())

describe('signing in', () => {
  test('the page asks for a token if the coordinator needs one', async () => {
    await store.enter()
    expect(store.signInWhy.value).toBe('')
    expect(store.me.value).toBeNull()
    expect(coordinator.askedFor('/dashboard/api/me')).toHaveLength(0)
  })

  test('the page opens without a token if the coordinator needs none', async () => {
    coordinator.answer('/dashboard/api/sign-in', { needs_token: false })
    await store.enter()
    expect(store.signInWhy.value).toBeNull()
    expect(store.live.value?.brokers[0]?.name).toBe('one')
    expect(store.history.value?.times_s).toContain(999)
  })

  test("a refused token is forgotten, and the form shows the server's words", async () => {
    coordinator.refuse('/dashboard/api/me', 401, { error: { code: 'unauthorized', message: 'give the API token' } })
    await store.signIn('guessed', 'ada')
    expect(store.signInWhy.value).toBe('give the API token')
    expect(sessionStorage.getItem('tocsin.token')).toBeNull()
  })

  test('the right token opens the page, and the role decides who may act', async () => {
    await store.signIn('secret', 'ada')
    expect(store.signInWhy.value).toBeNull()
    expect(store.isOperator.value).toBe(true)
    coordinator.answer('/dashboard/api/me', { ...ME, role: 'viewer' })
    await store.enter()
    expect(store.isOperator.value).toBe(false)
  })

  test('signing out leaves no figures behind', async () => {
    await store.signIn('secret', 'ada')
    store.signOut('bye')
    expect([store.me.value, store.live.value, store.history.value, store.cluster.value]).toEqual([null, null, null, null])
    expect(store.signInWhy.value).toBe('bye')
  })

  test('a coordinator that does not answer is asked again until it does', async () => {
    coordinator.answer('/dashboard/api/sign-in', () => {
      throw new TypeError('connection refused')
    })
    await store.enter()
    expect(store.trouble.value).toContain('does not answer')
    coordinator.answer('/dashboard/api/sign-in', { needs_token: false })
    await vi.advanceTimersByTimeAsync(2000)
    expect(store.trouble.value).toBe('')
    expect(store.me.value?.role).toBe('operator')
  })
})

describe('live figures', () => {
  beforeEach(() => store.signIn('secret', 'ada'))

  test('carry the history on', async () => {
    coordinator.answer('/dashboard/api/live', liveAt(1003, { brokers: [broker('one', { subscribers: 8 })] }))
    await store.refresh()
    expect(store.history.value?.brokers.one?.subscribers.at(-1)).toBe(8)
    expect(coordinator.askedFor('/dashboard/api/history')).toHaveLength(1)
  })

  test('after a gap of more than ten seconds the history is loaded anew', async () => {
    coordinator.answer('/dashboard/api/live', liveAt(1011))
    coordinator.answer('/dashboard/api/history', historyOf([1001, 1011]))
    await store.refresh()
    expect(store.history.value?.times_s).toEqual([1001, 1011])
  })

  test('executions are fetched again only if the audit log has grown or a plan is under way', async () => {
    const asked = () => coordinator.askedFor('/v1/executions').length
    const before = asked()
    await store.refresh()
    expect(asked()).toBe(before)
    coordinator.answer('/dashboard/api/live', liveAt(1002, { audited: 7 }))
    await store.refresh()
    await store.refresh()
    expect(asked()).toBe(before + 1)
  })

  test('only the newest choice of a range counts, even if its answer comes first', async () => {
    let late: (value: Response) => void = () => {}
    coordinator.answer('/dashboard/api/history', () => new Promise<Response>((resolve) => (late = resolve)))
    const slow = store.loadHistory()
    coordinator.answer('/dashboard/api/history', historyOf([5]))
    store.chooseRange('24 h')
    await vi.waitUntil(() => store.history.value?.times_s[0] === 5)
    late(Response.json(historyOf([1])))
    await slow
    expect(store.history.value?.times_s).toEqual([5])
    expect(coordinator.requests.at(-1)?.path).toBe('/dashboard/api/history?back_s=86400')
  })

  test('the cluster is asked only if the coordinator has one', async () => {
    await store.refreshCluster()
    expect(store.cluster.value).toEqual(CLUSTER)
    coordinator.answer('/dashboard/api/me', { ...ME, has_cluster: false })
    await store.enter()
    const before = coordinator.askedFor('/dashboard/api/cluster').length
    await store.refreshCluster()
    expect(coordinator.askedFor('/dashboard/api/cluster')).toHaveLength(before)
  })
})

describe('the map', () => {
  beforeEach(() => store.signIn('secret', 'ada'))

  test('is offered once a broker, a subscriber, a dataset or roads have a location', () => {
    expect(store.hasMap.value).toBe(false)
    store.live.value = liveAt(1, { brokers: [broker('one', { location: [0, 0] })] })
    expect(store.hasMap.value).toBe(true)
    store.live.value = liveAt(1)
    store.cluster.value = { ...CLUSTER, datasets: [{ name: 'Reports', kind: 'active', on_map: true }] }
    expect(store.hasMap.value).toBe(true)
    store.cluster.value = null
    store.hasLocations.value = true
    expect(store.hasMap.value).toBe(true)
    store.hasLocations.value = false
    expect(store.hasMap.value).toBe(false)
  })
})

describe('keeping up', () => {
  test('one request a second while the page is visible; the cluster every tenth time', async () => {
    await store.signIn('secret', 'ada')
    coordinator.answer('/dashboard/api/locations', { version: 1, brokers: [], points: [] })
    coordinator.requests.length = 0
    store.keepUp()
    await vi.advanceTimersByTimeAsync(19_500)
    expect(coordinator.askedFor('/dashboard/api/live')).toHaveLength(20)
    expect(coordinator.askedFor('/dashboard/api/cluster')).toHaveLength(2)
    expect(coordinator.askedFor('/dashboard/api/locations')).toHaveLength(2)
  })

  test('trouble is shown while it lasts', async () => {
    await store.signIn('secret', 'ada')
    coordinator.answer('/dashboard/api/locations', { version: 1, brokers: [], points: [] })
    coordinator.refuse('/dashboard/api/live', 503, { error: { code: 'unavailable', message: 'the disk is full' } })
    store.keepUp()
    await vi.advanceTimersByTimeAsync(1500)
    expect(store.trouble.value).toBe('the disk is full')
    coordinator.answer('/dashboard/api/live', liveAt(1003))
    await vi.advanceTimersByTimeAsync(1500)
    expect(store.trouble.value).toBe('')
  })
})
