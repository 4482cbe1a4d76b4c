// Numbers and times as text. No DOM in here.

/** A wall clock: UTC, or that of whoever looks. */
export interface Zone {
  label: string;
  /** What to add to a time (us since 1970, UTC) for the wall clock's reading. */
  offset(us: number): number;
}

export const UTC: Zone = { label: "UTC", offset: () => 0 };

export const LOCAL: Zone = {
  label: "local time",
  offset: (us) => (hasDate(us) ? -new Date(us / 1000).getTimezoneOffset() * 60e6 : 0),
};

export const US = { ms: 1e3, s: 1e6, min: 60e6, h: 3600e6, day: 86400e6 };

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const WEEKDAYS = "Sun Mon Tue Wed Thu Fri Sat".split(" ");

const two = (n: number) => String(n).padStart(2, "0");

/** What no calendar has: a clock was set to nonsense, or a log is damaged. */
const NO_DATE = "no such date";
/** How far from 1970 a `Date` reaches, on any wall clock. */
const DATE_MAX_US = 8.64e18 - US.day;

const hasDate = (us: number) => Math.abs(us) < DATE_MAX_US;

/** The parts of a wall clock's reading. */
function parts(us: number, zone: Zone) {
  const wall = us + zone.offset(us);
  const date = new Date(Math.floor(wall / 1000));
  const micros = Math.round(wall - Math.floor(wall / US.s) * US.s);
  return { date, micros: Math.min(micros, 999_999) };
}

/** `14:05`, and what `step` needs of seconds and their parts. */
export function clock(us: number, step: number, zone: Zone): string {
  if (!hasDate(us)) return NO_DATE;
  const { date, micros } = parts(us, zone);
  const minutes = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  if (step >= US.min) return minutes;
  const seconds = `${minutes}:${two(date.getUTCSeconds())}`;
  if (step >= US.s) return seconds;
  const digits = step >= US.ms ? 3 : 6;
  return `${seconds}.${String(micros).padStart(6, "0").slice(0, digits)}`;
}

/** `Mon 21 Nov`. */
export function day(us: number, zone: Zone): string {
  if (!hasDate(us)) return NO_DATE;
  const { date } = parts(us, zone);
  return `${WEEKDAYS[date.getUTCDay()]} ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

/** `2026-11-21`. */
export function date(us: number, zone: Zone): string {
  if (!hasDate(us)) return NO_DATE;
  const { date } = parts(us, zone);
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
}

/** `2026-11-21 14:05:09`, and what `step` needs of its parts. */
export function moment(us: number, zone: Zone, step: number = US.s): string {
  return hasDate(us) ? `${date(us, zone)} ${clock(us, Math.min(step, US.s), zone)}` : NO_DATE;
}

/** `7 d 9 h`, `1 h 05 min`, `12.3 s`, `4.20 ms`: three digits or two units. */
export function duration(us: number): string {
  const sign = us < 0 ? "−" : "";
  const abs = Math.abs(us);
  if (abs === 0) return "0 s";
  if (abs >= US.day) return `${sign}${pair(abs, US.day, "d", US.h, "h")}`;
  if (abs >= US.h) return `${sign}${pair(abs, US.h, "h", US.min, "min")}`;
  if (abs >= US.min) return `${sign}${pair(abs, US.min, "min", US.s, "s")}`;
  if (abs >= US.s) return `${sign}${three(abs / US.s)} s`;
  if (abs >= US.ms) return `${sign}${three(abs / US.ms)} ms`;
  return `${sign}${Math.round(abs)} µs`;
}

function pair(us: number, big: number, bigUnit: string, small: number, smallUnit: string): string {
  const smalls = Math.round(us / small);
  const per = Math.round(big / small);
  const rest = smalls % per;
  const head = `${Math.floor(smalls / per)} ${bigUnit}`;
  return rest === 0 ? head : `${head} ${rest} ${smallUnit}`;
}

/** Three significant digits, without an exponent. */
function three(n: number): string {
  if (n >= 100) return n.toFixed(0);
  return n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

const GROUP = "\u202f";

/** `1 234 567`: groups parted by narrow blanks; decimal strings of any length too. */
export function count(n: number | string): string {
  const text = typeof n === "number" ? String(Math.round(n)) : n;
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, GROUP);
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** `1.23 M`: for axes and narrow cells. */
export function short(n: number): string {
  if (!Number.isFinite(n)) return "–";
  const abs = Math.abs(n);
  if (abs > 0 && abs < 0.001) return n.toExponential(1);
  if (abs < 1000) return Number.isInteger(n) ? String(n) : String(Number(n.toPrecision(3)));
  const power = Math.min(PREFIXES.length - 1, Math.floor(Math.log10(abs) / 3));
  const scaled = n / 1000 ** power;
  // Far beyond the last prefix only an exponent is short.
  if (scaled >= 1e4) return n.toExponential(2);
  return `${String(Number(scaled.toPrecision(3)))} ${PREFIXES[power]}`;
}

/** `12.3 %`, which no line's end parts. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value >= 99.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)}${GROUP}%`;
}

/** `15.6 GiB`. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  for (; n >= 1024 && power < units.length - 1; power++) n /= 1024;
  return `${power === 0 ? n : three(n)} ${units[power]}`;
}

/** A word as people read it: `nothing_left` is "nothing left". */
export function plain(word: string): string {
  return word.replace(/^idle:/, "idle: ").replaceAll("_", " ");
}

/** "1 node", "3 nodes". */
export function many(n: number, one: string, more = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : more}`;
}

/** What a job goes by; a report has room for so many jobs, and 0 stands for all the others. */
export function jobName(job: { job: number } | undefined): string {
  return job === undefined ? "a job" : job.job === 0 ? "other jobs" : `job ${job.job}`;
}

/** `text`, cut in its middle where it is longer than `most`: names differ at their ends. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.floor((most - 1) / 3);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
