// The timeline: nodes as rows, time across, states as colours. This file puts its parts together; what they draw and
// how hands move it is in the files beside it.

import { classOf, type Class, type Colours } from "../colours";
import type { Report } from "../data";
import { button, h } from "../dom";
import { plain } from "../format";
import { TaskStore } from "../tasks";
import { roundStep } from "../ticks";
import type { Change, View } from "../view";
import { Bands } from "./bands";
import { Plane, TOP } from "./geometry";
import { listen } from "./input";
import { Overview } from "./overview";
import { Painter } from "./paint";
import { ORDERS, Rows, type Order } from "./rows";
import { Ruler } from "./ruler";
import { nodeLines, taskLines, Tooltip } from "./tooltip";

/** Words for the legend; `gone` needs none: there is nothing. */
const LEGEND: [Class, string][] = [
  ["busy", "busy"],
  ["idle", "idle"],
  ["suspect", "suspect"],
  ["lost", "lost"],
  ["draining", "draining"],
  ["quarantined", "quarantined"],
  ["unknown", "nothing known"],
];

/** Room for rows, in CSS pixels, and what is left free below them. */
const ROOM_MIN = 240;
const ROOM_MAX = 760;
const BELOW = 8;

export class Timeline {
  readonly element: HTMLElement;
  readonly plane: Plane;
  readonly rows: Rows;
  private readonly canvas = h("canvas", { tabindex: 0, role: "application", "aria-roledescription": "timeline", class: "rows", "aria-describedby": "timeline-help" });
  private readonly spacer = h("div", {});
  private readonly scroller = h("div", { class: "scroller" }, this.canvas, this.spacer);
  private readonly line = h("div", { class: "cursor", hidden: true });
  private readonly ruler: Ruler;
  private readonly tooltip = new Tooltip();
  private readonly overview: Overview;
  private readonly bands: Bands;
  private readonly painter: Painter;
  private readonly store: TaskStore;
  private readonly barsKey = h("span", { class: "bars-key" });
  private readonly said = h("output", { class: "said", "aria-live": "polite" });
  /** Where the pointer is. */
  private pointer: { x: number; y: number } | null = null;
  private scheduled = false;
  /** Height for rows, in CSS pixels: so that all of the timeline is seen at once when the page opens. */
  private room = ROOM_MIN;

  constructor(
    private readonly report: Report,
    private readonly view: View,
    private readonly colours: Colours,
  ) {
    this.plane = new Plane(view);
    this.rows = new Rows(report);
    this.ruler = new Ruler(view, this.plane, (text) => (this.said.textContent = text));
    this.store = new TaskStore(report, () => view.tell("tasks"));
    this.bands = new Bands(report, view, colours);
    this.painter = new Painter(report, view, colours, this.store, this.rows);
    this.overview = new Overview(report, view, colours);
    const stage = h("div", { class: "stage" }, this.scroller, this.line, this.ruler.element, this.tooltip.element);
    this.element = h("div", { class: "timeline" }, h("div", { class: "tools" }, this.controls(), this.legend()), this.overview.element, stage,
      h("div", { class: "foot" }, this.said, this.barsKey));
    this.fillBarsKey();
    if (report.nodes.length === 0) this.said.textContent = "No node joined.";
    listen({
      view,
      plane: this.plane,
      canvas: this.canvas,
      scroller: this.scroller,
      hover: (at) => this.hover(at),
      click: (at) => this.click(at),
      measure: (from, to) => this.measure(from, to),
      rulerOn: () => this.ruler.on,
      key: (key, shift) => this.key(key, shift),
    });
    this.scroller.addEventListener("scroll", () => this.soon());
    view.listen((changes) => this.changed(changes));
  }

  /** Draws everything for the width that there is now. */
  layout(): void {
    const top = this.scroller.getBoundingClientRect().top + scrollY;
    this.room = Math.max(ROOM_MIN, Math.min(ROOM_MAX, innerHeight - top - TOP - BELOW));
    this.plane.resize(this.scroller.clientWidth);
    this.overview.draw(this.plane.width);
    this.draw();
    // Rows that are taller than the room bring a scroll bar, which takes some of the width.
    if (Math.abs(this.scroller.clientWidth - this.plane.width) > 0.5 && this.scroller.clientWidth > 160) {
      this.plane.resize(this.scroller.clientWidth);
      this.overview.draw(this.plane.width);
      this.draw();
    }
  }

  private changed(changes: ReadonlySet<Change>): void {
    if (changes.has("theme")) {
      this.overview.draw(this.plane.width);
      this.fillBarsKey();
    }
    if (changes.has("window")) this.overview.frame();
    if (changes.size > 1 || !changes.has("cursor")) this.draw();
    // What was under the pointer has moved away, or more is known of it.
    if (changes.has("window") || (changes.has("tasks") && this.pointer)) this.hover(this.pointer);
    this.cursorLine();
    this.ruler.draw();
    // Keys move the window, and with it the moment that is told.
    const isMoved = changes.has("window") && !this.pointer && !this.ruler.on && this.view.picked >= 0;
    if (changes.has("picked") || isMoved) this.say();
  }

  private soon(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  private draw(): void {
    const height = this.painter.choose(this.plane, this.room);
    if (height !== this.rows.height) this.setHeight(height);
    const room = Math.min(this.room, this.rows.total);
    const ratio = devicePixelRatio || 1;
    const [width, high] = [this.plane.width, TOP + room];
    this.scroller.style.height = `${high}px`;
    this.spacer.style.height = `${Math.max(0, this.rows.total - room)}px`;
    const [deviceWidth, deviceHeight] = [Math.round(width * ratio), Math.round(high * ratio)];
    if (this.canvas.width !== deviceWidth || this.canvas.height !== deviceHeight) {
      [this.canvas.width, this.canvas.height] = [deviceWidth, deviceHeight];
      [this.canvas.style.width, this.canvas.style.height] = [`${width}px`, `${high}px`];
    }
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colours.ground;
    pen.fillRect(0, 0, width, high);
    this.bands.axis(pen, this.plane, this.view.zone, high);
    this.painter.draw(pen, this.plane, this.scroller.scrollTop, room, ratio);
    this.bands.epochs(pen, this.plane, high);
    this.bands.marksBand(pen, this.plane);
    this.canvas.dataset.level = this.painter.level;
    // Hidden in place: what is below must not jump while somebody zooms.
    this.barsKey.style.visibility = this.painter.level === "tasks" && this.rows.nodes.length > 0 ? "visible" : "hidden";
  }

  /** Changes the height of rows so that the row under the pointer, or the picked one, stays where it is. */
  private setHeight(height: number): void {
    const before = this.rows.height;
    const place = this.rows.place[this.view.picked];
    const scroll = this.scroller.scrollTop;
    const pickedY = place === undefined ? null : (place + 0.5) * before - scroll;
    const inside = pickedY !== null && pickedY >= 0 && pickedY <= this.room ? pickedY : null;
    const y = (this.pointer && this.pointer.y > TOP ? this.pointer.y - TOP : null) ?? inside ?? this.room / 2;
    this.rows.height = height;
    this.spacer.style.height = `${Math.max(0, this.rows.total - Math.min(this.room, this.rows.total))}px`;
    this.scroller.scrollTop = ((scroll + y) / before) * height - y;
  }

  /** Brings a node's row into sight, and picks it. */
  reveal(node: number): void {
    const y = this.rows.place[node] * this.rows.height;
    const room = Math.min(this.room, this.rows.total);
    if (y < this.scroller.scrollTop || y + this.rows.height > this.scroller.scrollTop + room) {
      this.scroller.scrollTop = y - room / 2;
    }
    this.view.pick(node);
  }

  /** Times are said as exactly as a pixel is wide. */
  private get step(): number {
    return roundStep(this.plane.usPerPx);
  }

  private nodeAt(y: number): number {
    const row = Math.floor((y - TOP + this.scroller.scrollTop) / this.rows.height);
    return y < TOP ? -1 : (this.rows.nodes[row] ?? -1);
  }

  private hover(at: { x: number; y: number } | null): void {
    const inside = at && at.x >= this.plane.margins.left && at.x <= this.plane.width - this.plane.margins.right;
    this.pointer = at;
    this.view.point(at && inside ? Math.max(0, Math.min(this.view.span, this.plane.t(at.x))) : null);
    if (!at || !inside) return this.tooltip.hide();
    const group = at.y < TOP ? this.bands.at(at.x) : null;
    if (group) return this.tooltip.marks(group, this.view.zone, TOP, this.plane.width);
    const lines = this.linesAt(at.x, at.y);
    if (lines.length === 0) this.tooltip.hide();
    else this.tooltip.show(lines, at.x, at.y, this.plane.width);
  }

  private linesAt(x: number, y: number): string[] {
    const node = this.nodeAt(y);
    if (node < 0) return [];
    const t = this.plane.t(x);
    const lines = nodeLines(this.report, node, t, this.view.zone, this.step);
    const tasks = this.store.get(node);
    if (tasks && this.painter.level === "tasks") {
      const lanes = Math.max(tasks.lanes, this.report.nodes[node].slots);
      const inRow = (y - TOP + this.scroller.scrollTop) % this.rows.height;
      lines.push(...taskLines(this.report, tasks, t, Math.floor((inRow / this.rows.height) * lanes)));
    }
    return lines;
  }

  private click(at: { x: number; y: number }): void {
    this.hover(at);
    const node = this.nodeAt(at.y);
    if (node >= 0) this.view.pick(node);
    if (at.y >= TOP) return;
    const group = this.bands.at(at.x);
    const mark = group?.marks.find(({ node: name }) => this.report.nodeIndex(name) >= 0);
    if (mark) this.reveal(this.report.nodeIndex(mark.node));
  }

  /** Says what is known of the picked node at the cursor, for those who do not see the picture. */
  private say(): void {
    const { picked, cursor, from, to, zone } = this.view;
    this.said.textContent = picked < 0 ? "" : nodeLines(this.report, picked, cursor ?? (from + to) / 2, zone, this.step).join(" · ");
  }

  private measure(from: number, to: number): void {
    this.tooltip.hide();
    this.ruler.measure([from, to]);
  }

  private cursorLine(): void {
    const { cursor, from, to } = this.view;
    this.line.hidden = cursor === null || cursor < from || cursor > to;
    if (cursor !== null) this.line.style.transform = `translateX(${this.plane.x(cursor)}px)`;
  }

  private key(key: string, shift: boolean): boolean {
    const step = (by: number) => {
      const row = this.view.picked < 0 ? 0 : this.rows.place[this.view.picked] + by;
      const node = this.rows.nodes[Math.max(0, Math.min(this.rows.nodes.length - 1, row))];
      if (node !== undefined) this.reveal(node);
    };
    const end = shift ? "from" : "to";
    const measures: Record<string, () => void> = { ArrowLeft: () => this.ruler.step(-1, end), ArrowRight: () => this.ruler.step(1, end) };
    const deeds: Record<string, () => void> = {
      ...(this.ruler.on ? measures : {}),
      ArrowUp: () => step(-1),
      ArrowDown: () => step(1),
      PageUp: () => (this.scroller.scrollTop -= this.room),
      PageDown: () => (this.scroller.scrollTop += this.room),
      "[": () => this.grow(1 / 1.5),
      "]": () => this.grow(1.5),
      r: () => this.ruler.toggle(),
      Escape: () => this.clear(),
    };
    deeds[key]?.();
    return key in deeds;
  }

  private clear(): void {
    this.ruler.clear();
    this.view.pick(-1);
  }

  private grow(factor: number | null): void {
    if (factor === null) this.rows.asked = null;
    else this.rows.grow(factor);
    this.layout();
  }

  private controls(): HTMLElement {
    const { view } = this;
    const middle = () => (view.from + view.to) / 2;
    const order = h("select", { "aria-label": "Order of the rows", change: () => this.reorder(order.value as Order) },
      ...Object.entries(ORDERS).map(([value, text]) => h("option", { value }, text)));
    return h("div", { class: "controls", role: "toolbar", "aria-label": "Timeline" },
      h("span", { class: "group" },
        button("−", "Zoom out (-)", () => view.zoom(2, middle())),
        button("+", "Zoom in (+)", () => view.zoom(0.5, middle())),
        button("all", "Show the whole run (0)", () => view.show(0, view.span)),
        button("◂", "Earlier (left arrow)", () => view.pan(-0.3)),
        button("▸", "Later (right arrow)", () => view.pan(0.3)),
        this.ruler.button),
      h("label", { class: "group" }, h("span", { class: "wide" }, "rows by "), order),
      h("span", { class: "group" }, h("span", { class: "wide" }, "rows "),
        button("lower", "Lower rows ([)", () => this.grow(1 / 1.5)),
        button("taller", "Taller rows (])", () => this.grow(1.5)),
        button("fit", "As tall as fits", () => this.grow(null))));
  }

  private reorder(order: Order): void {
    this.rows.sort(order);
    this.scroller.scrollTop = 0;
    this.view.tell("window");
  }

  private legend(): HTMLElement {
    const seen = new Set(this.report.wordsSeen().map((word) => classOf(word)));
    const chip = ([kind, text]: [Class, string]) => {
      const face = h("i", {});
      const press = () => {
        const shown = this.colours.hidden.delete(kind);
        if (!shown) this.colours.hidden.add(kind);
        made.setAttribute("aria-pressed", String(shown));
        this.view.tell("theme");
      };
      const made = h("button", { type: "button", class: "chip", "aria-pressed": "true", title: "Show or hide", click: press }, face, text);
      const paint = () => (face.style.background = this.colours.ofClass(kind));
      paint();
      this.view.listen((changes) => changes.has("theme") && paint());
      return made;
    };
    const chips = LEGEND.filter(([kind]) => seen.has(kind)).map(chip);
    return h("div", { class: "legend", role: "group", "aria-label": "Legend: press a state to show or hide it" }, ...chips);
  }

  /** What the colours of bars mean: what became of results; there are bars only from near. */
  private fillBarsKey(): void {
    const { outcomes } = this.report.meta;
    this.barsKey.replaceChildren("results: ", ...outcomes.map((outcome) => {
      const face = h("i", {});
      face.style.background = this.colours.ofTask(outcome, 0).bar;
      return h("span", {}, face, plain(outcome));
    }));
  }

  /** Says to those who do not see the canvas what is on it. */
  describe(text: string): void {
    this.canvas.setAttribute("aria-label", plain(text));
  }
}
