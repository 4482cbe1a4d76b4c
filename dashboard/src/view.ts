// What all pictures of a page show alike: a window of time, a cursor, a node that was picked, a clock. Whoever
// draws listens; changes within a frame are told once.

import { LOCAL, UTC, type Zone } from "./format";

/** The narrowest window: a screen of single microseconds says nothing. */
const SPAN_MIN_US = 200;

export type Change = "window" | "cursor" | "picked" | "clock" | "theme" | "tasks";

export class View {
  from: number;
  to: number;
  /** Time under the pointer; none while it is elsewhere. */
  cursor: number | null = null;
  /** Index of the node that was picked, or -1. */
  picked = -1;
  zone: Zone = UTC;
  private readonly listeners: ((changes: ReadonlySet<Change>) => void)[] = [];
  private pending = new Set<Change>();

  constructor(
    readonly span: number,
    /** Runs a function before the next picture. */
    private readonly soon: (run: () => void) => void,
  ) {
    this.from = 0;
    this.to = span;
  }

  listen(listener: (changes: ReadonlySet<Change>) => void): void {
    this.listeners.push(listener);
  }

  /** Tells everybody, before the next picture. */
  tell(change: Change): void {
    if (this.pending.size === 0) {
      this.soon(() => {
        const changes = this.pending;
        this.pending = new Set();
        for (const listener of this.listeners) listener(changes);
      });
    }
    this.pending.add(change);
  }

  /** Shows `from..to`, moved and cut so that it lies within the report. */
  show(from: number, to: number): void {
    const width = Math.min(this.span, Math.max(SPAN_MIN_US, to - from));
    const middle = (from + to) / 2;
    const start = Math.max(0, Math.min(this.span - width, middle - width / 2));
    if (start === this.from && start + width === this.to) return;
    this.from = start;
    this.to = start + width;
    this.tell("window");
  }

  /** Zooms by `factor` (below 1: closer) so that the time `around` stays where it is. */
  zoom(factor: number, around: number): void {
    const width = Math.min(this.span, Math.max(SPAN_MIN_US, (this.to - this.from) * factor));
    const place = (around - this.from) / (this.to - this.from);
    const from = Math.max(0, Math.min(this.span - width, around - width * place));
    this.show(from, from + width);
  }

  /** Moves the window by a share of its width. */
  pan(share: number): void {
    const by = (this.to - this.from) * share;
    const from = Math.max(0, Math.min(this.span - (this.to - this.from), this.from + by));
    this.show(from, from + (this.to - this.from));
  }

  point(t: number | null): void {
    if (t === this.cursor) return;
    this.cursor = t;
    this.tell("cursor");
  }

  pick(node: number): void {
    this.picked = node;
    this.tell("picked");
  }

  toggleZone(): void {
    this.zone = this.zone === UTC ? LOCAL : UTC;
    this.tell("clock");
  }
}
