// Rows of the timeline: their order, their height, and which of them are in sight. No DOM in here.

import type { Report } from "../data";
import { byName } from "../search";

export const ORDERS = { name: "name", lost: "time lost", busy: "utilisation", joined: "time of joining" };
export type Order = keyof typeof ORDERS;

const HEIGHT_MIN = 2;
const HEIGHT_MAX = 96;
/** Rows are made no taller than this only because there is room. */
const FIT_MAX = 22;

export class Rows {
  order: Order = "name";
  /** Index of the node in each row. */
  nodes: number[] = [];
  /** Row of each node. */
  place: number[] = [];
  /** Height that was asked for; none for whatever fits. */
  asked: number | null = null;
  height = HEIGHT_MIN;

  constructor(private readonly report: Report) {
    this.sort("name");
  }

  sort(order: Order): void {
    this.order = order;
    const { nodes } = this.report;
    const keys: Record<Order, (i: number) => number> = {
      name: () => 0,
      lost: (i) => -nodes[i].lost_us,
      busy: (i) => -nodes[i].utilisation,
      joined: (i) => nodes[i].joined_us,
    };
    const key = keys[order];
    this.nodes = nodes.map((_, i) => i).sort((a, b) => key(a) - key(b) || byName(nodes[a].node, nodes[b].node));
    this.nodes.forEach((node, row) => (this.place[node] = row));
  }

  get total(): number {
    return this.height * this.nodes.length;
  }

  /** Height of a row in `room` pixels: what was asked for, or `wish`, or what lets all rows be seen. */
  fit(room: number, wish: number): number {
    const fitting = Math.max(HEIGHT_MIN, Math.min(FIT_MAX, Math.floor(room / Math.max(1, this.nodes.length))));
    return this.asked ?? Math.min(HEIGHT_MAX, Math.max(fitting, wish));
  }

  /** Makes rows taller (`factor` above 1) or lower. */
  grow(factor: number): void {
    const next = Math.round(this.height * factor);
    this.asked = Math.max(HEIGHT_MIN, Math.min(HEIGHT_MAX, next === this.height ? next + Math.sign(factor - 1) : next));
  }

  /** Rows `[first, end)` that a window of `room` pixels shows from `scroll` on. */
  inSight(scroll: number, room: number): [number, number] {
    const first = Math.max(0, Math.floor(scroll / this.height));
    return [first, Math.min(this.nodes.length, Math.ceil((scroll + room) / this.height))];
  }
}
