// The head of the page: which farm, when, and how it ended, in a few lines.

import type { NodeMeta } from "./contract";
import type { Report } from "./data";
import { h } from "./dom";
import { count, duration, many, moment, percent, plain } from "./format";
import type { View } from "./view";

/** What became of the jobs, in one line. */
export function verdicts(report: Report): string {
  const counts = new Map<string, number>();
  for (const { certificate } of report.jobs) {
    const word = certificate ? plain(String(certificate.verdict)) : "not ended";
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts.size === 0 ? "no jobs" : [...counts].map(([word, n]) => `${count(n)} ${word}`).join(", ");
}

/** The farm's utilisation: computing time of what slots had while their nodes were up. */
export function utilisation(report: Report): number {
  const room = (node: NodeMeta) => node.up_us * node.slots;
  // A node computes while it is lost, too: that is beyond its room.
  const busy = report.nodes.reduce((sum, node) => sum + Math.min(node.busy_us, room(node)), 0);
  return busy / report.nodes.reduce((sum, node) => sum + room(node), 0);
}

function facts(report: Report): [string, string][] {
  const { nodes, jobs } = report;
  const slots = nodes.reduce((sum, node) => sum + node.slots, 0);
  const results = nodes.reduce((sum, node) => sum + node.results, 0);
  const lost = nodes.filter((node) => node.times_lost > 0).length;
  return [
    ["nodes", slots > 0 ? `${count(nodes.length)} with ${many(slots, "slot")}` : count(nodes.length)],
    ["lost at some time", many(lost, "node")],
    ["utilisation", percent(utilisation(report))],
    ["results", count(results)],
    ["sent again", many(nodes.reduce((sum, node) => sum + node.resent, 0), "task")],
    [`${many(jobs.length, "job")}, by certificate`, verdicts(report)],
  ];
}

export function head(report: Report, view: View): HTMLElement {
  const { meta } = report;
  const range = h("p", { class: "range" });
  const say = () => {
    const { label } = view.zone;
    range.textContent = `${moment(meta.from_us, view.zone)} to ${moment(meta.to_us, view.zone)} ${label}: ${duration(report.span)}`;
  };
  say();
  view.listen((changes) => changes.has("clock") && say());
  const notes = meta.notes.length > 0 || !meta.complete;
  const first = meta.complete ? [] : ["The log does not reach the end of the run: what follows shows the part that it holds."];
  return h("header", {},
    h("div", { class: "title" },
      h("h1", {}, "Farm ", h("code", { title: meta.farm }, meta.farm.length > 16 ? `${meta.farm.slice(0, 12)}…` : meta.farm)),
      range),
    notes && h("ul", { class: "notes", role: "note" }, ...[...first, ...meta.notes].map((note) => h("li", {}, note))),
    h("dl", { class: "facts" }, ...facts(report).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}
