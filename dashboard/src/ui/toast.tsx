// Messages at the edge of the page: news disappears by itself, errors stay until they are closed.

import { signal } from '@preact/signals'
import { wordsOf } from '../api'
import { refresh } from '../store'

interface Toast {
  number: number
  text: string
  isError: boolean
}

const GOES_AFTER_MS = 6000
const toasts = signal<Toast[]>([])
let last = 0

export function tell(text: string, isError = false): void {
  last += 1
  const number = last
  toasts.value = [...toasts.value.slice(-4), { number, text, isError }]
  if (!isError) setTimeout(() => close(number), GOES_AFTER_MS)
}

function close(number: number): void {
  toasts.value = toasts.value.filter((one) => one.number !== number)
}

/** Does something for the operator and shows a message about the outcome; true if it succeeded. */
export async function act(work: () => Promise<string>): Promise<boolean> {
  try {
    tell(await work())
  } catch (error) {
    tell(wordsOf(error), true)
    return false
  }
  void refresh().catch(() => {})
  return true
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.number} class={one.isError ? 'toast error' : 'toast'} role={one.isError ? 'alert' : undefined}>
          <span>{one.text}</span>
          <button type="button" class="quiet" aria-label="Close this message" onClick={() => close(one.number)}>
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
