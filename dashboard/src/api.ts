// Calls to the coordinator. The token lives in this tab only and is sent as a bearer header: no cookie, nothing to forge.

const TOKEN = 'tocsin.token'
const NAME = 'tocsin.name'

/** A refusal, in the server's words. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message)
  }
}

export function keepToken(token: string, name: string): void {
  sessionStorage.setItem(TOKEN, token)
  sessionStorage.setItem(NAME, name)
}

export function forgetToken(): void {
  sessionStorage.removeItem(TOKEN)
}

export function hasToken(): boolean {
  return Boolean(sessionStorage.getItem(TOKEN))
}

/** The operator's name, for the audit log. */
export function myName(): string {
  return sessionStorage.getItem(NAME)?.trim().slice(0, 64) || 'dashboard'
}

let onSignedOut: (why: string) => void = () => {}

export function whenSignedOut(tell: (why: string) => void): void {
  onSignedOut = tell
}

export async function call(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {}
  const token = sessionStorage.getItem(TOKEN)
  if (token) headers.Authorization = `Bearer ${token}`
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  let answer: Response
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Refused(0, 'unreachable', 'The coordinator does not answer. Is it running?')
  }
  if (answer.ok) return answer
  const refused = await refusal(answer)
  if (answer.status === 401) onSignedOut(token ? refused.message : '')
  throw refused
}

export async function get<T>(path: string): Promise<T> {
  return (await call('GET', path)).json() as Promise<T>
}

export async function send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T> {
  return (await call(method, path, body)).json() as Promise<T>
}

export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function refusal(answer: Response): Promise<Refused> {
  try {
    const { error } = (await answer.json()) as { error: { code: string; message: string; pointed?: string } }
    return new Refused(answer.status, error.code, error.pointed ?? error.message)
  } catch {
    return new Refused(answer.status, 'http', `The coordinator answered with status ${answer.status}.`)
  }
}
