// The report's data: what the page carries, opened and checked once. Times in here are microseconds since the
// report's start (`t`), so that small differences stay exact; only text shows times of the clock.

import { FORMAT, type ArrayMeta, type JobMeta, type Meta, type NodeMeta } from "./contract";

/** Bytes of a run of results in the blob, about. */
export const RUN_BYTES = 6;

const ARRAYS = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };

/** What a node is before the log tells of it for the first time: it had not joined, or nobody was there to tell. */
export const NOT_YET = "not joined yet";

/** A node's state at a moment, and from when to when it held. */
export interface Held {
  word: string;
  since: number;
  until: number;
}

/** Reads base64 into bytes. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Undoes a raw deflate. */
export async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}

/** First index of the ascending `values[from..to)` that is greater than `value`. */
export function upper(values: ArrayLike<number>, value: number, from = 0, to = values.length): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] <= value) from = middle + 1;
    else to = middle;
  }
  return from;
}

export class Report {
  readonly meta: Meta;
  readonly span: number;
  readonly nodes: NodeMeta[];
  readonly jobs: JobMeta[];
  readonly bins: number;
  /** Start of the first bin and width of each. */
  readonly binFrom: number;
  readonly binWidth: number;
  readonly gridBusy: Uint8Array;
  readonly gridState: Uint8Array;
  readonly taskOffset: Uint32Array;
  readonly taskBytes: Uint8Array;
  private readonly stateOffset: Uint32Array;
  private readonly stateAt: Float64Array;
  private readonly stateCode: Uint8Array;
  private readonly blob: ArrayBuffer;
  private readonly byName = new Map<string, number>();

  constructor(meta: Meta, blob: ArrayBuffer) {
    if (meta.format !== FORMAT) throw new Error(`This page reads ${FORMAT}, the data are ${String(meta.format)}.`);
    this.meta = meta;
    this.blob = blob;
    this.span = Math.max(1000, meta.to_us - meta.from_us);
    this.nodes = meta.nodes;
    this.jobs = meta.jobs;
    this.bins = meta.bins.count;
    this.binFrom = meta.bins.from_us - meta.from_us;
    this.binWidth = meta.bins.width_us;
    const cells = this.nodes.length * this.bins;
    this.gridBusy = this.array("grid/busy", Uint8Array, cells);
    this.gridState = this.array("grid/state", Uint8Array, cells);
    this.stateOffset = this.array("states/offset", Uint32Array, this.nodes.length + 1);
    this.stateAt = this.array("states/at", Float64Array);
    this.stateCode = this.array("states/code", Uint8Array, this.stateAt.length);
    this.taskOffset = this.array("tasks/offset", Uint32Array, this.nodes.length + 1);
    this.taskBytes = this.array("tasks/bytes", Uint8Array);
    this.nodes.forEach((node, index) => this.byName.set(node.node, index));
  }

  /** Opens the data that `page` carries. */
  static async open(page: Document): Promise<Report> {
    const text = (id: string) => page.getElementById(id)?.textContent ?? "";
    const meta = JSON.parse(text("starfarm-meta")) as Meta;
    const data = page.getElementById("starfarm-data");
    const blob = await inflate(fromBase64(text("starfarm-data")));
    // Megabytes of text that nobody needs any more.
    data?.remove();
    return new Report(meta, blob);
  }

  private array<T extends Uint8Array | Uint32Array | Float32Array | Float64Array>(
    name: string,
    type: new (blob: ArrayBuffer, offset: number, length: number) => T,
    length?: number,
  ): T {
    const place: ArrayMeta | undefined = this.meta.arrays[name];
    const made = place && ARRAYS[place.type];
    if (!place || (made as unknown) !== type) throw new Error(`The data lack the array ${name}.`);
    const bytes = place.length * made.BYTES_PER_ELEMENT;
    const fits = place.offset % 8 === 0 && place.offset >= 0 && place.offset + bytes <= this.blob.byteLength;
    if (!fits || (length !== undefined && place.length !== length)) {
      throw new Error(`The array ${name} does not fit the data: the file is cut or damaged.`);
    }
    return new type(this.blob, place.offset, place.length);
  }

  /** A series by name: a value for each bin, NaN where nothing is known; none where it was not written. */
  series(name: string): Float32Array | null {
    return this.meta.arrays[`series/${name}`] ? this.array(`series/${name}`, Float32Array, this.bins) : null;
  }

  /** How much of each bin the log tells of, 0 to 1; none where that was not written: all of each. */
  get told(): Float32Array | null {
    return this.series("told");
  }

  /** Index of the node with this name, or -1. */
  nodeIndex(name: string | null): number {
    return name === null ? -1 : (this.byName.get(name) ?? -1);
  }

  /** Calls `each` with code, start and end of every state of `node` that touches `from..to`. */
  eachState(node: number, from: number, to: number, each: (code: number, a: number, b: number) => void): void {
    const end = this.stateOffset[node + 1];
    let i = Math.max(this.stateOffset[node], upper(this.stateAt, from, this.stateOffset[node], end) - 1);
    for (; i < end && this.stateAt[i] < to; i++) {
      each(this.stateCode[i], this.stateAt[i], i + 1 < end ? this.stateAt[i + 1] : this.span);
    }
  }

  /** State of `node` at `t`. */
  held(node: number, t: number): Held {
    const start = this.stateOffset[node];
    const end = this.stateOffset[node + 1];
    const i = upper(this.stateAt, t, start, end) - 1;
    const until = i + 1 < end ? this.stateAt[i + 1] : this.span;
    if (i < start) return { word: NOT_YET, since: 0, until };
    return { word: this.word(this.stateCode[i]), since: this.stateAt[i], until };
  }

  /** Words of all states that some node was in. */
  wordsSeen(): string[] {
    return [...new Set(this.stateCode)].map((code) => this.word(code));
  }

  /** Word of a state's code. */
  word(code: number): string {
    return this.meta.states[code] ?? "unknown";
  }

  /** Of all nodes, also of those without a row. */
  get totals(): NonNullable<Meta["totals"]> {
    const sum = (of: (node: NodeMeta) => number) => this.nodes.reduce((all, node) => all + of(node), 0);
    return this.meta.totals ?? { nodes: this.nodes.length, slots: sum(({ slots }) => slots), results: sum(({ results }) => results) };
  }

  /** Jobs that have no row. */
  get jobsLeftOut(): number {
    return this.meta.jobs_left_out ?? 0;
  }

  /** How many jobs the log tells of; 0 stands for those that there is no room for. */
  get jobsAll(): number {
    return this.jobs.filter(({ job }) => job !== 0).length + this.jobsLeftOut;
  }

  /** How long a bar is, about: of a task, or of the many short ones that are one run; the span where there is none. */
  meanRun(): number {
    const results = this.nodes.reduce((sum, node) => sum + node.results, 0);
    const busy = this.nodes.reduce((sum, node) => sum + node.busy_us, 0);
    const runs = Math.min(results, this.taskBytes.length / RUN_BYTES);
    return runs > 0 && busy > 0 ? busy / runs : this.span;
  }
}
