// Levels of detail: what a timeline draws at which zoom. No DOM in here.

/**
 * - `bins`: the grids that the replay made, one value per bin;
 * - `states`: every change of a state, and how busy a node was between two pixels;
 * - `tasks`: a bar for each task.
 */
export type Level = "bins" | "states" | "tasks";

/** A bin of the grids may be so wide before its edges look like steps. */
const BIN_PX_MAX = 2;
/** A task must be so wide on average before it gets a bar of its own. */
const TASK_PX_MIN = 4;
/** Bars push most nodes out of sight, so nobody gets them who still looks at more of the run than this. */
const BARS_SHARE_MAX = 0.25;
/** Bars that a frame has time for. */
const BARS_MAX = 20_000;
/** Runs that a frame has time to add up. */
const SUMS_MAX = 600_000;

/** What a picture is of. */
export interface Scene {
  usPerPx: number;
  widthPx: number;
  binUs: number;
  /** Mean duration of a task. */
  taskUs: number;
  /** Slots of all the rows in sight. */
  slots: number;
  /** Share of the run that is shown. */
  share: number;
  /** Whether all nodes are in sight even with rows tall enough for bars. */
  allFit: boolean;
}

/** Tasks in sight, about: every slot one after the other. */
const inSight = (scene: Scene) => (scene.slots * scene.usPerPx * scene.widthPx) / Math.max(1, scene.taskUs);

export function level(scene: Scene): Level {
  const wide = scene.taskUs / scene.usPerPx >= TASK_PX_MIN;
  const near = scene.allFit || scene.share <= BARS_SHARE_MAX;
  if (wide && near && inSight(scene) <= BARS_MAX) return "tasks";
  return scene.binUs / scene.usPerPx > BIN_PX_MAX ? "states" : "bins";
}

/** Whether there is time to add up the tasks in sight, instead of taking the grid's word for how busy a node was. */
export function sumsTasks(scene: Scene): boolean {
  return inSight(scene) <= SUMS_MAX;
}

/** Columns of pixels that `from..to` touches, at least one: `[first, end)`, cut to `0..width`. */
export function columns(from: number, to: number, origin: number, usPerPx: number, width: number): [number, number] {
  const first = Math.floor((from - origin) / usPerPx);
  const end = Math.max(first + 1, Math.ceil((to - origin) / usPerPx));
  return [Math.max(0, Math.min(width, first)), Math.max(0, Math.min(width, end))];
}

/**
 * Adds to each column of `sums` the time within it that `from..to` covers, in parts of a column's width times
 * `weight`.
 */
export function cover(sums: Float32Array, from: number, to: number, origin: number, usPerPx: number, weight: number): void {
  const a = Math.max(0, (from - origin) / usPerPx);
  const b = Math.min(sums.length, (to - origin) / usPerPx);
  if (b <= a) return;
  const [first, last] = [Math.floor(a), Math.min(sums.length - 1, Math.floor(b))];
  if (first === last) {
    sums[first] += (b - a) * weight;
    return;
  }
  sums[first] += (first + 1 - a) * weight;
  for (let x = first + 1; x < last; x++) sums[x] += weight;
  sums[last] += (b - last) * weight;
}
