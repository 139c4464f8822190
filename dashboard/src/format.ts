// Figures for people.

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']

export function bytes(value: number | null | undefined, perSecond = true): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–'
  let unit = 0
  let scaled = Math.abs(value)
  while (scaled >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000
    unit += 1
  }
  const digits = unit === 0 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2
  return `${value < 0 ? '−' : ''}${scaled.toFixed(digits)} ${UNITS[unit]}${perSecond ? '/s' : ''}`
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–'
  if (value < 0.0995) return `${(value * 1000).toFixed(value < 0.00995 ? 1 : 0)} ms`
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`
  if (value < 90) return `${Number(value.toFixed(value < 10 ? 2 : 1))} s`
  return value < 5400 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`
}

/** For axes: no more digits than it takes. */
export function shortBytes(value: number): string {
  return bytes(value).replace(/\.0+ /, ' ').replace(/(\.\d*?)0+ /, '$1 ')
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : Math.round(value).toLocaleString('en')
}

export function perSecond(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  return `${value >= 100 ? count(value) : value.toFixed(value >= 10 || value === 0 ? 0 : 1)}/s`
}

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? '–' : `${(value * 100).toFixed(digits)} %`
}

export function ratio(value: number | null | undefined, digits = 3): string {
  return value === null || value === undefined || !Number.isFinite(value) ? '–' : value.toFixed(digits)
}

/** The cov that a plan promised, and the one that was measured in the minute after it. */
export function promiseOf(plan: { promised_cov: number | null; kept_cov: number | null }): string {
  return plan.promised_cov === null ? '–' : `${ratio(plan.promised_cov, 2)}, ${plan.kept_cov === null ? 'not yet' : ratio(plan.kept_cov, 2)}`
}

/** The same over all plans. */
export function promisesOf(kept: { plans: number; promised_cov: number | null; kept_cov: number | null }): string {
  return kept.plans === 0 ? 'no plan yet' : `${plural(kept.plans, 'plan')}: cov ${ratio(kept.promised_cov, 2)} promised, ${ratio(kept.kept_cov, 2)} kept`
}

export function clock(at_s: number): string {
  return new Date(at_s * 1000).toLocaleTimeString('en-GB')
}

/** With the date, unless that is today's. */
export function when(at_s: number): string {
  const date = new Date(at_s * 1000)
  const time = date.toLocaleTimeString('en-GB')
  return date.toDateString() === new Date().toDateString()
    ? time
    : `${date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })} ${time}`
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`
}
