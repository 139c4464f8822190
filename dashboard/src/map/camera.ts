// From metres on a plane to pixels on the screen, and back. North is up.

export interface Bounds {
  left: number
  bottom: number
  right: number
  top: number
}

export class Camera {
  x = 0
  y = 0
  /** Pixels per metre. */
  scale = 1
  width = 1
  height = 1

  fit(bounds: Bounds, margin = 40): void {
    const wide = Math.max(1, bounds.right - bounds.left)
    const high = Math.max(1, bounds.top - bounds.bottom)
    this.x = (bounds.left + bounds.right) / 2
    this.y = (bounds.bottom + bounds.top) / 2
    this.scale = Math.min((this.width - 2 * margin) / wide, (this.height - 2 * margin) / high)
    if (!(this.scale > 0)) this.scale = 1e-3
  }

  toScreen(x: number, y: number): [number, number] {
    return [(x - this.x) * this.scale + this.width / 2, (this.y - y) * this.scale + this.height / 2]
  }

  toPlane(left: number, top: number): [number, number] {
    return [(left - this.width / 2) / this.scale + this.x, this.y - (top - this.height / 2) / this.scale]
  }

  pan(left: number, top: number): void {
    this.x -= left / this.scale
    this.y += top / this.scale
  }

  /** The point of the plane below this pixel stays there. */
  zoom(factor: number, left = this.width / 2, top = this.height / 2): void {
    const [x, y] = this.toPlane(left, top)
    this.scale = Math.min(100, Math.max(1e-6, this.scale * factor))
    const [nowLeft, nowTop] = this.toScreen(x, y)
    this.pan(left - nowLeft, top - nowTop)
  }
}

/** The bar that shows distances, at most 110 pixels wide, and its text. */
export function scaleBar(scale: number): { width: number; text: string } {
  const wanted_m = 110 / scale
  const power = 10 ** Math.floor(Math.log10(wanted_m))
  const metres = [5, 2, 1].map((one) => one * power).find((one) => one <= wanted_m) ?? power
  return { width: metres * scale, text: metres >= 1000 ? `${metres / 1000} km` : `${metres} m` }
}
