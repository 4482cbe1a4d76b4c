// Where things are on the timeline and on every chart below it: all share one left and one right margin, so that a
// moment is at the same place on all of them.

import type { View } from "../view";

/** Height of the axis, of the band of marks below it, in CSS pixels. */
export const AXIS = 34;
export const MARKS = 20;
export const TOP = AXIS + MARKS;

const NARROW = 640;

export interface Margins {
  left: number;
  right: number;
}

export function margins(width: number): Margins {
  return width < NARROW ? { left: 58, right: 46 } : { left: 118, right: 54 };
}

/** The plane of a picture: time across, with its margins. */
export class Plane {
  width = 300;
  margins: Margins = margins(300);

  constructor(private readonly view: View) {}

  resize(width: number): void {
    this.width = Math.max(160, width);
    this.margins = margins(this.width);
  }

  get inner(): number {
    return this.width - this.margins.left - this.margins.right;
  }

  get usPerPx(): number {
    return (this.view.to - this.view.from) / this.inner;
  }

  x(t: number): number {
    return this.margins.left + (t - this.view.from) / this.usPerPx;
  }

  t(x: number): number {
    return this.view.from + (x - this.margins.left) * this.usPerPx;
  }
}
