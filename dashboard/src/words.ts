// The timeline in words: for those who do not see it, and for those who want it exactly.

import { CLASSES, classOf } from "./colours";
import type { Report } from "./data";
import { h, lazyDetails, table } from "./dom";
import { count, duration, many, moment, plain } from "./format";
import type { View } from "./view";

const ROWS_MAX = 400;
const NAMES_MAX = 60;

/** Nodes by the class of their state at `t`. */
export function statesAt(report: Report, t: number): Map<string, number[]> {
  const found = new Map<string, number[]>();
  report.nodes.forEach((_, node) => {
    const word = report.held(node, t).word;
    const nodes = found.get(word);
    if (nodes) nodes.push(node);
    else found.set(word, [node]);
  });
  return found;
}

/** The picture in a sentence. */
export function summary(report: Report): string {
  const lost = report.nodes.filter((node) => node.times_lost > 0).length;
  const jobs = many(report.jobsAll, "job");
  return `States of ${many(report.totals.nodes, "node")} over ${duration(report.span)} with ${jobs}: ${many(lost, "node")} lost at some time.`;
}

function nodeStates(report: Report, view: View, node: number): HTMLElement {
  const rows: string[][] = [];
  let more = 0;
  report.eachState(node, view.from, view.to, (code, a, b) => {
    if (rows.length >= ROWS_MAX) more++;
    else rows.push([moment(report.meta.from_us + a, view.zone, 1000), plain(report.word(code)), duration(b - a)]);
  });
  const rest = more > 0 ? ` ${count(more)} more: zoom in.` : "";
  return table(`States of ${report.nodes[node].node} in what is shown.${rest}`, [`from, ${view.zone.label}`, "state", "for"], rows);
}

function farmAt(report: Report, view: View, t: number): HTMLElement {
  const found = [...statesAt(report, t)].sort(([a], [b]) => CLASSES.indexOf(classOf(b)) - CLASSES.indexOf(classOf(a)));
  const names = (nodes: number[]) => {
    const shown = nodes.slice(0, NAMES_MAX).map((node) => report.nodes[node].node).join(", ");
    return nodes.length > NAMES_MAX ? `${shown} and ${count(nodes.length - NAMES_MAX)} more` : shown;
  };
  const rows = found.map(([word, nodes]) => [plain(word), count(nodes.length), names(nodes)]);
  const at = `${moment(report.meta.from_us + t, view.zone)} ${view.zone.label}`;
  return table(`The farm at ${at}`, ["state", "nodes", "which"], rows);
}

/** The moment that `text` (`2026-11-21 09:00:00`, on the clock in use) names; none where it makes no sense. */
export function parseMoment(text: string, view: View): number | null {
  const wall = Date.parse(`${text.trim().replace(" ", "T")}Z`) * 1000;
  if (Number.isNaN(wall)) return null;
  return wall - view.zone.offset(wall - view.zone.offset(wall));
}

export function wordsSection(report: Report, view: View): HTMLElement {
  let at = 0;
  const node = lazyDetails("States of the picked node as a table", () =>
    view.picked < 0 ? h("p", { class: "caption" }, "Pick a node first: press its row, or look for its name.") : nodeStates(report, view, view.picked));
  const input = h("input", { type: "text", size: 20, "aria-label": "Time", spellcheck: "false" });
  const place = h("div", {});
  const fill = () => place.replaceChildren(farmAt(report, view, at));
  const farm = lazyDetails("The farm at a moment", () => {
    at = view.cursor ?? (view.from + view.to) / 2;
    input.value = moment(report.meta.from_us + at, view.zone);
    fill();
    const press = () => {
      const asked = parseMoment(input.value, view);
      const t = asked === null ? NaN : asked - report.meta.from_us;
      if (t >= 0 && t <= report.span) {
        at = t;
        fill();
      } else place.replaceChildren(h("p", { class: "caption" }, `Give a time within the run, like ${moment(report.meta.from_us, view.zone)}.`));
    };
    const form = h("form", { class: "controls", submit: (event: Event) => (event.preventDefault(), press()) }, h("label", {}, "at ", input, ` ${view.zone.label}`), h("button", { type: "submit" }, "show"));
    return h("div", {}, form, place);
  });
  view.listen((changes) => {
    if (changes.has("picked") || changes.has("window") || changes.has("clock")) node.again();
    if (changes.has("clock")) farm.again();
  });
  return h("div", { class: "words" }, node.element, farm.element);
}
