// The ruler: a stretch of time that somebody measures, by dragging or with the arrow keys.

import { button, h } from "../dom";
import { duration } from "../format";
import type { View } from "../view";
import type { Plane } from "./geometry";

export type Stretch = readonly [from: number, to: number];

/** An arrow key moves an end of the stretch by so many pixels. */
const STEP_PX = 8;

/** `stretch` with its end, or else its beginning, moved by `by` and kept within the run; the two may change places. */
export function moved([from, to]: Stretch, moves: "from" | "to", by: number, span: number): Stretch {
  const within = (t: number) => Math.max(0, Math.min(span, t + by));
  return moves === "to" ? [from, within(to)] : [within(from), to];
}

export class Ruler {
  readonly element = h("div", { class: "ruler", hidden: true });
  readonly button = button("ruler", "Measure: drag over a stretch of time, or press the left and right arrow (r)", () => this.toggle());
  /** Whether dragging and the arrow keys measure. */
  on = false;
  private stretch: Stretch | null = null;

  constructor(
    private readonly view: View,
    private readonly plane: Plane,
    /** Says what was measured, for those who do not see it. */
    private readonly say: (text: string) => void,
  ) {
    this.button.classList.add("ruler-button");
    this.button.setAttribute("aria-pressed", "false");
  }

  toggle(): void {
    this.on = !this.on;
    this.element.closest(".timeline")?.classList.toggle("measuring", this.on);
    this.button.setAttribute("aria-pressed", String(this.on));
  }

  clear(): void {
    this.stretch = null;
    if (this.on) this.toggle();
    this.draw();
  }

  measure(stretch: Stretch): void {
    this.stretch = stretch;
    this.draw();
    this.say(`measured: ${this.text(stretch)}`);
  }

  /** Moves the end, or else the beginning, by `steps`; the first stretch begins at the cursor. The window goes along. */
  step(steps: number, moves: "from" | "to"): void {
    const { view } = this;
    const start = view.cursor ?? (view.from + view.to) / 2;
    const next = moved(this.stretch ?? [start, start], moves, steps * STEP_PX * this.plane.usPerPx, view.span);
    const t = next[moves === "from" ? 0 : 1];
    if (t < view.from || t > view.to) view.pan(Math.sign(steps) * 0.3);
    this.measure(next);
  }

  draw(): void {
    this.element.hidden = this.stretch === null;
    if (!this.stretch) return;
    const { left, right } = this.plane.margins;
    const ends = this.stretch.map((t) => Math.max(left, Math.min(this.plane.width - right, this.plane.x(t))));
    const [a, b] = [Math.min(...ends), Math.max(...ends)];
    this.element.style.left = `${a}px`;
    this.element.style.width = `${Math.max(1, b - a)}px`;
    this.element.replaceChildren(h("span", {}, this.text(this.stretch)));
  }

  private text([from, to]: Stretch): string {
    return duration(Math.abs(to - from));
  }
}
