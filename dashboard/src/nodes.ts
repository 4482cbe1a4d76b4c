// A line per node: what it did, how its time went, what it is made of.

import { type Colours } from "./colours";
import type { NodeMeta } from "./contract";
import type { Report } from "./data";
import { h, section } from "./dom";
import { bytes, count, duration, many, percent, plain } from "./format";
import { Grid, type Column } from "./grid";
import { byName } from "./search";
import type { View } from "./view";

interface Part {
  text: string;
  us: number;
  colour: () => string;
}

/**
 * Time that a node was up and had tasks, parted into what its slots computed and what they waited. Busy time is known of
 * all states together in which it can compute: it is shared out by how long each was.
 */
export function computed(node: NodeMeta): { busy: number; waits: number } {
  const has = Math.max(0, node.up_us - idle(node));
  const withTasks = has + node.suspect_us + node.draining_us;
  const able = node.up_us + node.suspect_us + node.draining_us;
  const busy = withTasks > 0 ? has * Math.min(1, (node.utilisation * able) / withTasks) : 0;
  return { busy, waits: has - busy };
}

/** How a node's time went, as far as the log tells of it, in the order of its bar. */
function parts(node: NodeMeta, colours: Colours): Part[] {
  const { busy, waits } = computed(node);
  const state = (text: string, us: number): Part => ({ text, us, colour: () => colours.ofWord(text) });
  return [
    { text: "computes", us: busy, colour: () => colours.ofWord("busy") },
    { text: "has tasks, slots wait", us: waits, colour: () => colours.ofBetween() },
    ...Object.entries(node.idle_us).map(([reason, us]) => ({ text: `idle: ${plain(reason)}`, us, colour: () => colours.ofIdle(reason) })),
    state("suspect", node.suspect_us),
    state("draining", node.draining_us),
    state("quarantined", node.quarantined_us),
    state("lost", node.lost_us),
  ];
}

/** A stacked bar; its title says the parts in words. */
function bar(all: Part[], view: View): HTMLElement {
  const total = all.reduce((sum, { us }) => sum + us, 0);
  const seen = all.filter(({ us }) => us > 0);
  const text = seen.map((part) => `${part.text} ${percent(part.us / total)} (${duration(part.us)})`).join(", ");
  const made = h("div", { class: "stack", role: "img", "aria-label": text, title: text });
  const paint = () => {
    made.replaceChildren(...seen.map((part) => {
      const piece = h("i", {});
      piece.style.flexGrow = String(part.us / total);
      piece.style.background = part.colour();
      return piece;
    }));
  };
  paint();
  view.listen((changes) => changes.has("theme") && made.isConnected && paint());
  return made;
}

/** A number with a bar that compares it with the greatest. */
export function measured(text: string, share: number): HTMLElement {
  const fill = h("i", {});
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("div", { class: "measured" }, fill, h("span", {}, text));
}

function columns(report: Report, colours: Colours, view: View): Column<NodeMeta>[] {
  const most = Math.max(1, ...report.nodes.map((node) => node.results));
  const number = (title: string, of: (node: NodeMeta) => number, text: (node: NodeMeta) => string, help?: string): Column<NodeMeta> =>
    ({ title, key: of, cell: text, number: true, help });
  return [
    { title: "node", cell: (node) => node.node, key: (node) => node.node },
    number("slots", (node) => node.slots, (node) => (node.slots > 0 ? count(node.slots) : "–")),
    { ...number("results", (node) => node.results, () => ""), cell: (node) => measured(count(node.results), node.results / most) },
    number("units", (node) => Number(node.units_done), (node) => count(node.units_done)),
    number("utilisation", (node) => node.utilisation, (node) => percent(node.utilisation), "Computing time, of the time of its slots while it was up, suspect or draining"),
    { title: "how its time went", cell: (node) => bar(parts(node, colours), view) },
    number("idle", (node) => idle(node), (node) => duration(idle(node)), "Up, and without a task"),
    number("times lost", (node) => node.times_lost, (node) => count(node.times_lost)),
    number("time lost", (node) => node.lost_us, (node) => duration(node.lost_us)),
    number("resent", (node) => node.resent, (node) => count(node.resent), "Its tasks that came back without a result, copies among them"),
    number("speed-ups", (node) => node.speed_ups, (node) => count(node.speed_ups), "It asked for more tasks"),
    number("slow-downs", (node) => node.slow_downs, (node) => count(node.slow_downs), "It asked for fewer tasks"),
    ...(report.nodes.some((node) => made(node) !== "") ? [{ title: "made of", cell: made, key: made, long: true }] : []),
  ];
}

const idle = (node: NodeMeta) => Object.values(node.idle_us).reduce((sum, us) => sum + us, 0);

function made(node: NodeMeta): string {
  const { cores, memory_bytes: memory, cpu, accelerators, system } = node;
  const facts = [cpu, cores === null ? null : `${cores} cores`, memory === null ? null : bytes(memory), accelerators, system];
  return facts.filter((fact) => fact !== null && fact !== "").join(", ");
}

/** How all nodes' time went, with a legend that names each part. */
function total(report: Report, colours: Colours, view: View): HTMLElement {
  const sums = new Map<string, Part>();
  for (const node of report.nodes) {
    for (const part of parts(node, colours)) {
      const sum = sums.get(part.text);
      if (sum) sum.us += part.us;
      else sums.set(part.text, { ...part });
    }
  }
  const all = [...sums.values()].filter(({ us }) => us > 0);
  const whole = all.reduce((sum, { us }) => sum + us, 0);
  const legend = h("ul", { class: "keys" });
  const paint = () => legend.replaceChildren(...all.map((part) => {
    const face = h("i", {});
    face.style.background = part.colour();
    return h("li", {}, face, `${part.text} ${percent(part.us / whole)}`);
  }));
  paint();
  view.listen((changes) => changes.has("theme") && paint());
  return h("div", { class: "total" }, bar(all, view), legend);
}

/** The section; `pick` shows a node on the timeline. */
export function nodesSection(report: Report, colours: Colours, view: View, pick: (node: number) => void): HTMLElement {
  const press = (node: NodeMeta) => pick(report.nodeIndex(node.node));
  const grid = new Grid("Nodes, one a line", columns(report, colours, view), press, byName);
  grid.set([...report.nodes].sort((a, b) => byName(a.node, b.node)));
  const left = report.meta.nodes_left_out ?? 0;
  const rest = left > 0 ? ` There is no room for the rows of ${many(left, "more node")}.` : "";
  return section("nodes", "Node by node",
    `How the time of all nodes went, as far as the log tells of each; then each by itself. Press a head to sort, a name to see it on the timeline.${rest}`,
    total(report, colours, view), grid.element);
}
