// Entries of the audit log: in groups, and in words.

import type { AuditEntry } from './types'

/** The newest page in front of the entries that are known; older entries stay. */
export function withNewest(known: AuditEntry[], newest: AuditEntry[]): AuditEntry[] {
  const oldest = newest.at(-1)?.number ?? 0
  return [...newest, ...known.filter((one) => one.number < oldest)]
}

/** Whether an entry contains a text, in capitals or not. */
export function contains(one: AuditEntry, wanted: string): boolean {
  return textOf(one).includes(wanted.toLowerCase())
}

/** Moves of one plan that follow each other make one group. */
export function grouped(entries: AuditEntry[]): AuditEntry[][] {
  const groups: AuditEntry[][] = []
  for (const one of entries) {
    const last = groups.at(-1)
    const before = last?.[0]
    const isSame = one.action === 'move' && before?.action === 'move' && before.details.plan === one.details.plan
    if (last && isSame) last.push(one)
    else groups.push([one])
  }
  return groups
}

/** Source and destination of moves, how they ended, and how many. */
export function waysOf(moves: AuditEntry[]): string {
  const ways = new Map<string, number>()
  for (const { details } of moves) {
    const way = `${String(details.source)} → ${String(details.destination)} ${String(details.step)}`
    ways.set(way, (ways.get(way) ?? 0) + 1)
  }
  return [...ways].map(([way, number]) => `${way} ${number}`).join(' · ')
}

function textOf(one: AuditEntry): string {
  return `${one.who} ${one.action} ${one.subject} ${detailsOf(one)}`.toLowerCase()
}

/** A move in words; other details as they were written down. */
export function detailsOf(one: AuditEntry): string {
  const { source, destination, step, outcome, reason, took_s, plan, ...rest } = one.details
  const texts: string[] = []
  if (source && destination) texts.push(`${String(source)} → ${String(destination)}`)
  if (step) texts.push(outcome ? `${String(step)}: ${String(outcome)}` : String(step))
  if (typeof took_s === 'number') texts.push(`${took_s.toFixed(2)} s`)
  for (const [name, value] of Object.entries(rest)) texts.push(`${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
  if (reason) texts.push(String(reason))
  if (plan) texts.push(String(plan))
  return texts.join(' · ')
}
