// Which colour says how things are.

import type { BrokerState } from '../types'

export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'plain'

export const STATE_TONES: Record<BrokerState, Tone> = { active: 'good', cordoned: 'warn', draining: 'busy', dead: 'bad' }

/** Above γ a shuffle is due, above α a migration. */
export function covTone(cov: number, alpha: number, gamma: number): Tone {
  return cov > gamma ? 'bad' : cov > alpha ? 'warn' : 'good'
}

/** How cov compares with the threshold that matters. */
export function covWords(cov: number, alpha: number, gamma: number): string {
  return cov > gamma ? `> γ ${gamma}` : cov > alpha ? `> α ${alpha}` : `≤ α ${alpha}`
}
