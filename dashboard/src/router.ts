// Hash routes, so that each part of the page can be linked to: #/channels/try/EmergenciesNear

import { signal } from '@preact/signals'

function read(): string[] {
  return location.hash
    .replace(/^#\/?/, '')
    .split('/')
    .filter(Boolean)
    .map((part) => {
      try {
        return decodeURIComponent(part)
      } catch {
        return part
      }
    })
}

export const route = signal<string[]>(read())
addEventListener('hashchange', () => (route.value = read()))

export function link(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`
}

export function go(...parts: string[]): void {
  location.hash = link(...parts)
}
