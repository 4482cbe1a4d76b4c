// What stands above the rows: the time axis, the band of marks, and the borders of epochs through all of it.

import { markRank, type Colours } from "../colours";
import type { Mark } from "../contract";
import { upper, type Report } from "../data";
import { day, plain, type Zone } from "../format";
import { room, ticks } from "../ticks";
import type { View } from "../view";
import { AXIS, TOP, type Plane } from "./geometry";

/** Marks this near are shown as one. */
const GROUP_PX = 7;
const FAMILY = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
export const FONT = `11px ${FAMILY}`;
/** For words on bars of tasks. */
export const SMALL_FONT = `10px ${FAMILY}`;

/** Marks that stand together. */
export interface Group {
  x: number;
  marks: Mark[];
}

export class Bands {
  private readonly marks: Mark[];
  private readonly times: number[];
  groups: Group[] = [];

  constructor(
    private readonly report: Report,
    private readonly view: View,
    private readonly colours: Colours,
  ) {
    this.marks = [...report.meta.marks].sort((a, b) => a.at_us - b.at_us);
    this.times = this.marks.map((mark) => mark.at_us - report.meta.from_us);
  }

  axis(pen: CanvasRenderingContext2D, plane: Plane, zone: Zone, height: number): void {
    const { from_us } = this.report.meta;
    const [from, to] = [from_us + this.view.from, from_us + this.view.to];
    pen.font = FONT;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillStyle = this.colours.muted;
    pen.fillText(day(from, zone), plane.margins.left + 3, 9);
    pen.textAlign = "center";
    let free = 0;
    for (const tick of ticks(from, to, room(plane.inner, to - from), zone)) {
      const x = Math.round(plane.x(tick.at - from_us)) + 0.5;
      pen.strokeStyle = this.colours.line;
      pen.beginPath();
      pen.moveTo(x, AXIS - 5);
      pen.lineTo(x, height);
      pen.stroke();
      pen.fillStyle = tick.major ? this.colours.ink : this.colours.muted;
      const half = pen.measureText(tick.text).width / 2;
      const inside = Math.max(plane.margins.left + half, Math.min(plane.width - half - 2, x));
      // Pushed inwards, the first may reach the second.
      if (inside - half < free) continue;
      pen.fillText(tick.text, inside, 24);
      free = inside + half + 4;
    }
  }

  /** Lines where an epoch begins, and its number beside them. */
  epochs(pen: CanvasRenderingContext2D, plane: Plane, height: number): void {
    pen.font = FONT;
    pen.textAlign = "left";
    // The date stands here.
    const date = plane.margins.left + 90;
    let free = date;
    for (const { epoch, from_us } of this.report.meta.epochs) {
      const t = from_us - this.report.meta.from_us;
      // The run's own beginning needs no line.
      if (t <= 0 || t < this.view.from || t > this.view.to) continue;
      const x = Math.round(plane.x(t)) + 0.5;
      pen.strokeStyle = this.colours.ink;
      pen.setLineDash([2, 3]);
      pen.beginPath();
      pen.moveTo(x, x < date ? 16 : 0);
      pen.lineTo(x, height);
      pen.stroke();
      pen.setLineDash([]);
      const text = `epoch ${epoch}`;
      const width = pen.measureText(text).width;
      if (x < free || x + width + 4 > plane.width) continue;
      pen.fillStyle = this.colours.ink;
      pen.fillText(text, x + 4, 9);
      free = x + width + 12;
    }
  }

  /** Ticks of marks, with words where there is room for them. */
  marksBand(pen: CanvasRenderingContext2D, plane: Plane): void {
    this.groups = this.grouped(plane);
    pen.font = FONT;
    pen.textAlign = "left";
    const y = AXIS + 10;
    this.groups.forEach(({ x, marks }, i) => {
      pen.fillStyle = this.colours.ofMark(worst(marks).kind);
      pen.beginPath();
      pen.moveTo(x, TOP - 1);
      pen.lineTo(x - 4, TOP - 8);
      pen.lineTo(x + 4, TOP - 8);
      pen.fill();
      const free = (this.groups[i + 1]?.x ?? plane.width) - x - 10;
      const text = groupText(marks);
      if (pen.measureText(text).width > free) return;
      pen.fillStyle = this.colours.muted;
      pen.fillText(text, x + 6, y);
    });
  }

  private grouped(plane: Plane): Group[] {
    const groups: Group[] = [];
    const first = upper(this.times, this.view.from - 1);
    const end = upper(this.times, this.view.to);
    for (let i = first; i < end; i++) {
      const x = plane.x(this.times[i]);
      const last = groups[groups.length - 1];
      if (last && x - last.x < GROUP_PX) last.marks.push(this.marks[i]);
      else groups.push({ x, marks: [this.marks[i]] });
    }
    return groups;
  }

  /** The marks at `x`, if the pointer is on some. */
  at(x: number): Group | null {
    return this.groups.find((group) => Math.abs(group.x - x) <= GROUP_PX) ?? null;
  }
}

/** The kind that stands for `marks`: the worst, and the rarer of two that are as bad; and how many are of it. */
export function worst(marks: Mark[]): { kind: string; count: number } {
  const counts = new Map<string, number>();
  for (const { kind } of marks) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const [kind, count] = [...counts].sort(([a, n], [b, m]) => markRank(a) - markRank(b) || n - m)[0];
  return { kind, count };
}

/** `node lost`, `7 × node lost`, `node lost +3`. */
export function groupText(marks: Mark[]): string {
  const { kind, count } = worst(marks);
  const rest = marks.length - count;
  return `${count > 1 ? `${count} × ` : ""}${plain(kind)}${rest > 0 ? ` +${rest}` : ""}`;
}
