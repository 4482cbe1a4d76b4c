// Series over time, under the timeline and in step with it: the same window, the same cursor, the same margins.

import uPlot from "uplot";
import type { Colours } from "./colours";
import type { Report } from "./data";
import { h, lazyDetails, section, table } from "./dom";
import { duration, moment, short } from "./format";
import { room, ticks } from "./ticks";
import { margins } from "./timeline/geometry";
import type { View } from "./view";

interface Line {
  series: string;
  text: string;
  colour: string;
  /** On a scale of its own, at the right. */
  right?: boolean;
  fill?: boolean;
  dash?: number[];
}

interface Chart {
  title: string;
  caption: string;
  lines: Line[];
}

/** What there is at most, and what has its scale at the right: dashed, in grey. */
const DASHED = { colour: "idle", dash: [4, 3] };

const CHARTS: Chart[] = [
  {
    title: "Nodes",
    caption: "Nodes that are up, and all that are not lost: the lowest number in each bin.",
    lines: [
      { series: "nodes_up", text: "up", colour: "up", fill: true },
      { series: "nodes", text: "not lost", ...DASHED },
    ],
  },
  {
    title: "Slots",
    caption: "Slots that compute, and all slots of nodes that are up; a suspect node may compute as well.",
    lines: [
      { series: "slots_busy", text: "busy", colour: "busy", fill: true },
      { series: "slots", text: "of nodes up", ...DASHED },
    ],
  },
  {
    title: "Queues",
    caption: "Tasks that wait for a node (gq), tasks that nodes have (dq), jobs that are not finished (jq).",
    lines: [
      { series: "gq", text: "waiting (gq)", colour: "pending", fill: true },
      { series: "dq", text: "at nodes (dq)", colour: "out" },
      { series: "jq", text: "jobs (jq)", right: true, ...DASHED },
    ],
  },
  {
    title: "Rates",
    caption: "Results that count, and units in them, in a second: spread over the watched part of the time that they took.",
    lines: [
      { series: "results_per_s", text: "results/s", colour: "done", fill: true },
      { series: "units_per_s", text: "units/s", right: true, ...DASHED },
    ],
  },
  {
    title: "Speed-ups and slow-downs",
    caption: "How often nodes asked for more or fewer tasks, in a second, and the mean speed of a node.",
    lines: [
      { series: "speed_ups_per_s", text: "speed-ups/s", colour: "busy" },
      { series: "slow_downs_per_s", text: "slow-downs/s", colour: "suspect" },
      { series: "power_mean", text: "mean speed (power)", right: true, ...DASHED },
    ],
  },
  {
    title: "Resent",
    caption: "Tasks that went back to gq because their node was lost or late, and offers repeated because nothing came back.",
    lines: [
      { series: "resent_per_s", text: "resent/s", colour: "lost" },
      { series: "offers_repeated_per_s", text: "offers repeated/s", colour: "suspect" },
    ],
  },
];

const HEIGHT = 132;
const LINE_PX = 1.4;
/** A value that no line reaches; of a dashed line it is a ring, so that it hides no dot. */
const DOT_PX = 6;
const RING_PX = 10;
const TABLE_ROWS = 48;

/** What a series says as a whole. */
export interface Extent {
  low: number;
  mean: number;
  high: number;
}

/** The extent of what is known in `values[first..end)`, each as much as is known of its bin (`told`); none where nothing is. */
export function extent(values: Float32Array, told: Float32Array | null, first = 0, end = values.length): Extent | null {
  let [low, high, sum, known] = [Infinity, -Infinity, 0, 0];
  for (let i = first; i < end; i++) {
    const value = values[i];
    if (Number.isNaN(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
    const share = told?.[i] ?? 1;
    sum += value * share;
    known += share;
  }
  return low <= high ? { low, high, mean: sum / known } : null;
}

/** Why there is nothing to draw of `all`, the lines of a chart; none where there is something. That there was none is said only where all is known. */
export function emptiness(all: Float32Array[]): string | null {
  const extents = all.map((values) => extent(values, null));
  if (extents.some((of) => of !== null && of.high !== 0)) return null;
  return extents.includes(null) ? "The log tells nothing of it." : "None in the whole run.";
}

/** Indices of values that no line reaches, for nothing is known before them nor after; none where lines show all. */
export function isolated(values: Float32Array): number[] | null {
  const known = (i: number) => i >= 0 && i < values.length && !Number.isNaN(values[i]);
  const found = [...values.keys()].filter((i) => known(i) && !known(i - 1) && !known(i + 1));
  return found.length > 0 ? found : null;
}

export class SeriesCharts {
  readonly element: HTMLElement;
  private readonly plots: { plot: uPlot; inSight: boolean; stale: boolean }[] = [];
  private readonly slots: { chart: Chart; place: HTMLElement }[] = [];
  private readonly seconds: Float64Array;
  private busy = false;

  constructor(
    private readonly report: Report,
    private readonly view: View,
    private readonly colours: Colours,
  ) {
    // uPlot counts in seconds; ours count from the report's start, so that they stay exact.
    this.seconds = Float64Array.from({ length: report.bins }, (_, i) => (report.binFrom + (i + 0.5) * report.binWidth) / 1e6);
    const charts = CHARTS.filter(({ lines }) => lines.some(({ series }) => report.series(series)));
    const caption = `Means over bins of ${duration(report.binWidth)}. Zoom and cursor go with the timeline; drag to zoom, double-click to see all.`;
    this.element = section("series", "Over time", caption, ...charts.map((chart) => this.figure(chart)));
  }

  private lines(chart: Chart): { line: Line; values: Float32Array }[] {
    return chart.lines.flatMap((line) => {
      const values = this.report.series(line.series);
      return values ? [{ line, values }] : [];
    });
  }

  private figure(chart: Chart): HTMLElement {
    const lines = this.lines(chart);
    const caption = h("figcaption", {}, h("h3", {}, chart.title), h("p", { class: "caption" }, chart.caption));
    const nothing = emptiness(lines.map(({ values }) => values));
    if (nothing !== null) return h("figure", { class: "nothing" }, caption, h("p", {}, nothing));
    const place = h("div", { class: "plot", role: "img", "aria-label": this.summary(chart) });
    place.addEventListener("dblclick", () => this.view.show(0, this.view.span));
    this.slots.push({ chart, place });
    const text = lazyDetails(`${chart.title} as a table`, () => this.table(chart));
    return h("figure", {}, caption, this.legend(lines), place, text.element);
  }

  /** Names each line, with its value at the cursor, or else its mean in what is shown. */
  private legend(lines: { line: Line; values: Float32Array }[]): HTMLElement {
    const when = h("li", { class: "when" });
    const places = lines.map(() => h("b", {}));
    const say = () => {
      const { cursor, from, to, zone } = this.view;
      const { binFrom, binWidth, bins, meta } = this.report;
      const bin = (t: number) => Math.max(0, Math.min(bins - 1, Math.floor((t - binFrom) / binWidth)));
      when.textContent = cursor === null ? "mean of what is shown" : `at ${moment(meta.from_us + cursor, zone, binWidth)}`;
      lines.forEach(({ values }, i) => {
        const value = cursor === null ? extent(values, this.report.told, bin(from), bin(to) + 1)?.mean : values[bin(cursor)];
        places[i].textContent = short(value ?? NaN);
      });
    };
    const made = h("ul", { class: "lines", "aria-hidden": "true" }, ...lines.map(({ line }, i) => {
      const face = h("i", { class: line.dash ? "dashed" : null });
      face.style.color = this.colours.ofWord(line.colour);
      return h("li", {}, face, line.right ? `${line.text} (scale at the right) ` : `${line.text} `, places[i]);
    }), when);
    say();
    this.view.listen((changes) => {
      if (changes.has("cursor") || changes.has("window") || changes.has("clock")) say();
    });
    return made;
  }

  /** The chart in a sentence a line. */
  private summary(chart: Chart): string {
    const said = this.lines(chart).map(({ line, values }) => {
      const all = extent(values, this.report.told);
      return all ? `${line.text}: lowest ${short(all.low)}, mean ${short(all.mean)}, highest ${short(all.high)}` : `${line.text}: nothing known`;
    });
    return `${chart.title}. ${said.join("; ")}.`;
  }

  private table(chart: Chart): HTMLElement {
    const { bins, binFrom, binWidth, meta } = this.report;
    const first = Math.max(0, Math.floor((this.view.from - binFrom) / binWidth));
    const end = Math.min(bins, Math.ceil((this.view.to - binFrom) / binWidth));
    const step = Math.max(1, Math.ceil((end - first) / TABLE_ROWS));
    const lines = this.lines(chart);
    const rows: string[][] = [];
    for (let bin = first; bin < end; bin += step) {
      const at = moment(meta.from_us + binFrom + bin * binWidth, this.view.zone);
      rows.push([at, ...lines.map(({ values }) => short(values[bin]))]);
    }
    return table(`${this.summary(chart)} Every ${duration(step * binWidth)} of what is shown.`,
      [`bin from, ${this.view.zone.label}`, ...lines.map(({ line }) => line.text)], rows);
  }

  /** Makes the plots: later than the first picture, for they are below it. */
  plot(width: number): void {
    for (const { chart, place } of this.slots) {
      const plot = new uPlot(this.options(chart, width), this.data(chart), place);
      const entry = { plot, inSight: true, stale: false };
      this.plots.push(entry);
      new IntersectionObserver(([seen]) => {
        entry.inSight = seen.isIntersecting;
        if (entry.inSight && entry.stale) this.zoom(entry);
      }).observe(place);
    }
    this.view.listen((changes) => {
      if (changes.has("theme") || changes.has("clock")) for (const { plot } of this.plots) plot.redraw(false, true);
      if (changes.has("window")) this.plots.forEach((entry) => this.zoom(entry));
      if (changes.has("cursor")) this.cursors();
    });
  }

  layout(width: number): void {
    for (const { plot } of this.plots) plot.setSize({ width, height: HEIGHT });
  }

  private zoom(entry: { plot: uPlot; inSight: boolean; stale: boolean }): void {
    entry.stale = !entry.inSight;
    if (entry.stale) return;
    this.busy = true;
    entry.plot.setScale("x", { min: this.view.from / 1e6, max: this.view.to / 1e6 });
    this.busy = false;
  }

  private cursors(): void {
    const { cursor } = this.view;
    this.busy = true;
    for (const { plot, inSight } of this.plots) {
      if (!inSight) continue;
      const left = cursor === null ? -10 : plot.valToPos(cursor / 1e6, "x");
      plot.setCursor({ left, top: cursor === null ? -10 : 1 });
    }
    this.busy = false;
  }

  private data(chart: Chart): uPlot.AlignedData {
    // uPlot takes null for a gap, not NaN.
    const gaps = (values: Float32Array) => Array.from(values, (value) => (Number.isNaN(value) ? null : value));
    return [this.seconds, ...this.lines(chart).map(({ values }) => gaps(values))] as uPlot.AlignedData;
  }

  private options(chart: Chart, width: number): uPlot.Options {
    const { view, colours } = this;
    const lines = this.lines(chart);
    const space = margins(width);
    const axis = { stroke: () => colours.muted, grid: { stroke: () => colours.line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const start = (value: number) => Math.max(0, value);
    const scale: uPlot.Scale = { range: (_, low, high) => [Math.min(0, low ?? 0), high === null || !(high > 0) ? 1 : start(high) * 1.08] };
    const numbers = (_: uPlot, splits: number[]) => splits.map((n) => short(n));
    return {
      width,
      height: HEIGHT,
      padding: [6, lines.some(({ line }) => line.right) ? 0 : space.right, 0, 0],
      scales: { x: { time: false, range: () => [view.from / 1e6, view.to / 1e6] }, y: scale, right: scale },
      axes: [
        { ...axis, size: 22, gap: 2, splits: () => this.splits(width - space.left - space.right), values: () => this.splitTexts },
        { ...axis, scale: "y", size: space.left, gap: 5, space: 26, values: numbers },
        ...(lines.some(({ line }) => line.right)
          ? [{ ...axis, scale: "right", side: 1, size: space.right, gap: 5, space: 26, grid: { show: false }, values: numbers }]
          : []),
      ],
      series: [{}, ...lines.map(({ line, values }) => this.line(line, values))],
      cursor: { drag: { x: true, y: false, setScale: false }, y: false, points: { size: 5, fill: (_, i) => colours.ofWord(lines[i - 1].line.colour) } },
      hooks: { drawSeries: [(plot, i) => this.widths(plot, lines[i - 1])], setCursor: [(plot) => this.pointed(plot)], setSelect: [(plot) => this.selected(plot)] },
      legend: { show: false },
    };
  }

  private line({ colour, right, fill, dash }: Line, values: Float32Array): uPlot.Series {
    const of = this.colours.ofWord(colour);
    const alone = isolated(values);
    return {
      scale: right ? "right" : "y",
      stroke: of,
      width: LINE_PX,
      dash,
      fill: fill ? of.replace(")", " / 0.18)") : undefined,
      // A run shorter than a bin, between two gaps, is a dot.
      points: { show: false, filter: () => alone, ...(dash ? { size: RING_PX, fill: "transparent" } : { size: DOT_PX, fill: of }) },
    };
  }

  /** Draws a value that no line reaches as wide as its bin: from near, the dot at its middle may be out of sight. */
  private widths(plot: uPlot, { line, values }: { line: Line; values: Float32Array }): void {
    const { ctx: pen, bbox } = plot;
    const half = this.report.binWidth / 2e6;
    pen.save();
    pen.beginPath();
    pen.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    pen.clip();
    pen.beginPath();
    for (const i of isolated(values) ?? []) {
      const y = plot.valToPos(values[i], line.right ? "right" : "y", true);
      pen.moveTo(plot.valToPos(this.seconds[i] - half, "x", true), y);
      pen.lineTo(plot.valToPos(this.seconds[i] + half, "x", true), y);
    }
    pen.strokeStyle = this.colours.ofWord(line.colour);
    pen.lineWidth = LINE_PX * devicePixelRatio;
    pen.setLineDash((line.dash ?? []).map((px) => px * devicePixelRatio));
    pen.stroke();
    pen.restore();
  }

  private splitTexts: string[] = [];

  private splits(px: number): number[] {
    const { from_us } = this.report.meta;
    const found = ticks(from_us + this.view.from, from_us + this.view.to, room(px, this.view.to - this.view.from), this.view.zone);
    this.splitTexts = found.map(({ text }) => text);
    return found.map(({ at }) => (at - from_us) / 1e6);
  }

  private pointed(plot: uPlot): void {
    if (this.busy) return;
    const { left } = plot.cursor;
    this.view.point(left === undefined || left < 0 ? null : plot.posToVal(left, "x") * 1e6);
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width > 4) this.view.show(plot.posToVal(left, "x") * 1e6, plot.posToVal(left + width, "x") * 1e6);
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }
}
