// From the text of input fields to the values that requests carry. A text that is no number is sent as it was typed: the
// server's refusal says what it would accept.

import type { Parameter } from './types'

const WHOLE = new Set(['INT', 'BIGINT', 'SMALLINT', 'TINYINT', 'INTEGER', 'LONG'])
const FRACTIONAL = new Set(['DOUBLE', 'FLOAT', 'DECIMAL'])

export function asNumber(text: string): number | string {
  const number = Number(text.trim())
  return text.trim() !== '' && Number.isFinite(number) ? number : text
}

/** Null for an empty field: no limit. */
export function numberOrNone(text: string): number | string | null {
  return text.trim() === '' ? null : asNumber(text)
}

/** The balancing settings that were typed. The placement policy is not among them: it has a route of its own. */
export function settingsOf(draft: Record<string, string>): Record<string, unknown> {
  const changes: Record<string, unknown> = {}
  for (const [name, text] of Object.entries(draft)) {
    if (name === 'placement') continue
    if (name === 'migration' || name === 'shuffle' || name === 'rule') changes[name] = text
    else if (name === 'max_moves') changes[name] = numberOrNone(text)
    else changes[name] = asNumber(text)
  }
  return changes
}

/** The names to choose from; the chosen one is among them even if the server no longer lists it. */
export function withChosen(names: string[], chosen: string): string[] {
  return chosen && !names.includes(chosen) ? [...names, chosen] : names
}

export function inputModeOf(type: string): 'numeric' | 'decimal' | 'text' {
  return WHOLE.has(type) ? 'numeric' : FRACTIONAL.has(type) ? 'decimal' : 'text'
}

/** The values of a channel's parameters, numbers and booleans as such. */
export function parameterValues(
  parameters: Parameter[],
  texts: Record<string, string>,
): Record<string, string | number | boolean> {
  const values: Record<string, string | number | boolean> = {}
  for (const { name, type } of parameters) {
    const text = texts[name] ?? ''
    if (WHOLE.has(type) || FRACTIONAL.has(type)) values[name] = asNumber(text)
    else if (type === 'BOOLEAN' && /^(true|false)$/i.test(text.trim())) values[name] = text.trim().toLowerCase() === 'true'
    else values[name] = text
  }
  return values
}
