// A channel's signature, grants and cost, in words.

import { bytes, plural, seconds } from './format'
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

/** What it cost since the cluster began, beside the seconds of Spark. */
export function sizeOf(channel: Channel): string {
  return `${bytes(channel.result_bytes, false)} of results`
}

export function lastHourOf(channel: Channel): string {
  if (channel.last_hour_spark_s === 0 && channel.last_hour_results === 0) return 'nothing in the last hour'
  const results = plural(channel.last_hour_results, 'result')
  return `last hour: ${seconds(channel.last_hour_spark_s)}, ${results}, ${bytes(channel.last_hour_result_bytes, false)}`
}
