// Draws the rows in sight: pixels from afar, bars of single tasks from near, names at the left, load at the right.

import type { Colours } from "../colours";
import type { Report } from "../data";
import { level, sumsTasks, type Level, type Scene } from "../lod";
import { cut, duration, jobName, many, percent } from "../format";
import { touching, type NodeTasks, type TaskStore } from "../tasks";
import type { View } from "../view";
import { FONT, SMALL_FONT } from "./bands";
import { TOP, type Plane } from "./geometry";
import { Pixels } from "./pixels";
import type { Rows } from "./rows";

/** Names need so many pixels each. */
const NAME_PX = 12;
/** Rows are parted by a line from this height on. */
const PARTED_PX = 5;
/** Height that a lane of tasks would like to have. */
const LANE_PX = 11;
/** A lane this high has room for words. */
const WORDS_PX = 10.5;

export class Painter {
  level: Level = "bins";
  private readonly pixels: Pixels;
  private readonly stage = document.createElement("canvas");
  private readonly meanRun: number;
  private readonly meanSlots: number;
  private readonly mostSlots: number;

  constructor(
    private readonly report: Report,
    private readonly view: View,
    private readonly colours: Colours,
    private readonly store: TaskStore,
    private readonly rows: Rows,
  ) {
    this.pixels = new Pixels(report, colours);
    this.meanRun = report.meanRun();
    const slots = report.nodes.map((node) => node.slots);
    this.meanSlots = slots.reduce((sum, n) => sum + n, 0) / Math.max(1, slots.length);
    this.mostSlots = Math.max(1, ...slots);
  }

  /** Height of a row that bars of tasks need. */
  private get barsHeight(): number {
    return Math.max(18, Math.min(60, 4 + LANE_PX * this.mostSlots));
  }

  private scene(plane: Plane, rows: number): Scene {
    const slots = rows * this.meanSlots;
    const share = (this.view.to - this.view.from) / this.view.span;
    const allFit = rows >= this.rows.nodes.length;
    return { usPerPx: plane.usPerPx, widthPx: plane.inner, binUs: this.report.binWidth, taskUs: this.meanRun, slots, share, allFit };
  }

  /** Chooses what to draw at this zoom, and how tall rows are in `room` pixels for that. */
  choose(plane: Plane, room: number): number {
    // Asked as if rows were as tall as bars need: so the answer does not hang on itself.
    const tall = Math.min(this.rows.nodes.length, Math.ceil(room / (this.rows.asked ?? this.barsHeight)));
    this.level = level(this.scene(plane, tall));
    return this.rows.fit(room, this.level === "tasks" ? this.barsHeight : 0);
  }

  /** Draws rows from `scroll` on into `room` pixels below the bands. */
  draw(pen: CanvasRenderingContext2D, plane: Plane, scroll: number, room: number, ratio: number): void {
    const [first, end] = this.rows.inSight(scroll, room);
    const nodes = this.rows.nodes.slice(first, end);
    const uses = this.level === "tasks" || (this.level === "states" && sumsTasks(this.scene(plane, nodes.length)));
    this.store.want(uses ? nodes : []);
    if (nodes.length === 0) return;
    const tasks = nodes.map((node) => (uses ? this.store.get(node) : null));
    const top = TOP + first * this.rows.height - scroll;
    pen.save();
    pen.beginPath();
    pen.rect(0, TOP, plane.width, room);
    pen.clip();
    this.image(pen, plane, nodes, tasks, top, ratio);
    if (this.level === "tasks") tasks.forEach((of, i) => of && this.bars(pen, plane, of, nodes[i], top + i * this.rows.height));
    this.part(pen, plane, nodes.length, top);
    pen.restore();
    this.labels(pen, plane, nodes, top, room);
    this.picked(pen, plane, nodes, top, room);
  }

  private image(
    pen: CanvasRenderingContext2D,
    plane: Plane,
    nodes: number[],
    tasks: (NodeTasks | null)[],
    top: number,
    ratio: number,
  ): void {
    const width = Math.max(1, Math.round(plane.inner * ratio));
    const image = new ImageData(width, nodes.length);
    const out = new Uint32Array(image.data.buffer);
    this.pixels.aim(this.view.from, (this.view.to - this.view.from) / width, width);
    nodes.forEach((node, i) => this.pixels.row(node, this.level, tasks[i], out, i * width));
    this.stage.width = width;
    this.stage.height = nodes.length;
    this.stage.getContext("2d")?.putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.stage, plane.margins.left, top, plane.inner, nodes.length * this.rows.height);
  }

  private bars(pen: CanvasRenderingContext2D, plane: Plane, tasks: NodeTasks, node: number, top: number): void {
    const { outcomes } = this.report.meta;
    const lanes = Math.max(tasks.lanes, Math.min(this.report.nodes[node].slots, 255));
    const lane = (this.rows.height - 2) / lanes;
    const gap = lane >= 4 ? 1 : 0;
    const [first, end] = touching(tasks, this.view.from, this.view.to);
    pen.font = SMALL_FONT;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (let i = first; i < end; i++) {
      if (tasks.begun[i] > this.view.to) continue;
      const a = Math.max(plane.margins.left, plane.x(tasks.begun[i]));
      const b = Math.min(plane.width - plane.margins.right, plane.x(tasks.ended[i]));
      const wide = Math.max(1, b - a - (b - a > 3 ? 1 : 0));
      const y = top + 1 + tasks.lane[i] * lane;
      const job = Math.floor(tasks.tag[i] / 8);
      const { bar, words } = this.colours.ofTask(outcomes[tasks.tag[i] % 8] ?? "", job);
      pen.fillStyle = bar;
      pen.fillRect(a, y, wide, Math.max(1, lane - gap));
      if (lane < WORDS_PX || wide < 50) continue;
      const what = tasks.results[i] === 1 ? duration(tasks.ended[i] - tasks.begun[i]) : many(tasks.results[i], "result");
      const text = `${jobName(this.report.jobs[job])} · ${what}`;
      if (pen.measureText(text).width > wide - 8) continue;
      pen.fillStyle = words;
      pen.fillText(text, a + 4, y + lane / 2 + 0.5);
    }
  }

  private part(pen: CanvasRenderingContext2D, plane: Plane, count: number, top: number): void {
    if (this.rows.height < PARTED_PX) return;
    pen.fillStyle = this.colours.ground;
    for (let i = 0; i <= count; i++) {
      pen.fillRect(plane.margins.left, Math.round(top + i * this.rows.height), plane.inner, 1);
    }
  }

  private labels(pen: CanvasRenderingContext2D, plane: Plane, nodes: number[], top: number, room: number): void {
    const { height } = this.rows;
    const every = Math.max(1, Math.ceil(NAME_PX / height));
    const right = plane.width - plane.margins.right;
    pen.font = FONT;
    pen.textBaseline = "middle";
    nodes.forEach((node, i) => {
      const row = this.rows.place[node];
      if (row % every !== 0) return;
      // A name belongs to its own row, not to the middle of those it stands for.
      const y = top + i * height + height / 2;
      if (y < TOP - 1 || y > TOP + room) return;
      pen.fillStyle = this.colours.muted;
      pen.textAlign = "right";
      if (node !== this.view.picked) pen.fillText(fitting(pen, this.report.nodes[node].node, plane.margins.left - 10), plane.margins.left - 6, y);
      if (every > 1) return;
      pen.textAlign = "left";
      pen.fillText(percent(this.report.nodes[node].utilisation), right + 5, y);
    });
  }

  /** The row that somebody picked, and its name in front of the others. */
  private picked(pen: CanvasRenderingContext2D, plane: Plane, nodes: number[], top: number, room: number): void {
    const i = nodes.indexOf(this.view.picked);
    if (i < 0) return;
    const { height } = this.rows;
    const y = top + i * height;
    pen.save();
    pen.beginPath();
    pen.rect(0, TOP - 1, plane.width, room + 1);
    pen.clip();
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(plane.margins.left - 1, y - 1, plane.inner + 2, height + 2);
    pen.restore();
    const middle = Math.max(TOP + 8, Math.min(TOP + room - 8, y + height / 2));
    pen.fillStyle = this.colours.accent;
    pen.fillRect(0, middle - 8, plane.margins.left - 2, 16);
    pen.fillStyle = this.colours.ground;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.font = FONT;
    pen.fillText(fitting(pen, this.report.nodes[this.view.picked].node, plane.margins.left - 10), plane.margins.left - 6, middle);
  }
}

/** `text`, cut so that it is no wider than `room`. */
function fitting(pen: CanvasRenderingContext2D, text: string, room: number): string {
  if (pen.measureText(text).width <= room) return text;
  let keep = Math.min(text.length, 60);
  while (keep > 3 && pen.measureText(cut(text, keep)).width > room) keep--;
  return cut(text, keep);
}
