// The whole run on one strip: how many nodes were in which state, and which part of it the pictures below show.

import { CLASSES, classOf, type Class, type Colours } from "../colours";
import type { Report } from "../data";
import { h } from "../dom";
import type { View } from "../view";
import { margins } from "./geometry";

const HEIGHT = 44;
/** From the bottom up. */
const STACK: Class[] = ["busy", "idle", "draining", "quarantined", "suspect", "lost", "unknown"];

export class Overview {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly window = h("div", { class: "window" });
  private readonly stacks: Map<Class, Float32Array>;
  private width = 300;

  constructor(
    private readonly report: Report,
    private readonly view: View,
    private readonly colours: Colours,
  ) {
    this.stacks = count(report);
    this.canvas.setAttribute("aria-label", "The whole run: number of nodes in each state over time, and the part that is shown below.");
    this.element = h("div", { class: "overview" }, this.canvas, this.window);
    this.listen();
  }

  private get left(): number {
    return margins(this.width).left;
  }

  private get inner(): number {
    return this.width - this.left - margins(this.width).right;
  }

  draw(width: number): void {
    this.width = width;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = HEIGHT * ratio;
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    pen.fillStyle = this.colours.ground;
    pen.fillRect(this.left, 0, this.inner, HEIGHT);
    const { bins, nodes } = this.report;
    const { binFrom, binWidth } = this.report;
    const px = this.inner / this.report.span;
    const base = new Float32Array(bins);
    for (const kind of STACK) {
      const counts = this.stacks.get(kind);
      if (!counts || this.colours.hidden.has(kind)) continue;
      pen.fillStyle = this.colours.ofClass(kind);
      for (let bin = 0; bin < bins; bin++) {
        if (counts[bin] === 0) continue;
        const high = (counts[bin] / nodes.length) * HEIGHT;
        // Whole pixels, so that no seam shows between bins.
        const x = Math.floor(this.left + (binFrom + bin * binWidth) * px);
        const end = Math.min(this.left + this.inner, Math.ceil(this.left + (binFrom + (bin + 1) * binWidth) * px));
        pen.fillRect(x, HEIGHT - base[bin] - high, end - x, high);
        base[bin] += high;
      }
    }
    this.frame();
  }

  /** Moves the frame around what is shown. */
  frame(): void {
    const px = this.inner / this.view.span;
    this.window.style.left = `${this.left + this.view.from * px}px`;
    this.window.style.width = `${Math.max(3, (this.view.to - this.view.from) * px)}px`;
  }

  private listen(): void {
    let grip: number | null = null;
    const t = (event: PointerEvent) =>
      ((event.clientX - this.element.getBoundingClientRect().left - this.left) / this.inner) * this.view.span;
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      const at = t(event);
      const half = (this.view.to - this.view.from) / 2;
      if (at < this.view.from || at > this.view.to) this.view.show(at - half, at + half);
      grip = at - this.view.from;
    });
    this.element.addEventListener("pointermove", (event) => {
      if (grip === null) return;
      const from = t(event) - grip;
      this.view.show(from, from + (this.view.to - this.view.from));
    });
    for (const end of ["pointerup", "pointercancel"]) this.element.addEventListener(end, () => (grip = null));
  }
}

/** Nodes of each class in each bin. */
function count(report: Report): Map<Class, Float32Array> {
  const { bins, gridState, nodes, meta } = report;
  const stacks = new Map<Class, Float32Array>(CLASSES.map((kind) => [kind, new Float32Array(bins)]));
  const of = meta.states.map((word) => stacks.get(classOf(word)) as Float32Array);
  for (let node = 0; node < nodes.length; node++) {
    for (let bin = 0; bin < bins; bin++) {
      const stack = of[gridState[node * bins + bin]];
      if (stack) stack[bin]++;
    }
  }
  return stacks;
}
