// Hash routes, so that each part of the page can be linked to: #/channels/try/EmergenciesNear

import { signal } from '@preact/signals'

/** The decoded parts of a hash. A part that can't be decoded stays as it is. */
export function partsOf(hash: string): string[] {
  return hash
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

export const route = signal<string[]>(partsOf(location.hash))
addEventListener('hashchange', () => (route.value = partsOf(location.hash)))

export function link(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`
}

export function go(...parts: string[]): void {
  location.hash = link(...parts)
}
