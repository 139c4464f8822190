// A channel's signature and grants, in words.

import type { Channel } from './types'

/** As a statement declares them: `near STRING, who IS USER`. */
export function parametersOf(channel: Channel): string {
  return [
    ...channel.parameters.map((one) => `${one.name} ${one.type}`),
    ...channel.filled.map((one) => `${one.name} IS ${one.filled_by}`),
  ].join(', ')
}

export function grantedTo(channel: Channel): string {
  if (channel.granted_to === null) return 'granted to all'
  const classes = channel.granted_to.map((one) => one || 'users without a class')
  return classes.length ? `granted to ${classes.join(', ')}` : 'granted to nobody'
}
