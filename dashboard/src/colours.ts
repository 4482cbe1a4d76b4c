// Colours of words, for the theme in use, as numbers that a canvas can write and as text for styles.

import type { Report } from "./data";

export type Rgb = [number, number, number];

/** What a legend shows of nodes, in the order of drawing: later ones win over earlier ones. */
export const CLASSES = ["gone", "unknown", "busy", "idle", "draining", "quarantined", "suspect", "lost"] as const;
export type Class = (typeof CLASSES)[number];

/** How far the greys of "nothing known" and of "idle" are from the ground: far enough from each other. */
const UNKNOWN_SHARE = 0.06;
const IDLE_SHARE = 0.6;

/** Why a node is idle, with how far its grey is from the ground. */
const IDLE_SHADES: Record<string, number> = {
  no_job: 0.35,
  waiting: 0.55,
  nothing_left: 0.75,
  paused: 0.9,
  after: 0.85,
  max_nodes: 0.8,
  refused: 1,
  state: 0.2,
};

/** The class of a state's word. */
export function classOf(word: string): Class {
  if (word === "up") return "busy";
  if (word.startsWith("idle")) return "idle";
  return (CLASSES as readonly string[]).includes(word) ? (word as Class) : "unknown";
}

function parse(hex: string): Rgb {
  // A style sheet that was made small says #fff.
  const long = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, "$&$&") : hex;
  const n = parseInt(long.slice(1), 16);
  return Number.isNaN(n) ? [128, 128, 128] : [n >> 16, (n >> 8) & 255, n & 255];
}

/** `share` of `b`, the rest of `a`. */
export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * share)) as Rgb;
}

const css = ([r, g, b]: Rgb) => `rgb(${r} ${g} ${b})`;
/** As a little-endian pixel of an ImageData. */
const pixel = ([r, g, b]: Rgb) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** Outcomes that have the colour of a word; what counted has a green. */
const OUTCOMES: Record<string, string> = { partly: "paused", duplicate: "abandoned", returned: "out", refused: "failed" };
/** Greens that jobs have by turns, and how far one is from the next. */
const JOB_SHADES = 3;
const JOB_SHADE = 0.22;

/** Relative luminance, 0 to 1 (WCAG 2.2). */
export function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Up to this luminance white words have a contrast of 4.5. */
const WHITE_UP_TO = 0.183;

/** White where that can be read on `rgb`, else black, which then can. */
export function inkOn(rgb: Rgb): string {
  return luminance(rgb) <= WHITE_UP_TO ? "#fff" : "#000";
}

/** Shades of busy that a pixel can have. */
export const SHADES = 256;

/** What marks are about, the worst first, and the word whose colour they have. */
const MARKS: [RegExp, string][] = [
  [/lost|failed|conflict|refused|dropped/, "lost"],
  [/suspect|stalled|expired|skew|superseded/, "suspect"],
  [/quarantine/, "quarantined"],
  [/draining|left/, "draining"],
  [/back|joined|certificate|hit/, "busy"],
  [/job/, "running"],
];

/** How bad a kind of mark is: 0 is the worst. */
export function markRank(kind: string): number {
  const rank = MARKS.findIndex(([pattern]) => pattern.test(kind));
  return rank < 0 ? MARKS.length : rank;
}

export class Colours {
  readonly hidden = new Set<Class>();
  /** Severity of each code: the greater wins where states share a pixel. */
  readonly severity: Uint8Array;
  /** Pixel of `code * SHADES + busy`. */
  pixels = new Uint32Array(0);
  ground = "";
  ink = "";
  muted = "";
  line = "";
  accent = "";
  private groundRgb: Rgb = [255, 255, 255];
  private inkRgb: Rgb = [0, 0, 0];

  constructor(private readonly report: Report) {
    this.severity = Uint8Array.from(report.meta.states, (word) => CLASSES.indexOf(classOf(word)));
    this.refresh();
  }

  /** Takes over the theme and the legend's choices. */
  refresh(): void {
    const style = getComputedStyle(document.documentElement);
    const read = (name: string) => style.getPropertyValue(name).trim();
    [this.ground, this.ink, this.muted] = [read("--panel"), read("--ink"), read("--muted")];
    [this.line, this.accent] = [read("--line"), read("--accent")];
    [this.groundRgb, this.inkRgb] = [parse(this.ground), parse(this.ink)];
    const { states } = this.report.meta;
    this.pixels = new Uint32Array(states.length * SHADES);
    states.forEach((word, code) => {
      for (let busy = 0; busy < SHADES; busy++) this.pixels[code * SHADES + busy] = pixel(this.shade(word, busy));
    });
  }

  private word(word: string): Rgb {
    const { palette } = this.report.meta;
    // A log may hold any word, also those that every object has.
    return parse(Object.hasOwn(palette, word) ? palette[word] : "#808080");
  }

  private shade(word: string, busy: number): Rgb {
    const kind = classOf(word);
    if (this.hidden.has(kind) || kind === "gone") return this.groundRgb;
    if (kind === "unknown") return mix(this.groundRgb, this.inkRgb, UNKNOWN_SHARE);
    const green = this.word("busy");
    // The root spreads the low shares, which would else all look like none.
    const share = Math.sqrt(busy / (SHADES - 1));
    if (kind === "busy") return mix(mix(this.groundRgb, green, 0.3), green, share);
    if (kind === "idle") return mix(mix(this.groundRgb, this.word("idle"), IDLE_SHARE), this.hidden.has("busy") ? this.word("idle") : green, share);
    return this.word(kind);
  }

  /** Of a class, as the legend shows it. */
  ofClass(kind: Class): string {
    if (kind === "gone") return this.ground;
    if (kind === "unknown") return css(mix(this.groundRgb, this.inkRgb, UNKNOWN_SHARE));
    if (kind === "idle") return css(mix(this.groundRgb, this.word("idle"), IDLE_SHARE));
    return css(this.word(kind));
  }

  /** Of a word of the palette. */
  ofWord(word: string): string {
    return css(this.word(word));
  }

  /** Of a reason to be idle: a grey of its own. */
  ofIdle(reason: string): string {
    return css(mix(this.groundRgb, mix(this.word("idle"), this.inkRgb, 0.15), IDLE_SHADES[reason] ?? 0.6));
  }

  /** Of a node that has tasks while slots of it wait. */
  ofBetween(): string {
    return css(mix(this.groundRgb, this.word("busy"), 0.4));
  }

  /** Of a task's bar, and of words on it: green where it counted, lighter and darker by turns of jobs. */
  ofTask(outcome: string, job: number): { bar: string; words: string } {
    const word = OUTCOMES[outcome];
    const bar = word ? this.word(word) : mix(this.word("busy"), this.inkRgb, (job % JOB_SHADES) * JOB_SHADE);
    return { bar: css(bar), words: inkOn(bar) };
  }

  /** Of a mark, by what it is about. */
  ofMark(kind: string): string {
    const found = MARKS[markRank(kind)];
    return found ? this.ofWord(found[1]) : this.muted;
  }
}
