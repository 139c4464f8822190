import { describe, expect, test } from 'vitest'
import { eventsOf, type StreamEvent } from '../src/event-stream'

async function read(...chunks: Uint8Array[]): Promise<StreamEvent[]> {
  const body = new ReadableStream({
    start(control) {
      for (const chunk of chunks) control.enqueue(chunk)
      control.close()
    },
  })
  const events: StreamEvent[] = []
  for await (const one of eventsOf(new Response(body))) events.push(one)
  return events
}

const encoded = (text: string) => new TextEncoder().encode(text)

const TEXT = 'event: subscribed\ndata: {"subscription": "s1"}\n\nevent: notification\ndata: {"street": "Prinzenstraße"}\n\n'
const EVENTS = [
  { name: 'subscribed', data: { subscription: 's1' } },
  { name: 'notification', data: { street: 'Prinzenstraße' } },
]

describe('an event stream', () => {
  test('is read event by event', async () => {
    expect(await read(encoded(TEXT))).toEqual(EVENTS)
  })

  test('reads the same byte by byte, even inside a character', async () => {
    expect(await read(...[...encoded(TEXT)].map((byte) => Uint8Array.of(byte)))).toEqual(EVENTS)
  })

  test('an event without a name is a message, its data may have many lines', async () => {
    expect(await read(encoded('data: [1,\ndata: 2]\n\n'))).toEqual([{ name: 'message', data: [1, 2] }])
  })

  test('comments, which keep the connection open, are no events', async () => {
    expect(await read(encoded(': still here\n\n'), encoded('data: 1\n\n'))).toEqual([{ name: 'message', data: 1 }])
  })

  test('an event that was cut off is not delivered', async () => {
    expect(await read(encoded('data: 1\n\ndata: 2\n'))).toEqual([{ name: 'message', data: 1 }])
  })

  test('an answer without a body has no events', async () => {
    const events: StreamEvent[] = []
    for await (const one of eventsOf(new Response(null))) events.push(one)
    expect(events).toEqual([])
  })

  test('the connection is closed when the reader stops early', async () => {
    let isCancelled = false
    const body = new ReadableStream({
      pull: (control) => control.enqueue(encoded('data: 1\n\n')),
      cancel: () => {
        isCancelled = true
      },
    })
    for await (const one of eventsOf(new Response(body))) {
      expect(one.data).toBe(1)
      break
    }
    expect(isCancelled).toBe(true)
  })
})
