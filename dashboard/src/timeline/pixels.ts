// Rows as pixels: the state and the load of a node in each column, for as many nodes as there are, written
// straight into an image. One pixel high a row; whoever draws it makes it as high as rows are.

import { SHADES, type Colours } from "../colours";
import type { Report } from "../data";
import { columns, cover, type Level } from "../lod";
import { touching, type NodeTasks } from "../tasks";

export class Pixels {
  private width = 0;
  private codes = new Uint8Array(0);
  private busy = new Float32Array(0);
  /** First bin of each column and the one after the last. */
  private bins = new Int32Array(0);
  private from = 0;
  private usPerPx = 1;
  private readonly nothing: number;

  constructor(
    private readonly report: Report,
    private readonly colours: Colours,
  ) {
    this.nothing = Math.max(0, report.meta.states.indexOf("gone"));
  }

  /** Aims at a window of time, `width` columns wide. */
  aim(from: number, usPerPx: number, width: number): void {
    if (width !== this.width) {
      this.codes = new Uint8Array(width);
      this.busy = new Float32Array(width);
      this.bins = new Int32Array(width + 1);
    }
    [this.width, this.from, this.usPerPx] = [width, from, usPerPx];
    const { binFrom, binWidth } = this.report;
    // A column within a bin takes the bin of its middle; one that is wider takes all bins that begin in it.
    const shift = usPerPx > binWidth ? 0 : 0.5;
    for (let x = 0; x <= width; x++) this.bins[x] = Math.floor((from + (x + shift) * usPerPx - binFrom) / binWidth);
  }

  /** Writes the row of `node` to `out` from `at` on. */
  row(node: number, level: Level, tasks: NodeTasks | null, out: Uint32Array, at: number): void {
    if (level === "bins") this.fromBins(node);
    else {
      this.fromStates(node);
      if (level === "tasks") this.busy.fill(0);
      else if (tasks) this.busyOfTasks(node, tasks);
      else this.busyOfBins(node);
    }
    const { codes, busy, width } = this;
    const { pixels } = this.colours;
    for (let x = 0; x < width; x++) out[at + x] = pixels[codes[x] * SHADES + Math.min(SHADES - 1, busy[x] | 0)];
  }

  private fromBins(node: number): void {
    const { gridState, bins: count } = this.report;
    const { severity } = this.colours;
    const base = node * count;
    for (let x = 0; x < this.width; x++) {
      const first = Math.max(0, Math.min(count - 1, this.bins[x]));
      const end = Math.min(count, Math.max(first + 1, this.bins[x + 1]));
      let code = gridState[base + first];
      for (let bin = first + 1; bin < end; bin++) {
        const other = gridState[base + bin];
        if (severity[other] > severity[code]) code = other;
      }
      this.codes[x] = code;
    }
    this.busyOfBins(node);
  }

  private busyOfBins(node: number): void {
    const { gridBusy, bins: count } = this.report;
    const base = node * count;
    for (let x = 0; x < this.width; x++) {
      const first = Math.max(0, Math.min(count - 1, this.bins[x]));
      const end = Math.min(count, Math.max(first + 1, this.bins[x + 1]));
      let sum = 0;
      for (let bin = first; bin < end; bin++) sum += gridBusy[base + bin];
      this.busy[x] = sum / (end - first);
    }
  }

  private fromStates(node: number): void {
    const { codes, from, usPerPx, width } = this;
    const { severity } = this.colours;
    codes.fill(this.nothing);
    this.report.eachState(node, from, from + usPerPx * width, (code, a, b) => {
      const [first, end] = columns(a, b, from, usPerPx, width);
      for (let x = first; x < end; x++) if (severity[code] >= severity[codes[x]]) codes[x] = code;
    });
  }

  private busyOfTasks(node: number, tasks: NodeTasks): void {
    const { busy, from, usPerPx, width } = this;
    const { slots, busy_us } = this.report.nodes[node];
    const to = from + usPerPx * width;
    // A run may stand for many results; together they took no longer than the node was busy.
    const scale = tasks.covered > 0 ? Math.min(1, busy_us / tasks.covered) : 1;
    const unit = ((SHADES - 1) / Math.max(1, slots)) * scale;
    busy.fill(0);
    const [first, end] = touching(tasks, from, to);
    for (let i = first; i < end; i++) {
      const weight = unit * Math.min(slots, tasks.results[i]);
      cover(busy, tasks.begun[i], tasks.ended[i], from, usPerPx, weight);
    }
  }
}
