// The head of the page: which farm, when, and how it ended, in a few lines.

import type { Meta } from "./contract";
import type { Report } from "./data";
import { h } from "./dom";
import { count, duration, many, moment, percent, plain } from "./format";
import type { View } from "./view";

/** What became of the jobs, in one line. */
export function verdicts(report: Report): string {
  const counts = new Map<string, number>();
  for (const { job, certificate } of report.jobs) {
    // It stands for those that there is no room for.
    if (job === 0) continue;
    const word = certificate ? plain(String(certificate.verdict)) : "not ended";
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  if (report.jobsLeftOut > 0) counts.set("left out here", report.jobsLeftOut);
  return counts.size === 0 ? "no jobs" : [...counts].map(([word, n]) => `${count(n)} ${word}`).join(", ");
}

/** The farm's utilisation: computing time, of the time of all slots while their nodes could compute. */
export function utilisation(report: Report): number {
  const busy = report.nodes.reduce((sum, node) => sum + node.busy_us, 0);
  return busy / report.nodes.reduce((sum, node) => sum + node.slots_us, 0);
}

/** What must be known of the log before one reads on. */
export function notes({ complete, notes }: Pick<Meta, "complete" | "notes">): string[] {
  return complete ? notes : ["The log does not reach the end of the run: what follows shows the part that it holds.", ...notes];
}

function facts(report: Report): [string, string][] {
  const { nodes, totals } = report;
  const lost = nodes.filter((node) => node.times_lost > 0).length;
  return [
    ["nodes", totals.slots > 0 ? `${count(totals.nodes)} with ${many(totals.slots, "slot")}` : count(totals.nodes)],
    ["lost at some time", many(lost, "node")],
    ["utilisation", percent(utilisation(report))],
    ["results", count(totals.results)],
    ["sent again", many(nodes.reduce((sum, node) => sum + node.resent, 0), "task")],
    [`${many(report.jobsAll, "job")}, by certificate`, verdicts(report)],
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
  const said = notes(meta);
  return h("header", {},
    h("div", { class: "title" },
      h("h1", {}, "Farm ", h("code", { title: meta.farm }, meta.farm.length > 16 ? `${meta.farm.slice(0, 12)}…` : meta.farm)),
      range),
    said.length > 0 && h("ul", { class: "notes", role: "note" }, ...said.map((note) => h("li", {}, note))),
    h("dl", { class: "facts" }, ...facts(report).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}
