// Light or dark: the system's choice, or the operator's.

import { computed, signal } from '@preact/signals'

export type Choice = 'auto' | 'light' | 'dark'

const KEY = 'tocsin.theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const systemIsDark = signal(system.matches)
system.addEventListener('change', () => (systemIsDark.value = system.matches))

function stored(): Choice {
  const value = localStorage.getItem(KEY)
  return value === 'light' || value === 'dark' ? value : 'auto'
}

export const choice = signal<Choice>(stored())
export const isDark = computed(() => (choice.value === 'auto' ? systemIsDark.value : choice.value === 'dark'))

export function choose(next: Choice): void {
  choice.value = next
  localStorage.setItem(KEY, next)
}

/** A custom property of the page's style, as charts and the map need it. Reading `isDark` makes them follow a change. */
export function token(name: string): string {
  void isDark.value
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}
