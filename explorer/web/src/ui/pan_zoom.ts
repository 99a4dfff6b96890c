// SPDX-License-Identifier: Apache-2.0
//
// Zoom by wheel (towards the pointer) and by keys, pan by dragging and by arrow keys. It keeps x' = x * k + tx and tells
// its owner, who draws: the graph sets a transform, the timeline draws what is visible.
export interface Transform { k: number; x: number; y: number }

export interface PanZoomOptions {
  least: number;
  most: number;
  keys?: boolean;
  changed: (transform: Transform) => void;
}

export class PanZoom {
  transform: Transform = { k: 1, x: 0, y: 0 };
  // True after a drag, so that the click that ends it selects nothing.
  dragged = false;

  constructor(private readonly element: HTMLElement | SVGElement, private readonly options: PanZoomOptions) {
    element.addEventListener("wheel", (event) => this.wheel_(event as WheelEvent), { passive: false });
    element.addEventListener("pointerdown", (event) => this.drag_(event as PointerEvent));
    if (options.keys ?? true) element.addEventListener("keydown", (event) => this.key_(event as KeyboardEvent));
  }

  set(transform: Transform): void {
    const k = Math.min(this.options.most, Math.max(this.options.least, transform.k));
    this.transform = { ...transform, k };
    this.options.changed(this.transform);
  }

  zoomAt(factor: number, px: number, py: number): void {
    const { k, x, y } = this.transform;
    const next = Math.min(this.options.most, Math.max(this.options.least, k * factor));
    this.set({ k: next, x: px - ((px - x) * next) / k, y: py - ((py - y) * next) / k });
  }

  zoom(factor: number): void {
    const box = this.element.getBoundingClientRect();
    this.zoomAt(factor, box.width / 2, box.height / 2);
  }

  private wheel_(event: WheelEvent): void {
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    if (event.shiftKey) {
      this.set({ ...this.transform, x: this.transform.x - (event.deltaX || event.deltaY) });
      return;
    }
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoomAt(2 ** (-event.deltaY * lines * 0.0022), event.clientX - box.left, event.clientY - box.top);
  }

  private drag_(event: PointerEvent): void {
    if (event.button !== 0) return;
    const start = { ...this.transform, px: event.clientX, py: event.clientY };
    this.dragged = false;
    const move = (at: PointerEvent) => {
      const [dx, dy] = [at.clientX - start.px, at.clientY - start.py];
      if (!this.dragged && Math.hypot(dx, dy) < 4) return;
      this.dragged = true;
      this.set({ k: start.k, x: start.x + dx, y: start.y + dy });
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  private key_(event: KeyboardEvent): void {
    const pan: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const step = pan[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step) this.set({ k: this.transform.k, x: this.transform.x + step[0], y: this.transform.y + step[1] });
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else return;
    event.preventDefault();
  }
}
