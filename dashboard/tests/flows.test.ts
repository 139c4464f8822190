import { expect, test } from 'vitest'
import { flowsOf } from '../src/flows'

const move = (source: string, destination: string, load: number, reason: string) => ({ subscriber: 'someone', source, destination, load, reason })

test('moves are summed by source and destination, the largest flow first', () => {
  const moves = [move('b', 'c', 1, 'low'), move('a', 'b', 10, 'high'), move('a', 'b', 20, 'high'), move('b', 'a', 5, 'back')]
  expect(flowsOf(moves)).toEqual([
    { source: 'a', destination: 'b', moves: 2, load: 30, reasons: ['high'] },
    { source: 'b', destination: 'c', moves: 1, load: 1, reasons: ['low'] },
    { source: 'b', destination: 'a', moves: 1, load: 5, reasons: ['back'] },
  ])
})

test('each reason is given once, in the order of the moves', () => {
  const moves = [move('a', 'b', 1, 'first'), move('a', 'b', 1, 'second'), move('a', 'b', 1, 'first')]
  expect(flowsOf(moves)[0]?.reasons).toEqual(['first', 'second'])
})

test('an empty plan has no flows', () => {
  expect(flowsOf([])).toEqual([])
})
