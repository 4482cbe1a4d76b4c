// The head of the page: how the run ended, then which farm, when, and its figures in a line.

import type { Colours } from "./colours";
import type { Meta } from "./contract";
import type { Report } from "./data";
import { h } from "./dom";
import { count, duration, many, moment, percent } from "./format";
import { summarise } from "./verdict";
import type { View } from "./view";

/** Jobs that the head names; their section has them all. */
const TROUBLED_MAX = 4;
/** More notes than these wait until somebody opens them. */
const NOTES_OPEN_MAX = 2;

/** The farm's utilisation: computing time, of the time of all slots while their nodes could compute. */
export function utilisation(report: Report): number {
  const busy = report.nodes.reduce((sum, node) => sum + node.busy_us, 0);
  return busy / report.nodes.reduce((sum, node) => sum + node.slots_us, 0);
}

/** Tasks that were sent again. The farm's own count, for what came back from a node may be a copy, which nobody sends again. */
export function sentAgain({ nodes, totals }: Pick<Report, "nodes" | "totals">): number {
  return totals.resent ?? nodes.reduce((sum, node) => sum + node.resent, 0);
}

/** What must be known of the log before one reads on. */
export function notes({ complete, notes }: Pick<Meta, "complete" | "notes">): string[] {
  return complete ? notes : ["The log lacks a part of the run: what follows shows what it holds.", ...notes];
}

function facts(report: Report): [string, string][] {
  const { nodes, totals } = report;
  const lost = nodes.filter((node) => node.times_lost > 0).length;
  return [
    ["nodes", totals.slots > 0 ? `${count(totals.nodes)} with ${many(totals.slots, "slot")}` : count(totals.nodes)],
    ["lost at some time", many(lost, "node")],
    ["utilisation", percent(utilisation(report))],
    ["results", count(totals.results)],
    ["resent", many(sentAgain(report), "task")],
  ];
}

/** How the jobs ended; `open` shows one of them. */
function verdict(report: Report, colours: Colours, open: (job: number) => void): HTMLElement {
  const { tone, text, troubled } = summarise(report);
  const dot = (of: string) => {
    const made = h("i", { class: "dot" });
    made.style.background = colours.ofWord(of);
    return made;
  };
  const more = troubled.length - TROUBLED_MAX;
  const lines = troubled.slice(0, TROUBLED_MAX).map((job) =>
    h("li", {}, dot(job.tone), h("button", { type: "button", class: "link", click: () => open(job.index) }, job.text)));
  if (more > 0) lines.push(h("li", {}, `and ${many(more, "more job")}: see `, h("a", { href: "#jobs" }, "Jobs")));
  const made = h("div", { class: "verdict" }, h("p", {}, tone && dot(tone), h("strong", {}, text)), lines.length > 0 && h("ul", {}, ...lines));
  if (tone) made.style.borderLeftColor = colours.ofWord(tone);
  return made;
}

function notesBox(said: string[]): HTMLElement {
  const list = h("ul", {}, ...said.map((note) => h("li", {}, note)));
  if (said.length <= NOTES_OPEN_MAX) return h("div", { class: "notes", role: "note" }, list);
  // The first says what is most important: a log that lacks a part.
  return h("details", { class: "notes" }, h("summary", {}, `${many(said.length, "note")} about the log: ${said[0]}`), list);
}

/** The head; `open` shows a job. */
export function head(report: Report, colours: Colours, view: View, open: (job: number) => void): HTMLElement {
  const { meta } = report;
  const range = h("p", { class: "range" });
  const say = () => {
    const { label } = view.zone;
    range.textContent = `${moment(meta.from_us, view.zone)} to ${moment(meta.to_us, view.zone)} ${label}: ${duration(report.span).replaceAll(" ", "\u00a0")}`;
  };
  say();
  view.listen((changes) => changes.has("clock") && say());
  const said = notes(meta);
  return h("header", {},
    h("div", { class: "title" },
      h("h1", {}, "Farm ", h("code", { title: meta.farm }, meta.farm.length > 16 ? `${meta.farm.slice(0, 12)}…` : meta.farm)),
      range),
    verdict(report, colours, open),
    said.length > 0 && notesBox(said),
    h("dl", { class: "facts" }, ...facts(report).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}
