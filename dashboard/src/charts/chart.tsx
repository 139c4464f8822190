// One ECharts canvas, kept up to date. Its label gives the newest figures in words, for people who can't see it.

import { LineChart } from 'echarts/charts'
import { GridComponent, MarkLineComponent, TooltipComponent } from 'echarts/components'
import * as echarts from 'echarts/core'
import type { EChartsCoreOption, EChartsType } from 'echarts/core'
import { CanvasRenderer } from 'echarts/renderers'
import { useEffect, useRef } from 'preact/hooks'

echarts.use([LineChart, GridComponent, TooltipComponent, MarkLineComponent, CanvasRenderer])

export interface ChartProps {
  name: string
  option: EChartsCoreOption
  /** The newest figures in words. */
  words: string
  class?: string
}

export function Chart(props: ChartProps) {
  const element = useRef<HTMLDivElement>(null)
  const chart = useRef<EChartsType | null>(null)
  useEffect(() => {
    const host = element.current
    if (!host) return
    const made = echarts.init(host, null, { renderer: 'canvas' })
    chart.current = made
    const resized = new ResizeObserver(() => made.resize())
    resized.observe(host)
    return () => {
      resized.disconnect()
      made.dispose()
      chart.current = null
    }
  }, [])
  useEffect(() => {
    chart.current?.setOption(props.option, { replaceMerge: ['series'], lazyUpdate: true })
  }, [props.option])
  return (
    <figure class={`chart ${props.class ?? ''}`} role="img" aria-label={`${props.name}: ${props.words}`} data-chart={props.name}>
      <div ref={element} class="canvas" />
    </figure>
  )
}
