// Lines over time: the options that all charts share, and marks where plans began.

import type { EChartsCoreOption } from 'echarts/core'
import { clock, when } from '../format'
import { RANGES } from '../history'
import { executions, range } from '../store'
import { token } from '../theme'
import type { Execution, Series } from '../types'
import { extent, highestOf, positive } from './axis'

export interface Line {
  name: string
  colour: string
  times_s: number[]
  values: Series
  width?: number
  dashed?: boolean
  faint?: boolean
}

export interface Threshold {
  name: string
  value: number
  colour: string
}

export interface Lines {
  lines: Line[]
  format: (value: number | null) => string
  /** On the axis, if that should be shorter. */
  formatAxis?: (value: number) => string
  thresholds?: Threshold[]
  marks?: boolean
  /** A logarithmic axis, for latencies. */
  log?: boolean
  /** The axis reaches at least up to here. */
  atLeast?: number
}

/** How plans are marked: a letter and a colour for each stage. */
export const STAGES: Record<string, { letter: string; colour: string }> = {
  migration: { letter: 'M', colour: '--mark-migration' },
  shuffle: { letter: 'S', colour: '--mark-shuffle' },
  evacuation: { letter: 'E', colour: '--mark-evacuation' },
}

export function linesOption(chart: Lines): EChartsCoreOption {
  const ink = token('--ink')
  const muted = token('--muted')
  const rule = token('--rule')
  const { from, to } = extent(
    chart.lines.map((one) => one.times_s),
    RANGES[range.value],
    Date.now() / 1000,
  )
  const marks = chart.marks ? executions.value.filter((one) => one.begun_at_us / 1e6 >= from) : []
  const span_s = to - from
  const highest = highestOf(
    chart.lines.map((one) => one.values),
    chart.atLeast ?? 1,
  )
  return {
    animation: false,
    grid: { left: 8, right: 14, top: 22, bottom: 4, outerBoundsMode: 'same', outerBoundsContain: 'axisLabel' },
    textStyle: { fontFamily: token('--font') },
    tooltip: {
      trigger: 'axis',
      confine: true,
      transitionDuration: 0,
      backgroundColor: token('--panel'),
      borderColor: rule,
      padding: 10,
      textStyle: { color: ink, fontSize: 12 },
      axisPointer: { lineStyle: { color: muted } },
      formatter: (found: unknown) => tooltip(found as Found[], chart, marks, span_s),
    },
    xAxis: {
      type: 'time',
      min: from * 1000,
      max: to * 1000,
      axisLine: { lineStyle: { color: rule } },
      axisTick: { show: false },
      splitNumber: 5,
      axisLabel: {
        color: muted,
        fontSize: 11,
        hideOverlap: true,
        showMinLabel: false,
        showMaxLabel: false,
        formatter: (at_ms: number) => {
          const text = clock(at_ms / 1000)
          return span_s > 600 ? text.slice(0, 5) : text
        },
      },
    },
    yAxis: {
      type: chart.log ? 'log' : 'value',
      min: chart.log ? undefined : 0,
      ...(chart.atLeast === undefined ? {} : { max: highest, interval: highest / 4 }),
      splitNumber: 4,
      axisLabel: { color: muted, fontSize: 11, formatter: chart.formatAxis ?? chart.format },
      splitLine: { lineStyle: { color: rule } },
    },
    series: [
      ...chart.lines.map((one) => ({
        id: one.name,
        name: one.name,
        type: 'line',
        showSymbol: false,
        emphasis: { disabled: true },
        silent: true,
        data: one.times_s.map((at_s, index) => [at_s * 1000, positive(one.values[index] ?? null, chart.log)]),
        color: one.colour,
        lineStyle: { width: one.width ?? 2, type: one.dashed ? [5, 4] : 'solid', opacity: one.faint ? 0.5 : 1 },
      })),
      {
        id: 'marks',
        type: 'line',
        data: [],
        silent: true,
        markLine: {
          symbol: 'none',
          silent: true,
          animation: false,
          data: [
            ...(chart.thresholds ?? []).map((one) => ({
              yAxis: one.value,
              lineStyle: { color: one.colour, type: [2, 3], width: 1.5 },
              label: { formatter: one.name, color: one.colour, position: 'insideStartTop', fontSize: 11, fontWeight: 600 },
            })),
            ...marks.map((one) => {
              const stage = STAGES[one.stage] ?? { letter: '?', colour: '--muted' }
              const colour = token(stage.colour)
              return {
                xAxis: one.begun_at_us / 1000,
                lineStyle: { color: colour, type: 'solid', width: 1, opacity: 0.85 },
                label: {
                  formatter: stage.letter,
                  position: 'end',
                  distance: 3,
                  fontSize: 10,
                  lineHeight: 14,
                  fontWeight: 700,
                  color: token('--panel'),
                  backgroundColor: colour,
                  padding: [0, 4],
                  borderRadius: 3,
                },
              }
            }),
          ],
        },
      },
    ],
  }
}

interface Found {
  axisValue: number
  seriesName: string
  color: string
  data: [number, number | null]
}

/** Built from elements rather than text: the page's policy allows no inline styles. */
function tooltip(found: Found[], chart: Lines, marks: Execution[], span_s: number): HTMLElement {
  const box = document.createElement('div')
  box.className = 'chart-tip'
  const at_s = (found[0]?.axisValue ?? 0) / 1000
  add(box, 'strong', when(at_s))
  for (const one of found) {
    const value = one.data[1]
    if (value === null) continue
    const row = add(box, 'div', '')
    row.className = 'row'
    const dot = add(row, 'i', '')
    dot.className = 'dot'
    dot.style.background = one.color
    add(row, 'span', one.seriesName)
    add(row, 'b', chart.format(value))
  }
  for (const one of marks.filter((mark) => Math.abs(mark.begun_at_us / 1e6 - at_s) < span_s / 80)) {
    const row = add(box, 'div', `${one.stage} (${one.policy}): ${one.moves} moves. ${one.reason}`)
    row.className = 'mark'
  }
  return box
}

function add(parent: HTMLElement, tag: string, text: string): HTMLElement {
  const element = document.createElement(tag)
  element.textContent = text
  parent.appendChild(element)
  return element
}
