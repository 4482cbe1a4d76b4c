// Makes a farm's run up, by a seed, in the form that the replay writes: for tests, and for looking at the page
// without a farm. Machines of an office: lost one after another in the evenings, most of them back at nine.

import { deflateRawSync } from "node:zlib";
import type { ArrayMeta, JobMeta, Mark, Meta, NodeMeta } from "../src/contract";

const HOUR = 3600e6;
const MIN = 60e6;
const STATES = ["up", "suspect", "lost", "draining", "quarantined", "idle:no_job", "idle:paused", "idle:refused",
  "idle:nothing_left", "idle:state", "idle:waiting", "gone", "unknown"];
const OUTCOMES = ["counted", "partly", "duplicate", "returned", "refused"];
/** From the least to the worst, as the replay ranks states that share a bin. */
const RANK = ["gone", "unknown", "up", "idle", "draining", "quarantined", "suspect", "lost"];
const PALETTE = {
  busy: "#009e73", up: "#009e73", idle: "#9aa0a6", suspect: "#e69f00", lost: "#d55e00", draining: "#56b4e9",
  quarantined: "#cc79a7", queued: "#9aa0a6", running: "#2b8cd6", paused: "#e69f00", finished: "#009e73",
  failed: "#d55e00", cancelled: "#6b7078", deleted: "#6b7078", done: "#009e73", out: "#2b8cd6", pending: "#9aa0a6",
  abandoned: "#6b7078",
};

export interface Wishes {
  nodes: number;
  hours: number;
  slots: number;
  taskUs: number;
  seed?: number;
  /** A log that was cut. */
  cut?: boolean;
  grainUs?: number;
}

/** Name and time of the node that every made-up farm loses for good. */
export const KILLED = { node: "lab-007", afterUs: 5 * HOUR };

/** 2026-03-02 06:00 UTC, a Monday. */
export const FROM_US = 1_772_431_200_000_000;
const BINS = 1024;

/** Numbers in 0..1 from a seed (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Bytes that grow. */
export class Bytes {
  private bytes = new Uint8Array(1 << 16);
  length = 0;

  byte(value: number): void {
    if (this.length === this.bytes.length) {
      const more = new Uint8Array(this.length * 2);
      more.set(this.bytes);
      this.bytes = more;
    }
    this.bytes[this.length++] = value;
  }

  varint(value: number): void {
    for (; value >= 128; value = Math.floor(value / 128)) this.byte((value % 128) + 128);
    this.byte(value);
  }

  signed(value: number): void {
    this.varint(value < 0 ? -value * 2 - 1 : value * 2);
  }

  get all(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }
}

/** An hour of a job's use, in spans of two minutes. */
function coresUsed(from: number, to: number): Pick<JobMeta, "cores_used" | "used"> {
  const starts = Array.from({ length: 30 }, (_, i) => from + (i * (to - from)) / 30);
  const cores = starts.map((_, i) => 1 + (i % 5));
  return {
    cores_used: { from_us: starts, to_us: starts.map((start) => start + (to - from) / 30), cores, min: cores.map(() => 0.1), max: cores.map(() => 1) },
    used: { job: 1, over: "life", for_us: to - from, cpu_cores_sum: 3, memory_bytes_sum: 2 ** 30 },
  };
}

type Change = [at: number, word: string];
interface Task { begun: number; ended: number; tag: number }

interface Plan { changes: Change[]; marks: Mark[] }

/** When a node is in which state. */
function plan(name: string, index: number, span: number, jobs: [number, number][], chance: () => number): Plan {
  const joined = index === 0 ? 0 : chance() * 10 * MIN;
  const changes: Change[] = [[joined, "idle:no_job"], [jobs[0][0] + chance() * 20e6, "up"]];
  const marks: Mark[] = [];
  const mark = (at: number, kind: string, text: string) => marks.push({ at_us: FROM_US + Math.round(at), kind, node: name, job: null, text });
  const lose = (at: number, back: number) => {
    if (at >= span) return;
    changes.push([at, "suspect"], [at + 40e6, "lost"]);
    mark(at + 40e6, "node_lost", `node ${name} lost: ${1 + Math.floor(chance() * 6)} tasks back to gq`);
    if (back < span) {
      changes.push([back, "up"]);
      mark(back, "node_back", `node ${name} is back`);
    }
  };
  if (name === KILLED.node) lose(KILLED.afterUs - 40e6, Infinity);
  else evenings(span, chance, lose);
  jobs.forEach(([, to], i) => {
    const next = jobs[i + 1]?.[0] ?? span;
    insert(changes, to, next, "idle:no_job");
  });
  if (name !== KILLED.node && index % 41 === 11) insert(changes, span * 0.3, span * 0.36, "quarantined");
  if (name !== KILLED.node && index % 37 === 5) insert(changes, span * 0.9, span, "draining");
  return { changes: changes.sort((a, b) => a[0] - b[0]), marks };
}

/** People go home between 17:00 and 21:00 and switch off; most come at nine. */
function evenings(span: number, chance: () => number, lose: (at: number, back: number) => void): void {
  for (let day = 0; day * 24 * HOUR < span; day++) {
    const midnight = (day * 24 + 18) * HOUR;
    if (chance() < 0.35) {
      const away = midnight - (3 + chance() * 4) * HOUR;
      const late = chance() < 0.85 ? chance() * 6 * MIN : chance() * 5 * HOUR;
      if (away > 0) lose(away, midnight + 9 * HOUR + late);
    } else if (chance() < 0.25) {
      const at = day * 24 * HOUR + chance() * 11 * HOUR;
      if (at > HOUR) lose(at, at + 2 * MIN + chance() * 20 * MIN);
    }
  }
}

/** Puts a node that would be up in `from..to` into another state. */
function insert(changes: Change[], from: number, to: number, word: string): void {
  changes.sort((a, b) => a[0] - b[0]);
  const before = changes.filter(([at]) => at <= from).pop()?.[1];
  for (const change of changes) if (change[0] > from && change[0] < to && change[1] === "up") change[1] = word;
  if (before === "up") changes.push([from, word]);
  changes.sort((a, b) => a[0] - b[0]);
  const last = changes.filter(([at]) => at <= to).pop()?.[1];
  if (last === word) changes.push([to, "up"]);
}

/** Tasks of a node, in the order in which their results came. */
function tasksOf(changes: Change[], span: number, wishes: Wishes, jobs: [number, number][], chance: () => number): Task[] {
  const tasks: Task[] = [];
  changes.forEach(([from, word], i) => {
    const to = Math.min(span, changes[i + 1]?.[0] ?? span);
    if (word !== "up") return;
    const speed = 0.85 + chance() * 0.3;
    for (let slot = 0; slot < wishes.slots; slot++) {
      let at = from + chance() * 2e6;
      for (;;) {
        const took = wishes.taskUs * speed * (0.8 + 0.4 * chance());
        if (at + took >= to) break;
        const job = jobs.findIndex(([a, b]) => at >= a && at < b);
        const outcome = chance() < 0.002 ? 2 : chance() < 0.001 ? 3 : 0;
        if (job >= 0) tasks.push({ begun: at, ended: at + took, tag: job * 8 + outcome });
        at += took + 2000 + chance() * 20_000;
      }
    }
  });
  return tasks.sort((a, b) => a.ended - b.ended);
}

function pack(tasks: Task[], grain: number, out: Bytes): void {
  let before = 0;
  for (const { begun, ended, tag } of tasks) {
    const end = Math.round(ended / grain);
    out.signed(end - before);
    before = end;
    out.varint(Math.round((ended - begun) / grain));
    out.varint(1);
    out.varint(tag);
  }
}

class Grids {
  readonly busy: Float64Array;
  readonly state: Uint8Array;
  readonly width: number;
  private readonly rank = STATES.map((word) => RANK.indexOf(word.startsWith("idle") ? "idle" : word));

  constructor(private readonly nodes: number, readonly span: number) {
    this.busy = new Float64Array(nodes * BINS);
    this.state = new Uint8Array(nodes * BINS).fill(STATES.indexOf("gone"));
    this.width = span / BINS;
  }

  states(node: number, changes: Change[]): void {
    changes.forEach(([from, word], i) => {
      const code = STATES.indexOf(word);
      const to = Math.min(this.span, changes[i + 1]?.[0] ?? this.span);
      for (let bin = Math.floor(from / this.width); bin < BINS && bin * this.width < to; bin++) {
        const at = node * BINS + bin;
        if (this.rank[code] >= this.rank[this.state[at]]) this.state[at] = code;
      }
    });
  }

  task(node: number, { begun, ended }: Task): void {
    for (let bin = Math.floor(begun / this.width); bin < BINS && bin * this.width < ended; bin++) {
      this.busy[node * BINS + bin] += Math.min(ended, (bin + 1) * this.width) - Math.max(begun, bin * this.width);
    }
  }

  nodesUp(bin: number): number {
    let up = 0;
    for (let node = 0; node < this.nodes; node++) {
      const word = STATES[this.state[node * BINS + bin]];
      if (word === "up" || word.startsWith("idle")) up++;
    }
    return up;
  }
}

function nodeMeta(name: string, index: number, wishes: Wishes, changes: Change[], tasks: Task[], span: number): NodeMeta {
  const sums: Record<string, number> = {};
  changes.forEach(([from, word], i) => (sums[word] = (sums[word] ?? 0) + Math.min(span, changes[i + 1]?.[0] ?? span) - from));
  const idle = Object.fromEntries(Object.entries(sums).filter(([word]) => word.startsWith("idle")).map(([word, us]) => [word.slice(5), us]));
  const busy = tasks.reduce((sum, task) => sum + task.ended - task.begun, 0);
  const lost = changes.filter(([, word]) => word === "lost").length;
  const state = (word: string) => sums[word] ?? 0;
  const up = state("up") + Object.values(idle).reduce((a, b) => a + b, 0);
  const able = wishes.slots * (up + state("suspect") + state("draining"));
  return {
    node: name, slots: wishes.slots, system: `${name} Linux 6.1`, cpu: index % 3 ? "Core i5-9500" : "Ryzen 7 5700G", cores: 6, memory_bytes: 16 * 2 ** 30,
    accelerators: index % 9 ? "" : "1 x GeForce GTX 1660", joined_us: FROM_US + changes[0][0], results: tasks.length, tasks_done: tasks.length,
    units_done: String(tasks.length * 1_000_003), busy_us: busy, slots_us: able, utilisation: able > 0 ? busy / able : 0,
    known_us: up + ["suspect", "draining", "quarantined", "lost"].reduce((sum, word) => sum + state(word), 0), up_us: up, idle_us: idle,
    suspect_us: state("suspect"), draining_us: state("draining"), quarantined_us: state("quarantined"), lost_us: state("lost"), times_lost: lost, resent: lost * 3, speed_ups: Math.floor(tasks.length / 20), slow_downs: Math.floor(tasks.length / 31),
  };
}

function jobMeta(index: number, [from, to]: [number, number], tasks: number, wishes: Wishes, cut: boolean): JobMeta {
  const hash = (seed: number) => Array.from({ length: 64 }, (_, i) => ((i * 7 + seed * 13 + ((i * i) % 11)) % 16).toString(16)).join("");
  const submitted = FROM_US + Math.round(from) - 60e6;
  const ended = cut ? null : FROM_US + Math.round(to);
  const states: [number, string][] = [[submitted, "queued"], [FROM_US + Math.round(from), "running"]];
  if (ended !== null) states.push([ended, "finished"]);
  const units = (BigInt(tasks) * 1_000_003n).toString();
  const top = Math.floor(Math.log2(wishes.taskUs));
  const edges = Array.from({ length: 8 }, (_, i) => 2 ** (top - 5 + i));
  const certificate = {
    verdict: "complete", state: "finished", spec: hash(1), units, done: units, failed: "0", abandoned: "0", intervals_hash: hash(2 + index), hits: 2,
    hits_hash: hash(3 + index), duplicate: "4000012", dispatched: tasks + 211, resent: 211, copied: 17, conflicts: 0, epochs: [1, 2], nodes: wishes.nodes,
  };
  return {
    job: index + 1, name: ["mersenne", "sweep of seeds", "collatz"][index % 3], user: "ada", units, done: cut ? "0" : units, failed: "0", abandoned: "0", hits: 2,
    submitted_us: submitted, started_us: FROM_US + Math.round(from), ended_us: ended, states, results: tasks,
    durations: { from_us: edges, counts: [2, 9, 41, 300, Math.floor(tasks * 0.46), Math.floor(tasks * 0.53), 120, 3] }, median_us: wishes.taskUs, certificate: cut ? null : certificate,
    ...coresUsed(FROM_US + 10 * MIN, FROM_US + 70 * MIN),
  };
}

/** Arrays one after the other, each at a multiple of 8. */
export class Blob8 {
  readonly arrays: Record<string, ArrayMeta> = {};
  private readonly parts: Uint8Array[] = [];
  private length = 0;

  add(name: string, data: Uint8Array | Uint32Array | Float32Array | Float64Array): void {
    const type = ({ Uint8Array: "u8", Uint32Array: "u32", Float32Array: "f32", Float64Array: "f64" } as const)[data.constructor.name as "Uint8Array"];
    this.arrays[name] = { type, offset: this.length, length: data.length };
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const padding = new Uint8Array((8 - (bytes.length % 8)) % 8);
    this.parts.push(bytes, padding);
    this.length += bytes.length + padding.length;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.parts);
  }
}

function series(blob: Blob8, grids: Grids, wishes: Wishes): string[] {
  const of = (name: string, value: (bin: number) => number) => {
    blob.add(`series/${name}`, Float32Array.from({ length: BINS }, (_, bin) => value(bin)));
    return name;
  };
  const up = Array.from({ length: BINS }, (_, bin) => grids.nodesUp(bin));
  const busy = (bin: number) => {
    let sum = 0;
    for (let node = 0; node < wishes.nodes; node++) sum += grids.busy[node * BINS + bin];
    return sum / grids.width;
  };
  const rate = (bin: number) => busy(bin) / (wishes.taskUs / 1e6);
  const drop = (bin: number) => Math.max(0, (up[bin - 1] ?? up[bin]) - up[bin]);
  return [
    of("gq", (bin) => 400 * (1 + Math.sin(bin / 40)) * (busy(bin) > 1 ? 1 : 0)), of("dq", (bin) => busy(bin) * 2.4), of("jq", (bin) => (busy(bin) > 1 ? 1 : 0)),
    of("nodes_up", (bin) => up[bin]), of("nodes", (bin) => Math.min(wishes.nodes, up[bin] + 3)), of("slots", (bin) => up[bin] * wishes.slots),
    of("slots_busy", busy), of("power_mean", (bin) => (busy(bin) > 1 ? 1.6 + 0.2 * Math.sin(bin / 25) : NaN)), of("results_per_s", rate),
    of("speed_ups_per_s", (bin) => rate(bin) / 20), of("slow_downs_per_s", (bin) => rate(bin) / 31),
    of("resent_per_s", (bin) => (drop(bin) * 3e6) / grids.width), of("offers_repeated_per_s", (bin) => (drop(bin) * 5e6) / grids.width + 0.001),
    of("units_per_s", (bin) => rate(bin) * 1_000_003),
  ];
}

/** A made-up run: what goes into the page's two places. */
export function makeFarm(wishes: Wishes): { meta: Meta; blob: Buffer } {
  const chance = random(wishes.seed ?? 1);
  const span = wishes.hours * HOUR;
  const grain = wishes.grainUs ?? 1000;
  const jobs: [number, number][] = [[12 * MIN, span * 0.55], [span * 0.56, span * 0.97]];
  const grids = new Grids(wishes.nodes, span);
  const [nodes, marks, perJob]: [NodeMeta[], Mark[], number[]] = [[], [], jobs.map(() => 0)];
  const [taskOffset, stateOffset, at, code]: number[][] = [[0], [0], [], []];
  const packed = new Bytes();
  for (let i = 0; i < wishes.nodes; i++) {
    const name = `lab-${String(i + 1).padStart(3, "0")}`;
    const planned = plan(name, i, span, jobs, chance);
    const tasks = tasksOf(planned.changes, span, wishes, jobs, chance);
    for (const task of tasks) {
      grids.task(i, task);
      perJob[Math.floor(task.tag / 8)]++;
    }
    grids.states(i, planned.changes);
    nodes.push(nodeMeta(name, i, wishes, planned.changes, tasks, span));
    marks.push(...planned.marks);
    pack(tasks, grain, packed);
    taskOffset.push(packed.length);
    for (const [when, word] of planned.changes) {
      at.push(when);
      code.push(STATES.indexOf(word));
    }
    stateOffset.push(at.length);
  }
  const blob = new Blob8();
  const names = series(blob, grids, wishes);
  blob.add("grid/busy", Uint8Array.from(grids.busy, (us) => Math.min(255, Math.round((us / grids.width / wishes.slots) * 255))));
  blob.add("grid/state", grids.state);
  blob.add("states/offset", Uint32Array.from(stateOffset));
  blob.add("states/at", Float64Array.from(at));
  blob.add("states/code", Uint8Array.from(code));
  blob.add("tasks/offset", Uint32Array.from(taskOffset));
  blob.add("tasks/bytes", packed.all);
  const farmMarks = jobs.flatMap(([from, to], i): Mark[] => [
    { at_us: FROM_US + Math.round(from) - 60e6, kind: "job_submitted", node: null, job: i + 1, text: `job ${i + 1} submitted by ada` },
    { at_us: FROM_US + Math.round(to), kind: "certificate", node: null, job: i + 1, text: `job ${i + 1} complete: every unit counted once` },
  ]);
  const all = [...marks, ...farmMarks].sort((a, b) => a.at_us - b.at_us);
  const restart = FROM_US + Math.round(span * 0.42);
  const meta: Meta = {
    format: "starfarm-report/1", version: "0.1.0", farm: "5f0e8c1b9a7d4e63", from_us: FROM_US, to_us: FROM_US + span, complete: !wishes.cut,
    notes: wishes.cut ? ["segment 7 ends in the middle of an element: read up to there"] : [], grain_us: grain, palette: PALETTE, states: STATES, outcomes: OUTCOMES,
    epochs: [{ epoch: 1, from_us: FROM_US, to_us: restart }, { epoch: 2, from_us: restart + 3 * MIN, to_us: FROM_US + span }],
    jobs: jobs.map((when, i) => jobMeta(i, when, perJob[i], wishes, Boolean(wishes.cut) && i === 1)),
    nodes, marks: all.slice(0, 2000), marks_left_out: Math.max(0, all.length - 2000),
    bins: { count: BINS, from_us: FROM_US, width_us: grids.width }, series: names, arrays: blob.arrays,
  };
  return { meta, blob: blob.bytes };
}

/** The template with the data in it, as the replay fills it. */
export function fill(template: string, meta: Meta, blob: Buffer): string {
  const json = JSON.stringify(meta).replaceAll("<", "\\u003c");
  const data = deflateRawSync(blob, { level: 9 }).toString("base64");
  return template.replace("<!--starfarm:meta-->", () => json).replace("<!--starfarm:data-->", () => data);
}
