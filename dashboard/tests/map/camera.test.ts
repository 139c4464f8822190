import { beforeEach, describe, expect, test } from 'vitest'
import { Camera, scaleBar } from '../../src/map/camera'

const CITY = { left: -1000, bottom: 0, right: 3000, top: 2000 }
let camera: Camera

beforeEach(() => {
  camera = new Camera()
  camera.width = 880
  camera.height = 480
})

describe('the camera', () => {
  test('shows all bounds with a margin, centred', () => {
    camera.fit(CITY)
    expect(camera.scale).toBeCloseTo(0.2)
    expect(camera.toScreen(1000, 1000)).toEqual([440, 240])
    expect(camera.toScreen(-1000, 2000)).toEqual([40, 40])
  })

  test('north is up', () => {
    camera.fit(CITY)
    expect(camera.toScreen(0, 2000)[1]).toBeLessThan(camera.toScreen(0, 0)[1])
  })

  test('a pixel leads to the point that is drawn there', () => {
    camera.fit(CITY)
    const [x, y] = camera.toPlane(...camera.toScreen(123, 456))
    expect(x).toBeCloseTo(123)
    expect(y).toBeCloseTo(456)
  })

  test('dragging takes the plane along', () => {
    camera.fit(CITY)
    const [x, y] = camera.toPlane(100, 100)
    camera.pan(30, -20)
    const [left, top] = camera.toScreen(x, y)
    expect(left).toBeCloseTo(130)
    expect(top).toBeCloseTo(80)
  })

  test('zooming leaves the point under the pointer where it is', () => {
    camera.fit(CITY)
    const before = camera.toPlane(200, 300)
    camera.zoom(2.5, 200, 300)
    const after = camera.toPlane(200, 300)
    expect(camera.scale).toBeCloseTo(0.5)
    expect(after[0]).toBeCloseTo(before[0])
    expect(after[1]).toBeCloseTo(before[1])
  })

  test('zooming ends before the numbers do', () => {
    camera.zoom(1e12)
    expect(camera.scale).toBe(100)
    camera.zoom(1e-12)
    expect(camera.scale).toBe(1e-6)
  })

  test('a single point and a window that is too small can be shown too', () => {
    camera.fit({ left: 5, bottom: 5, right: 5, top: 5 })
    expect(camera.toScreen(5, 5)).toEqual([440, 240])
    camera.width = camera.height = 10
    camera.fit(CITY)
    expect(camera.scale).toBeGreaterThan(0)
  })
})

describe('the scale bar', () => {
  test.each([
    [1, 100, '100 m'],
    [0.1, 100, '1 km'],
    [0.2, 100, '500 m'],
    [0.05, 100, '2 km'],
    [2, 100, '50 m'],
  ])('at %d pixels per metre is %d pixels wide and says %s', (scale, width, text) => {
    const bar = scaleBar(scale)
    expect(bar.width).toBeCloseTo(width)
    expect(bar.text).toBe(text)
  })

  test('is 44 to 110 pixels wide at every zoom', () => {
    for (let scale = 1e-5; scale < 50; scale *= 1.13) {
      expect(scaleBar(scale).width).toBeGreaterThan(43.9)
      expect(scaleBar(scale).width).toBeLessThan(110.1)
    }
  })
})
