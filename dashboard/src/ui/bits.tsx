// Small components that pages share.

import type { ComponentChildren } from 'preact'
import { colourOf } from '../colours'
import type { BrokerState } from '../types'
import { STATE_TONES, type Tone } from './tones'

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>
}

export function StateBadge({ state }: { state: BrokerState }) {
  return <Badge tone={STATE_TONES[state]}>{state}</Badge>
}

export function BrokerName({ name }: { name: string }) {
  return (
    <span class="broker-name">
      <i class="dot" style={{ background: colourOf(name) }} />
      {name}
    </span>
  )
}

export function Panel(props: {
  title: string
  aside?: ComponentChildren
  children: ComponentChildren
  class?: string
  id?: string
}) {
  const id = props.id ?? props.title.toLowerCase().replace(/[^a-z]+/g, '-')
  return (
    <section class={`panel ${props.class ?? ''}`} aria-labelledby={`${id}-title`}>
      <header>
        <h2 id={`${id}-title`}>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  )
}

export function Tile(props: { name: string; value: string; note?: ComponentChildren; tone?: Tone; title?: string }) {
  return (
    <div class="tile" title={props.title}>
      <dt>{props.name}</dt>
      <dd class={props.tone ?? ''}>{props.value}</dd>
      <dd class="note">{props.note}</dd>
    </div>
  )
}

/** Says why a panel is empty, and how to fill it. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>
}

/** A refusal's reason; nothing without one. */
export function Refusal({ why }: { why: string | null }) {
  return why ? (
    <p class="refused" role="alert">
      {why}
    </p>
  ) : null
}

export function Choice<T extends string>(props: {
  label: string
  options: readonly T[]
  value: T
  onChange: (value: T) => void
}) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map((one) => (
        <button key={one} type="button" aria-pressed={one === props.value} onClick={() => props.onChange(one)}>
          {one}
        </button>
      ))}
    </div>
  )
}

export function Bar({ share, colour }: { share: number; colour: string }) {
  const width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`
  return (
    <span class="bar" aria-hidden="true">
      <i style={{ width, background: colour }} />
    </span>
  )
}

export function Progress({ value, of, label }: { value: number; of: number; label: string }) {
  return <progress value={value} max={Math.max(1, of)} aria-label={label} />
}
