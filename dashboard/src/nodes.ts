// A line per node: what it did, how its time went, what it is made of.

import { type Colours } from "./colours";
import type { NodeMeta } from "./contract";
import type { Report } from "./data";
import { h, section } from "./dom";
import { bytes, count, duration, percent, plain } from "./format";
import { Grid, type Column } from "./grid";
import { byName } from "./search";
import type { View } from "./view";

interface Part {
  text: string;
  us: number;
  colour: () => string;
}

/** How a node's time from its joining on went, in the order of its bar. */
function parts(node: NodeMeta, colours: Colours): Part[] {
  const idle = Object.entries(node.idle_us);
  const idleAll = idle.reduce((sum, [, us]) => sum + us, 0);
  // Busy is computing time of slots; a bar is of the node's time.
  const busy = node.slots > 0 ? Math.min(node.busy_us / node.slots, Math.max(0, node.up_us - idleAll)) : 0;
  return [
    { text: "computes", us: busy, colour: () => colours.ofWord("busy") },
    { text: "has tasks, slots wait", us: Math.max(0, node.up_us - idleAll - busy), colour: () => colours.ofBetween() },
    ...idle.map(([reason, us]) => ({ text: `idle: ${plain(reason)}`, us, colour: () => colours.ofIdle(reason) })),
    { text: "suspect", us: node.suspect_us, colour: () => colours.ofWord("suspect") },
    { text: "lost", us: node.lost_us, colour: () => colours.ofWord("lost") },
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
  const most = Math.max(1, ...report.nodes.map((node) => node.tasks_done));
  const number = (title: string, of: (node: NodeMeta) => number, text: (node: NodeMeta) => string, help?: string): Column<NodeMeta> =>
    ({ title, key: of, cell: text, number: true, help });
  return [
    { title: "node", cell: (node) => node.node, key: (node) => node.node },
    number("slots", (node) => node.slots, (node) => (node.slots > 0 ? count(node.slots) : "–")),
    { ...number("tasks", (node) => node.tasks_done, () => ""), cell: (node) => measured(count(node.tasks_done), node.tasks_done / most) },
    number("units", (node) => Number(node.units_done), (node) => count(node.units_done)),
    number("utilisation", (node) => report.utilisation(node) || 0, (node) => percent(report.utilisation(node)), "Computing time, of the time of its slots while it was up"),
    { title: "how its time went", cell: (node) => bar(parts(node, colours), view) },
    number("idle", (node) => idle(node), (node) => duration(idle(node)), "Up, and without a task"),
    number("times lost", (node) => node.times_lost, (node) => count(node.times_lost)),
    number("time lost", (node) => node.lost_us, (node) => duration(node.lost_us)),
    number("resent", (node) => node.resent, (node) => count(node.resent), "Its tasks that went back to gq"),
    number("speed-ups", (node) => node.speed_ups, (node) => count(node.speed_ups), "It asked for larger tasks"),
    number("slow-downs", (node) => node.slow_downs, (node) => count(node.slow_downs), "It asked for smaller tasks"),
    { title: "made of", cell: made, key: made, long: true },
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
  return section("Node by node",
    "How the time of all nodes went, from when each joined on; then each by itself. Press a head to sort, a name to see it on the timeline.",
    total(report, colours, view), grid.element);
}
