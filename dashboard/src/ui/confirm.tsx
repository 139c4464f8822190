// Asks before an action that is hard to undo. A real dialog: Escape closes it, focus stays inside and comes back. A
// question belongs to the page that asks: leaving that page, or signing out, answers no.

import { effect, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { route } from '../router'
import { signInWhy } from '../store'

interface Question {
  title: string
  text: string
  yes: string
  answer: (agreed: boolean) => void
}

const question = signal<Question | null>(null)

export function confirmed(title: string, text: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    end(false)
    question.value = { title, text, yes, answer: resolve }
  })
}

function end(agreed: boolean): void {
  const asked = question.peek()
  question.value = null
  asked?.answer(agreed)
}

effect(() => {
  void route.value
  void signInWhy.value
  end(false)
})

export function ConfirmDialog() {
  const element = useRef<HTMLDialogElement>(null)
  const asked = question.value
  useEffect(() => {
    if (asked) element.current?.showModal()
  }, [asked])
  if (!asked) return null
  return (
    <dialog
      ref={element}
      aria-labelledby="question"
      onCancel={(event) => {
        event.preventDefault()
        end(false)
      }}
    >
      <h2 id="question">{asked.title}</h2>
      <p>{asked.text}</p>
      <div class="buttons">
        <button type="button" onClick={() => end(false)}>
          Cancel
        </button>
        <button type="button" class="primary" onClick={() => end(true)} autofocus>
          {asked.yes}
        </button>
      </div>
    </dialog>
  )
}
