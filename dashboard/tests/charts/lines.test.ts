// @vitest-environment happy-dom
import { beforeEach, describe, expect, test } from 'vitest'
import { linesOption } from '../../src/charts/lines'
import { executions, range } from '../../src/store'
import type { Execution } from '../../src/types'

interface Option {
  xAxis: { min: number; max: number; axisLabel: { formatter: (at_ms: number) => string } }
  yAxis: { type: string; max?: number; interval?: number }
  series: { id: string; data: [number, number | null][]; markLine?: { data: { xAxis?: number; yAxis?: number; label: { formatter: string } }[] } }[]
  tooltip: { formatter: (found: unknown) => HTMLElement }
}

const LINE = { name: 'broker-1', colour: '#123456', times_s: [1000, 1100, 1200], values: [1, null, 3] }
const format = (value: number | null) => `${value} units`
const optionOf = (chart: Partial<Parameters<typeof linesOption>[0]> = {}) =>
  linesOption({ lines: [LINE], format, ...chart }) as unknown as Option

function execution(plan: string, begun_at_s: number, stage = 'migration'): Execution {
  const figures = { moves: 4, done: 4, failed: 0, cancelled: 0, changed_at_us: 0, expected: {}, promised_cov: null, kept_cov: null }
  return { plan, stage, state: 'done', policy: 'ldm', reason: 'cov 0.4', by: 'ada', begun_at_us: begun_at_s * 1e6, ...figures }
}

beforeEach(() => {
  executions.value = []
  range.value = '5 min'
})

describe('a chart of lines', () => {
  test('has a point for each moment, in milliseconds, and gaps where nothing is known', () => {
    expect(optionOf().series[0]?.data).toEqual([
      [1_000_000, 1],
      [1_100_000, null],
      [1_200_000, 3],
    ])
  })

  test('covers the chosen range', () => {
    range.value = '30 min'
    const option = optionOf({ lines: [{ ...LINE, times_s: [1000, 5000, 9000] }] })
    expect([option.xAxis.min, option.xAxis.max]).toEqual([7_200_000, 9_000_000])
  })

  test('writes seconds on the axis only if it is short', () => {
    expect(optionOf().xAxis.axisLabel.formatter(0)).toMatch(/^\d\d:\d\d:\d\d$/)
    range.value = '30 min'
    const long = optionOf({ lines: [{ ...LINE, times_s: [0, 1000, 2000] }] })
    expect(long.xAxis.axisLabel.formatter(0)).toMatch(/^\d\d:\d\d$/)
  })

  test('divides an axis with a least height into quarters', () => {
    expect(optionOf({ atLeast: 3.5 }).yAxis).toMatchObject({ type: 'value', max: 4, interval: 1 })
    expect(optionOf().yAxis.max).toBeUndefined()
  })

  test('leaves out what a logarithmic axis can not show', () => {
    const option = optionOf({ log: true, lines: [{ ...LINE, values: [0, 0.5, null] }] })
    expect(option.yAxis.type).toBe('log')
    expect(option.series[0]?.data.map((one) => one[1])).toEqual([null, 0.5, null])
  })

  test('marks thresholds, and plans that began within the range', () => {
    executions.value = [execution('new', 1150), execution('old', 10), execution('other', 1160, 'unheard-of')]
    const thresholds = [{ name: 'α 0.15', value: 0.15, colour: '#000000' }]
    const marks = optionOf({ marks: true, thresholds }).series.at(-1)?.markLine?.data
    expect(marks?.map((one) => [one.yAxis ?? one.xAxis, one.label.formatter])).toEqual([
      [0.15, 'α 0.15'],
      [1_150_000, 'M'],
      [1_160_000, '?'],
    ])
    expect(optionOf().series.at(-1)?.markLine?.data).toEqual([])
  })

  test('tells values and nearby plans in its tooltip', () => {
    executions.value = [execution('near', 1200), execution('far', 1100)]
    const found = [
      { axisValue: 1_200_000, seriesName: 'broker-1', color: '#123456', data: [1_200_000, 3] },
      { axisValue: 1_200_000, seriesName: 'broker-2', color: '#123456', data: [1_200_000, null] },
    ]
    const tip = optionOf({ marks: true }).tooltip.formatter(found)
    expect([...tip.querySelectorAll('.row')].map((one) => one.textContent)).toEqual(['broker-13 units'])
    expect([...tip.querySelectorAll('.mark')].map((one) => one.textContent)).toEqual(['migration (ldm): 4 moves. cov 0.4'])
  })

  test('shows names of brokers as text, never as markup', () => {
    const found = [{ axisValue: 0, seriesName: '<img src=x>', color: '#123456', data: [0, 1] }]
    expect(optionOf().tooltip.formatter(found).querySelector('img')).toBeNull()
  })
})
