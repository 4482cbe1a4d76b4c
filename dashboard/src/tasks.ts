// Tasks of a node: unpacked from the blob's varints when somebody looks at them, in slices so that a node with
// millions of them does not hold up the page, and laid into lanes so that bars do not hide each other.

import { RUN_BYTES, upper, type Report } from "./data";

/** A node's runs of results, ascending by `ended`. */
export interface NodeTasks {
  count: number;
  begun: Float64Array;
  ended: Float64Array;
  results: Uint32Array;
  /** Index of the job * 8 + code of the outcome. */
  tag: Uint32Array;
  lane: Uint8Array;
  /** Lanes in use. */
  lanes: number;
  /** The longest run, in microseconds. */
  longest: number;
  /** Time of all slots that the runs cover, in microseconds: too much where a run stands for results in turn. */
  covered: number;
}

/** Runs between two looks at the clock. */
const SLICE = 20_000;
/** Runs kept unpacked: 25 bytes each. */
const KEPT_MAX = 5_000_000;
const LANES_MAX = 255;

/** Reads LEB128 varints one after another; a cut one ends as 0. */
export class Varints {
  private at: number;
  constructor(
    private readonly bytes: Uint8Array,
    from: number,
    private readonly to: number,
  ) {
    this.at = from;
  }

  next(): number {
    let value = 0;
    // A factor, not a shift: these numbers may pass 32 bits.
    for (let factor = 1; this.at < this.to; factor *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    return 0;
  }

  signed(): number {
    const value = this.next();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

/** Varints that end in `bytes[from..to)`. */
export function countVarints(bytes: Uint8Array, from: number, to: number): number {
  let count = 0;
  for (let i = from; i < to; i++) if (bytes[i] < 128) count++;
  return count;
}

function empty(count: number): NodeTasks {
  return {
    count,
    begun: new Float64Array(count),
    ended: new Float64Array(count),
    results: new Uint32Array(count),
    tag: new Uint32Array(count),
    lane: new Uint8Array(count),
    lanes: 1,
    longest: 0,
    covered: 0,
  };
}

/** Moves run `i` down to its place by `ended`. Results arrive nearly in that order, so the way is short. */
function settle(tasks: NodeTasks, i: number): void {
  const { begun, ended, results, tag } = tasks;
  const [b, e, r, g] = [begun[i], ended[i], results[i], tag[i]];
  let j = i;
  for (; j > 0 && ended[j - 1] > e; j--) {
    begun[j] = begun[j - 1];
    ended[j] = ended[j - 1];
    results[j] = results[j - 1];
    tag[j] = tag[j - 1];
  }
  begun[j] = b;
  ended[j] = e;
  results[j] = r;
  tag[j] = g;
}

/** Unpacks `bytes[from..to)`; yields now and then. */
export function* unpack(bytes: Uint8Array, from: number, to: number, grain: number, slots: number) {
  const tasks = empty(Math.floor(countVarints(bytes, from, to) / 4));
  const varints = new Varints(bytes, from, to);
  let ended = 0;
  for (let i = 0; i < tasks.count; i++) {
    ended += varints.signed() * grain;
    const took = varints.next() * grain;
    tasks.ended[i] = ended;
    tasks.begun[i] = ended - took;
    tasks.results[i] = varints.next();
    tasks.tag[i] = varints.next();
    if (took > tasks.longest) tasks.longest = took;
    tasks.covered += took * Math.min(slots, tasks.results[i]);
    settle(tasks, i);
    if (i % SLICE === SLICE - 1) yield;
  }
  yield* layLanes(tasks, slots);
  return tasks;
}

/**
 * Greedy partition of intervals, from the last to the first: a run goes into the first lane whose earliest run
 * begins after it ended. That needs no more lanes than runs ever overlap. Runs that stand for many results may
 * overlap more than there are slots; these share the last lane.
 */
export function* layLanes(tasks: NodeTasks, slots: number) {
  const most = Math.max(1, Math.min(LANES_MAX, slots));
  const free = new Float64Array(most).fill(Infinity);
  for (let i = tasks.count - 1; i >= 0; i--) {
    let lane = 0;
    while (lane < most - 1 && free[lane] < tasks.ended[i]) lane++;
    free[lane] = Math.min(free[lane], tasks.begun[i]);
    tasks.lane[i] = lane;
    if (lane >= tasks.lanes) tasks.lanes = lane + 1;
    if (i % SLICE === 0) yield;
  }
}

/** Indices `[first, end)` of the runs that may touch `from..to`; a few before them may not. */
export function touching(tasks: NodeTasks, from: number, to: number): [number, number] {
  return [upper(tasks.ended, from), upper(tasks.ended, to + tasks.longest)];
}

/** The run of `tasks` at `t`, in `lane` where one is asked for; -1 for none. */
export function runAt(tasks: NodeTasks, t: number, lane: number | null): number {
  const [first, end] = touching(tasks, t, t);
  for (let i = first; i < end; i++) {
    if (tasks.begun[i] <= t && t <= tasks.ended[i] && (lane === null || tasks.lane[i] === lane)) return i;
  }
  return -1;
}

/** Unpacks nodes that are looked at, a few milliseconds at a time, and forgets those seen longest ago. */
export class TaskStore {
  private readonly ready = new Map<number, NodeTasks>();
  private wanted: number[] = [];
  private running: { node: number; steps: Generator<void, NodeTasks> } | null = null;
  private timer = false;
  private kept = 0;

  constructor(
    private readonly report: Report,
    /** Called when more nodes are ready. */
    private readonly changed: () => void,
  ) {}

  /** The node's runs, if they are unpacked. */
  get(node: number): NodeTasks | null {
    const tasks = this.ready.get(node);
    if (!tasks) return null;
    this.ready.delete(node);
    this.ready.set(node, tasks);
    return tasks;
  }

  /**
   * Asks for these nodes, the first ones first, instead of whatever was asked for before. No more than can be kept
   * at a time: else each would push another out, for ever.
   */
  want(nodes: readonly number[]): void {
    const { taskOffset } = this.report;
    let room = KEPT_MAX * RUN_BYTES;
    const fitting = nodes.filter((node, i) => (room -= taskOffset[node + 1] - taskOffset[node]) >= 0 || i === 0);
    this.wanted = fitting.filter((node) => !this.ready.has(node) && this.running?.node !== node);
    this.schedule();
  }

  private schedule(): void {
    if (this.timer || (!this.running && this.wanted.length === 0)) return;
    this.timer = true;
    setTimeout(() => {
      this.timer = false;
      if (this.work(performance.now() + 8)) this.changed();
      this.schedule();
    });
  }

  /** Works until `deadline`; whether a node became ready. */
  private work(deadline: number): boolean {
    let news = false;
    while (performance.now() < deadline) {
      if (!this.running) {
        const node = this.wanted.shift();
        if (node === undefined) break;
        const { taskBytes, taskOffset, meta, nodes } = this.report;
        const [from, to] = [taskOffset[node], Math.min(taskOffset[node + 1], taskBytes.length)];
        this.running = { node, steps: unpack(taskBytes, from, to, meta.grain_us, nodes[node].slots) };
      }
      const step = this.running.steps.next();
      if (!step.done) continue;
      this.keep(this.running.node, step.value);
      this.running = null;
      news = true;
    }
    return news;
  }

  private keep(node: number, tasks: NodeTasks): void {
    this.ready.set(node, tasks);
    this.kept += tasks.count;
    for (const [old, { count }] of this.ready) {
      if (this.kept <= KEPT_MAX || old === node) break;
      this.ready.delete(old);
      this.kept -= count;
    }
  }
}
