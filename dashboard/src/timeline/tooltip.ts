// What is under the pointer, in words: a node at a moment, its task, or the marks of a moment.

import type { Report } from "../data";
import { h } from "../dom";
import { count, duration, jobName, many, moment, plain, type Zone } from "../format";
import { runAt, type NodeTasks } from "../tasks";
import type { Group } from "./bands";

const MARKS_MAX = 6;

/** What is said of `node` at `t`; the first line is its name. */
export function nodeLines(report: Report, node: number, t: number, zone: Zone, step: number): string[] {
  const { from_us } = report.meta;
  const held = report.held(node, t);
  const since = `since ${moment(from_us + held.since, zone, step)}, for ${duration(held.until - held.since)}`;
  const word = held.word === "up" ? "up, has tasks" : plain(held.word);
  return [report.nodes[node].node, `${moment(from_us + t, zone, step)} ${zone.label}`, `${word} ${since}`];
}

/** What is said of the run of `tasks` at `t`. */
export function taskLines(report: Report, tasks: NodeTasks, t: number, lane: number | null): string[] {
  const i = runAt(tasks, t, lane);
  if (i < 0) return [];
  const job = report.jobs[Math.floor(tasks.tag[i] / 8)];
  const outcome = report.meta.outcomes[tasks.tag[i] % 8] ?? "unknown";
  const took = duration(tasks.ended[i] - tasks.begun[i]);
  const what = tasks.results[i] === 1 ? `a result, computed in ${took}` : `${many(tasks.results[i], "result")} within ${took}`;
  return [`${jobName(job)}${job?.name ? ` ${job.name}` : ""}: ${what}, ${outcome}`];
}

function markLines(group: Group, zone: Zone): string[] {
  const { marks } = group;
  const head = marks.length === 1 ? plain(marks[0].kind) : `${count(marks.length)} marks`;
  const lines = marks.slice(0, MARKS_MAX).map((mark) => `${moment(mark.at_us, zone)} ${mark.text}`);
  const more = marks.length - lines.length;
  return [head, ...lines, ...(more > 0 ? [`and ${count(more)} more: zoom in, or see the list of marks`] : [])];
}

/**
 * Top of a tooltip for a pointer at `y` of a picture whose top is at `above` of a screen: below the pointer, or above it
 * where the screen ends too soon and there is more of it.
 */
export function topFor(y: number, height: number, above: number, screen: number): number {
  const [below, over] = [y + 16, y - height - 10];
  return above + below + height > screen && above + over >= 0 ? over : below;
}

export class Tooltip {
  readonly element = h("div", { class: "tooltip", hidden: true });

  show(lines: string[], x: number, y: number, width: number): void {
    const [head, ...rest] = lines;
    this.element.replaceChildren(h("strong", {}, head), ...rest.map((line) => h("div", {}, line)));
    this.element.hidden = false;
    const box = this.element.getBoundingClientRect();
    const left = x + 14 + box.width > width ? x - box.width - 14 : x + 14;
    this.element.style.left = `${Math.max(2, Math.min(left, width - box.width - 2))}px`;
    const above = this.element.parentElement?.getBoundingClientRect().top ?? 0;
    this.element.style.top = `${topFor(y, box.height, above, innerHeight)}px`;
  }

  marks(group: Group, zone: Zone, y: number, width: number): void {
    this.show(markLines(group, zone), group.x, y, width);
  }

  hide(): void {
    this.element.hidden = true;
  }
}
