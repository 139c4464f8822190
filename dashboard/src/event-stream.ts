// Server-Sent Events by fetch: EventSource can't send a bearer token, nor a body.

export interface StreamEvent {
  name: string
  data: unknown
}

export async function* eventsOf(answer: Response): AsyncGenerator<StreamEvent> {
  if (!answer.body) return
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      rest += value
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        const event = parse(rest.slice(0, end))
        rest = rest.slice(end + 2)
        if (event) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function parse(text: string): StreamEvent | null {
  let name = 'message'
  const data: string[] = []
  for (const line of text.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim()
    else if (line.startsWith('data:')) data.push(line.slice(5).trimStart())
  }
  return data.length > 0 ? { name, data: JSON.parse(data.join('\n')) as unknown } : null
}
