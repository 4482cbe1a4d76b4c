// What the replay writes into a page (`logs/`, the HTML report): names and shapes, nothing else. All times are
// microseconds since 1970 on the farm's clock; counts that may pass 2^53 are decimal strings.

export const FORMAT = "starfarm-report/1";

/** Bins that every grid and series shares. */
export interface Bins {
  count: number;
  from_us: number;
  width_us: number;
}

export interface Epoch {
  epoch: number;
  from_us: number;
  to_us: number;
}

/** A field of a certificate, named as in the event. */
export type Field = string | number | boolean | null | number[];

export interface JobMeta {
  job: number;
  name: string;
  user: string;
  units: string;
  done: string;
  failed: string;
  abandoned: string;
  hits: number;
  submitted_us: number;
  started_us: number | null;
  ended_us: number | null;
  states: [number, string][];
  results: number;
  /** Of its results. */
  durations: { from_us: number[]; counts: number[] };
  median_us: number | null;
  certificate: Record<string, Field> | null;
  /** Processor cores over time, span by span: of all units together, and of a unit. Absent in older reports. */
  cores_used?: { from_us: number[]; to_us: number[]; cores: number[]; min: number[]; max: number[] } | null;
  /** What its units used in all: the fields of the event. */
  used?: Record<string, Field> | null;
}

export interface NodeMeta {
  node: string;
  /** The most that it had. */
  slots: number;
  system: string | null;
  cpu: string | null;
  cores: number | null;
  memory_bytes: number | null;
  accelerators: string | null;
  joined_us: number;
  results: number;
  tasks_done: number;
  units_done: string;
  /** Time that its slots computed, of the time that they had: while it was up, suspect or draining. */
  busy_us: number;
  slots_us: number;
  utilisation: number;
  /** How long the log tells of it; the sum of the five states below. */
  known_us: number;
  up_us: number;
  /** Parts of `up_us`, by reason. */
  idle_us: Record<string, number>;
  suspect_us: number;
  draining_us: number;
  quarantined_us: number;
  lost_us: number;
  times_lost: number;
  resent: number;
  speed_ups: number;
  slow_downs: number;
}

export interface Mark {
  at_us: number;
  kind: string;
  node: string | null;
  job: number | null;
  text: string;
}

/** Where an array lies in the blob: a byte offset, a multiple of 8; a length in elements; little endian. */
export interface ArrayMeta {
  type: "u8" | "u32" | "f32" | "f64";
  offset: number;
  length: number;
}

export interface Meta {
  format: string;
  version: string;
  farm: string;
  from_us: number;
  to_us: number;
  complete: boolean;
  notes: string[];
  /** Resolution of the tasks' times. */
  grain_us: number;
  palette: Record<string, string>;
  /** Words for the codes of states. */
  states: string[];
  outcomes: string[];
  epochs: Epoch[];
  /** Of all nodes, also of those without a row; absent where every node has one. */
  totals?: { nodes: number; slots: number; results: number; resent?: number };
  jobs: JobMeta[];
  jobs_left_out?: number;
  nodes: NodeMeta[];
  nodes_left_out?: number;
  marks: Mark[];
  marks_left_out: number;
  bins: Bins;
  series: string[];
  arrays: Record<string, ArrayMeta>;
}
