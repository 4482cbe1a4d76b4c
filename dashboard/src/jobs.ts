// Jobs: each with its states over time, how long its results took, and its certificate.

import type { Colours } from "./colours";
import type { Field, JobMeta } from "./contract";
import type { Report } from "./data";
import { h, lazyDetails, section, table } from "./dom";
import { count, duration, jobName, many, moment, percent, plain } from "./format";
import { doneShare, jobVerdict, worstFirst } from "./verdict";
import type { View } from "./view";

const SHOWN_FIRST = 30;
/** Bars of a histogram that have room for a label each. */
const LABELS_MAX = 12;
/** Of so few jobs the first is open. */
const OPEN_AT_ONCE_MAX = 3;

/** Fields of a certificate in the order in which one reads it; others follow. */
const FIELDS = ["verdict", "state", "units", "done", "failed", "abandoned", "hits", "duplicate", "dispatched", "resent",
  "copied", "conflicts", "epoch", "epochs", "nodes", "spec", "intervals_hash", "hits_hash"];

function lastState(job: JobMeta): string {
  return job.states[job.states.length - 1]?.[1] ?? "unknown";
}

/** States that last until another one follows. */
const OPEN_STATES = ["waiting", "queued", "running", "paused"];

/** The job's states as a strip over the whole run. */
function strip(report: Report, colours: Colours, job: JobMeta): HTMLElement {
  const { from_us, to_us } = report.meta;
  const made = h("div", { class: "strip", "aria-hidden": "true" });
  job.states.forEach(([at, word], i) => {
    const until = job.states[i + 1]?.[0] ?? (OPEN_STATES.includes(word) ? to_us : at);
    const piece = h("i", { title: plain(word) });
    piece.style.left = `${((at - from_us) / report.span) * 100}%`;
    piece.style.width = `${(Math.max(0, until - at) / report.span) * 100}%`;
    piece.style.background = colours.ofWord(word);
    made.append(piece);
  });
  return made;
}

/** The cores that its units used, below the strip of its states: a bar a span, the highest for the most. */
function usage(report: Report, job: JobMeta): HTMLElement | false {
  const used = job.cores_used;
  if (!used || used.cores.length === 0) return false;
  const { from_us } = report.meta;
  const most = Math.max(...used.cores);
  const mean = used.cores.reduce((sum, cores, i) => sum + cores * (used.to_us[i] - used.from_us[i]), 0) /
    Math.max(1, used.to_us.reduce((sum, to, i) => sum + to - used.from_us[i], 0));
  const label = `${cores(mean)} in use on average, ${cores(most)} at most`;
  const made = h("div", { class: "usage", role: "img", "aria-label": label, title: label });
  used.cores.forEach((now, i) => {
    const [from, to] = [Math.max(used.from_us[i], from_us), Math.max(used.to_us[i], from_us)];
    if (to === from) return;
    const piece = h("i", { title: `${cores(now)} in use; by unit ${used.min[i].toFixed(2)} to ${used.max[i].toFixed(2)}` });
    piece.style.left = `${((from - from_us) / report.span) * 100}%`;
    piece.style.width = `${((to - from) / report.span) * 100}%`;
    piece.style.height = `${most > 0 ? Math.max(4, (now / most) * 100) : 4}%`;
    made.append(piece);
  });
  return made;
}

function cores(number: number): string {
  return `${number.toFixed(2)} ${number === 1 ? "core" : "cores"}`;
}

/** Facts of what it used in all. */
function used(job: JobMeta): [string, string][] {
  const number = (name: string) => {
    const field = job.used?.[name];
    return typeof field === "number" ? field : undefined;
  };
  const [sum, time, memory] = [number("cpu_cores_sum"), number("for_us"), number("memory_bytes_sum")];
  const facts: [string, string][] = [];
  if (sum !== undefined && time !== undefined) facts.push(["processor time used", duration(sum * time)], ["in use on average", cores(sum)]);
  if (memory !== undefined) facts.push(["memory on average", `${(memory / 2 ** 20).toFixed(1)} MiB`]);
  return facts;
}

/** How many results took how long: one bar for each doubling of the time. */
function histogram(job: JobMeta): HTMLElement {
  const { from_us: edges, counts } = job.durations;
  const most = Math.max(1, ...counts);
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) return h("p", { class: "caption" }, "No result of it came.");
  const bars = counts.map((n, i) => {
    const fill = h("i", {});
    fill.style.height = `${n === 0 ? 0 : Math.max(1, (n / most) * 100)}%`;
    return h("div", { class: "bin", title: `${duration(edges[i])} to ${duration(edges[i] * 2)}: ${many(n, "result")}` }, fill, h("span", {}, duration(edges[i])));
  });
  const peak = counts.indexOf(most);
  const label = `Durations of ${many(total, "result")}, most of them from ${duration(edges[peak])} to ${duration(edges[peak] * 2)}`;
  const text = lazyDetails("Durations as a table", () => table(label, ["from", "to", "results", "share"],
    counts.map((n, i) => [duration(edges[i]), duration(edges[i] * 2), count(n), percent(n / total)])));
  return h("figure", {}, h("figcaption", {}, h("h3", {}, "How long results took to compute"), h("p", { class: "caption" }, `${label}. Each bar is twice as long a time as the one before.`)),
    h("div", { class: counts.length > LABELS_MAX ? "histogram dense" : "histogram", role: "img", "aria-label": label }, ...bars), text.element);
}

/** Fields and their texts in reading order. A number is in groups; a hash never is, though it may look like one. */
export function certificateLines(certificate: Record<string, Field>): [string, string][] {
  const place = (name: string) => (FIELDS.includes(name) ? FIELDS.indexOf(name) : FIELDS.length);
  const text = (name: string, value: Field) => {
    if (value === null) return "–";
    if (Array.isArray(value)) return value.join(", ");
    const isHash = name === "spec" || name.endsWith("hash");
    return !isHash && typeof value !== "boolean" && /^\d+$/.test(String(value)) ? count(value) : String(value);
  };
  return Object.entries(certificate)
    .filter(([name]) => name !== "job")
    .sort(([a], [b]) => place(a) - place(b))
    .map(([name, value]) => [name, text(name, value)]);
}

async function copy(text: string, place: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    place.textContent = "copied";
  } catch {
    // A page from a file may not have a clipboard: then the text is marked, for the reader to copy.
    const range = document.createRange();
    const target = place.closest("figure")?.querySelector("dl");
    if (target) range.selectNodeContents(target);
    getSelection()?.removeAllRanges();
    getSelection()?.addRange(range);
    place.textContent = "marked: copy it";
  }
}

function field(name: string, text: string): HTMLElement {
  return h("div", { class: text.length > 30 ? "long" : "" }, h("dt", {}, plain(name)), h("dd", {}, text));
}

function certificate(job: JobMeta): HTMLElement {
  const fields = certificateLines(job.certificate ?? {});
  if (fields.length === 0) return h("p", { class: "caption" }, "It had no certificate when the log ended.");
  const press = h("button", { type: "button", click: () => void copy(JSON.stringify(job.certificate, null, 2), press) }, "copy as JSON");
  return h("figure", {}, h("figcaption", {}, h("h3", {}, "Certificate ", press), h("p", { class: "caption" }, "What its scheduler counted; the audit's hashes must be the same.")),
    h("dl", { class: "certificate" }, ...fields.map(([name, text]) => field(name, text))));
}

function history(view: View, job: JobMeta): HTMLElement {
  const rows = job.states.map(([at, word], i) => {
    const until = job.states[i + 1]?.[0];
    return [moment(at, view.zone), plain(word), until === undefined ? "" : duration(until - at)];
  });
  return table(`States of ${jobName(job)}`, [`from, ${view.zone.label}`, "state", "for"], rows);
}

function body(report: Report, view: View, job: JobMeta): HTMLElement {
  const ended = job.ended_us ?? report.meta.to_us;
  const facts: [string, string][] = [
    ["submitted", moment(job.submitted_us, view.zone)],
    ["first task given out", job.started_us === null ? "never" : moment(job.started_us, view.zone)],
    ["ended", job.ended_us === null ? "not yet" : moment(job.ended_us, view.zone)],
    ["took", job.started_us === null ? "–" : duration(ended - job.started_us)],
    ["units", count(job.units)],
    ["done", count(job.done)],
    ["failed", count(job.failed)],
    ["abandoned", count(job.abandoned)],
    ["hits", count(job.hits)],
    ["results", count(job.results)],
    ["median duration of a result", job.median_us === null ? "–" : duration(job.median_us)],
    ...used(job),
  ];
  return h("div", { class: "job" },
    h("dl", { class: "facts" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    history(view, job), histogram(job), certificate(job));
}

function card(report: Report, colours: Colours, view: View, job: JobMeta, zoom: () => void): HTMLDetailsElement {
  const { word, tone } = jobVerdict(job, report.meta.marks);
  const dot = (of: string) => {
    const made = h("i", { class: "dot" });
    made.style.background = colours.ofWord(of);
    return made;
  };
  const place = h("div", {});
  const made = h("details", { class: "card" },
    h("summary", {},
      h("span", { class: "name" }, jobName(job), job.name && h("b", {}, ` ${job.name}`), job.user && ` of ${job.user}`),
      h("span", {}, dot(lastState(job)), plain(lastState(job))),
      h("span", {}, `${doneShare(job)} of ${count(job.units)} units`),
      // The others are of no one job: nobody certified them together.
      h("span", {}, job.job !== 0 && dot(tone), job.job === 0 ? "" : job.certificate ? word : "no certificate"),
      h("span", { class: "over" }, strip(report, colours, job), usage(report, job))),
    place);
  const fill = () => {
    if (made.open) place.replaceChildren(h("button", { type: "button", click: zoom }, "show its time on the timeline"), body(report, view, job));
  };
  made.addEventListener("toggle", fill);
  view.listen((changes) => changes.has("clock") && fill());
  return made;
}

/** What the colours of the strips mean. */
function key(report: Report, colours: Colours, view: View): HTMLElement {
  const words = new Set(report.jobs.flatMap(({ states }) => states.map(([, word]) => word)));
  const made = h("ul", { class: "keys", "aria-label": "Colours of jobs' states" });
  const paint = () => made.replaceChildren(...[...words].map((word) => {
    const face = h("i", {});
    face.style.background = colours.ofWord(word);
    return h("li", {}, face, plain(word));
  }));
  paint();
  view.listen((changes) => changes.has("theme") && paint());
  return made;
}

/** The section, and what opens a job's card in it; `zoom` shows a job's time. */
export function jobsSection(report: Report, colours: Colours, view: View, zoom: (job: number) => void): { element: HTMLElement; open(job: number): void } {
  const order = worstFirst(report);
  const made: HTMLDetailsElement[] = [];
  const list = h("div", {});
  const show = (end: number) => {
    for (let i = made.length; i < end; i++) made.push(card(report, colours, view, report.jobs[order[i]], () => zoom(order[i])));
    list.replaceChildren(...made);
    more.hidden = made.length >= report.jobs.length;
  };
  const more = h("button", { type: "button", click: () => show(report.jobs.length) }, `show ${count(report.jobs.length - SHOWN_FIRST)} more`);
  show(Math.min(SHOWN_FIRST, report.jobs.length));
  if (made[0] && made.length <= OPEN_AT_ONCE_MAX) made[0].open = true;
  const open = (job: number) => {
    const place = order.indexOf(job);
    if (place >= made.length) show(report.jobs.length);
    made[place].open = true;
    made[place].scrollIntoView({ block: "start" });
    made[place].querySelector("summary")?.focus();
  };
  const out = report.jobsLeftOut;
  const rest = out > 0 ? ` There is no room for ${many(out, "more job")}.` : "";
  const element = section("jobs", "Jobs", `Each with its states over the whole run, the worst first. Open one for its figures, the durations of its results and its certificate.${rest}`,
    key(report, colours, view), list, more);
  return { element, open };
}
