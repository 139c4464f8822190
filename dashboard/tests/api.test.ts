// @vitest-environment happy-dom
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { call, forgetToken, get, hasToken, keepToken, myName, Refused, send, whenSignedOut, wordsOf } from '../src/api'
import { Coordinator } from './coordinator'

let coordinator: Coordinator
const signedOut = vi.fn()

beforeEach(() => {
  sessionStorage.clear()
  signedOut.mockClear()
  whenSignedOut(signedOut)
  coordinator = new Coordinator()
})

describe('requests', () => {
  test('a signed-in tab sends its token, a signed-out one sends none', async () => {
    coordinator.answer('/v1/things', {})
    await get('/v1/things')
    keepToken('secret', 'ada')
    await get('/v1/things')
    forgetToken()
    await get('/v1/things')
    expect(coordinator.requests.map((one) => one.headers.Authorization)).toEqual([undefined, 'Bearer secret', undefined])
  })

  test('a body is sent as JSON, and the answer is decoded', async () => {
    coordinator.answer('/v1/things', { made: 1 })
    expect(await send('PUT', '/v1/things', { alpha: 0.2 })).toEqual({ made: 1 })
    expect(coordinator.requests[0]).toMatchObject({
      method: 'PUT',
      body: { alpha: 0.2 },
      headers: { 'Content-Type': 'application/json' },
    })
  })
})

describe('refusals', () => {
  test("carry the server's status, code and words", async () => {
    coordinator.refuse('/v1/plans', 422, { error: { code: 'bad_request', message: 'alpha must be a number' } })
    const error = await get('/v1/plans').catch((one: unknown) => one)
    expect(error).toBeInstanceOf(Refused)
    expect(error).toMatchObject({ status: 422, code: 'bad_request', message: 'alpha must be a number' })
  })

  test('point into a statement if the server does', async () => {
    const pointed = 'SELEC 1\n^ expected a statement'
    coordinator.refuse('/v1/statements', 400, { error: { code: 'syntax', message: 'expected a statement', pointed } })
    await expect(send('POST', '/v1/statements', {})).rejects.toThrow(pointed)
  })

  test.each([
    ['no JSON', () => new Response('<h1>Bad gateway</h1>', { status: 502 })],
    ['JSON of another shape', () => Response.json({ detail: 'no' }, { status: 502 })],
    ['nothing', () => new Response(null, { status: 502 })],
  ])('name the status if the answer is %s', async (_, answer) => {
    coordinator.answer('/v1/plans', answer)
    await expect(get('/v1/plans')).rejects.toMatchObject({
      status: 502,
      code: 'http',
      message: 'The coordinator answered with status 502.',
    })
  })

  test('a coordinator that does not answer is a refusal with status 0', async () => {
    await expect(get('/v1/nowhere')).rejects.toMatchObject({ status: 0, code: 'unreachable' })
  })

  test('a request that the page itself ended is no refusal', async () => {
    const control = new AbortController()
    control.abort()
    const error = await call('GET', '/v1/nowhere', undefined, control.signal).catch((one: unknown) => one)
    expect(error).not.toBeInstanceOf(Refused)
  })
})

describe('signing out', () => {
  const unauthorized = { error: { code: 'unauthorized', message: 'give the API token' } }

  test("a token that the server refuses ends the session, with the server's words", async () => {
    coordinator.refuse('/v1/plans', 401, unauthorized)
    keepToken('guessed', '')
    await expect(get('/v1/plans')).rejects.toThrow('give the API token')
    expect(signedOut).toHaveBeenCalledExactlyOnceWith('give the API token')
  })

  test('without a token there is nothing to reproach', async () => {
    coordinator.refuse('/v1/plans', 401, unauthorized)
    await expect(get('/v1/plans')).rejects.toThrow()
    expect(signedOut).toHaveBeenCalledExactlyOnceWith('')
  })

  test('other refusals end no session', async () => {
    coordinator.refuse('/v1/plans', 403, unauthorized)
    await expect(get('/v1/plans')).rejects.toThrow()
    expect(signedOut).not.toHaveBeenCalled()
  })

  test('the name outlives the token, so that it need not be typed again', () => {
    keepToken('secret', 'ada')
    forgetToken()
    expect(hasToken()).toBe(false)
    expect(myName()).toBe('ada')
  })
})

test('the audit log gets a name of at most 64 characters, and "dashboard" if there is none', () => {
  expect(myName()).toBe('dashboard')
  keepToken('secret', '   ')
  expect(myName()).toBe('dashboard')
  keepToken('secret', ` ${'x'.repeat(100)}`)
  expect(myName()).toBe('x'.repeat(64))
})

test('every error has words', () => {
  expect(wordsOf(new Error('it broke'))).toBe('it broke')
  expect(wordsOf('text')).toBe('text')
})
