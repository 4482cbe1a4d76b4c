// Where a time axis has its ticks, from days to microseconds, on round readings of the wall clock.

import { clock, date, day, US, type Zone } from "./format";

const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * US.ms),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * US.s),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * US.min),
  ...[1, 2, 3, 6, 12].map((n) => n * US.h),
  ...[1, 2, 7, 14, 28, 91, 364].map((n) => n * US.day),
];

export interface Tick {
  /** Us since 1970. */
  at: number;
  text: string;
  /** It begins a day, or is the first: it says the date. */
  major: boolean;
}

/** A tick and its text take so many pixels; more where the text goes down to microseconds. */
const TICK_PX = 92;
const FINE_TICK_PX = 124;
const FINE_US = 12 * US.ms;

/** How many ticks have room on an axis of `px` pixels that shows `us` microseconds. */
export function room(px: number, us: number): number {
  return Math.max(2, Math.floor(px / (us < FINE_US ? FINE_TICK_PX : TICK_PX)));
}

const LONGEST = STEPS[STEPS.length - 1];

/** The smallest round step of at least `us`. */
export function roundStep(us: number): number {
  return STEPS.find((step) => step >= us) ?? Math.ceil(us / LONGEST) * LONGEST;
}

/** Ticks in `from..to` (us since 1970), at most `most` of them. */
export function ticks(from: number, to: number, most: number, zone: Zone): Tick[] {
  const step = roundStep((to - from) / Math.max(1, most));
  const found: Tick[] = [];
  const first = Math.ceil((from + zone.offset(from)) / step) * step;
  for (let wall = first; found.length <= most + 1; wall += step) {
    // The offset an hour before a change of the clock is the wrong one for the hour after; asked twice it is right.
    const near = wall - zone.offset(wall - zone.offset(from));
    const at = wall - zone.offset(near);
    if (at > to) break;
    if (at < from) continue;
    const midnight = wall % US.day === 0;
    const text = step >= LONGEST ? date(at, zone) : step >= US.day || midnight ? day(at, zone) : clock(at, step, zone);
    found.push({ at, text, major: midnight });
  }
  return found;
}
