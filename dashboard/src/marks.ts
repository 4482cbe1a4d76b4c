// What happened, as a list: what the log tells apart from the everyday.

import { markRank, type Colours } from "./colours";
import type { Mark } from "./contract";
import type { Report } from "./data";
import { h, section } from "./dom";
import { count, moment, plain } from "./format";
import { Grid } from "./grid";
import { byName } from "./search";
import type { View } from "./view";

/** Stands for all kinds that tell of something that went wrong. */
export const BAD = "bad";
/** Kinds up to this rank do: lost, failed, contradicted; suspect, late, stalled. */
const BAD_RANK_MAX = 1;

const isOf = (mark: Mark, kind: string) => kind === "" || mark.kind === kind || (kind === BAD && markRank(mark.kind) <= BAD_RANK_MAX);

/** Marks of `kind` (or any) whose text, node or job holds `words`. */
export function filter(marks: Mark[], kind: string, words: string): Mark[] {
  const asked = words.trim().toLowerCase();
  const says = (mark: Mark) => `${mark.text} ${mark.node ?? ""} ${mark.job === null ? "" : `job ${mark.job}`}`.toLowerCase();
  return marks.filter((mark) => isOf(mark, kind) && (asked === "" || says(mark).includes(asked)));
}

/** A kind in the colour that its marks have on the timeline. */
function kindCell(kind: string, colours: Colours): HTMLElement {
  const dot = h("i", { class: "dot" });
  dot.style.background = colours.ofMark(kind);
  return h("span", {}, dot, plain(kind));
}

/** The section; `show` shows a mark on the timeline. */
export function marksSection(report: Report, colours: Colours, view: View, show: (mark: Mark) => void): HTMLElement {
  const { marks, marks_left_out: left } = report.meta;
  const kinds = new Map<string, number>();
  for (const { kind } of marks) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const grid = new Grid<Mark>("Marks, one a line", [
    { title: "time", cell: (mark) => moment(mark.at_us, view.zone, 1000), key: (mark) => mark.at_us },
    { title: "kind", cell: (mark) => kindCell(mark.kind, colours), key: (mark) => mark.kind },
    { title: "what happened", cell: (mark) => mark.text, long: true },
    { title: "node", cell: (mark) => mark.node ?? "", key: (mark) => mark.node ?? "" },
    { title: "job", cell: (mark) => (mark.job === null ? "" : String(mark.job)), key: (mark) => mark.job ?? 0, number: true },
  ], show, byName);
  const bad = filter(marks, BAD, "").length;
  const said = h("output", { "aria-live": "polite" });
  const kind = h("select", { "aria-label": "Kind of mark", change: () => fill() }, h("option", { value: "" }, "every kind"),
    bad > 0 && h("option", { value: BAD }, `all that went wrong (${count(bad)})`),
    ...[...kinds].map(([word, n]) => h("option", { value: word }, `${plain(word)} (${count(n)})`)));
  const words = h("input", { type: "search", placeholder: "words, node, job", "aria-label": "Words to look for", input: () => fill() });
  const fill = () => {
    const found = filter(marks, kind.value, words.value);
    said.textContent = `${count(found.length)} of ${count(marks.length)}`;
    grid.set(found);
  };
  fill();
  view.listen((changes) => changes.has("clock") && fill());
  const cut = left > 0 ? ` ${count(left)} of the most common kinds were left out.` : "";
  return section("marks", "What happened", `Marks of the log, in the order of time. Press one to see it on the timeline.${cut}`,
    h("div", { class: "controls" }, kind, words, said), grid.element);
}
