// A coordinator for tests: answers the page's requests from a table, and keeps them.

import { vi } from 'vitest'

export interface Request {
  method: string
  path: string
  headers: Record<string, string>
  body: unknown
}

type Answer = Response | unknown

export class Coordinator {
  readonly requests: Request[] = []
  private readonly answers = new Map<string, () => Answer>()

  constructor() {
    vi.stubGlobal('fetch', (path: string, init: RequestInit) => this.respond(path, init))
  }

  /** From now on, this is the answer to requests for a path, whatever its query; a function is called each time. */
  answer(path: string, answer: Answer | (() => Answer)): void {
    this.answers.set(path, typeof answer === 'function' ? (answer as () => Answer) : () => answer)
  }

  refuse(path: string, status: number, error: unknown): void {
    this.answer(path, () => Response.json(error, { status }))
  }

  askedFor(path: string): Request[] {
    return this.requests.filter((one) => one.path.split('?')[0] === path)
  }

  private async respond(path: string, init: RequestInit): Promise<Response> {
    const body = typeof init.body === 'string' ? (JSON.parse(init.body) as unknown) : undefined
    this.requests.push({ method: init.method ?? 'GET', path, headers: init.headers as Record<string, string>, body })
    const answer = this.answers.get(path.split('?')[0] ?? '')
    if (!answer) throw new TypeError(`no answer to ${path}`)
    const given = await answer()
    return given instanceof Response ? given : Response.json(given)
  }
}
