// The field that looks for nodes, jobs and marks, and goes from one to the next.

import type { Report } from "./data";
import { button, h } from "./dom";
import { search, type Found } from "./search";
import type { Timeline } from "./timeline/timeline";
import type { View } from "./view";

/** What is shown around a mark or at least of a job: so that it has some company. */
const AROUND_SHARE = 0.02;

export class Finder {
  readonly element: HTMLElement;
  private readonly input = h("input", { type: "search", placeholder: "node, job, kind of mark  ( / )", "aria-label": "Look for a node, a job, or a kind of mark" });
  private readonly said = h("output", { "aria-live": "polite" });
  private found: Found[] = [];
  private asked = "";
  private at = -1;

  constructor(
    private readonly report: Report,
    private readonly view: View,
    private readonly timeline: Timeline,
  ) {
    this.element = h("form", { class: "find", role: "search", submit: (event: Event) => (event.preventDefault(), this.next(1)) },
      this.input, button("‹", "The one before (N)", () => this.next(-1)), button("›", "The next (n)", () => this.next(1)), this.said);
    document.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      this.input.focus();
      this.input.select();
    } else if (event.key === "n") this.next(1);
    else if (event.key === "N") this.next(-1);
  }

  private next(by: number): void {
    if (this.input.value !== this.asked) {
      this.asked = this.input.value;
      this.found = search(this.report, this.asked);
      this.at = by > 0 ? -1 : 0;
    }
    const { length } = this.found;
    if (length === 0) {
      this.said.textContent = this.asked === "" ? "" : "nothing found";
      return;
    }
    this.at = (this.at + by + length) % length;
    const hit = this.found[this.at];
    this.said.textContent = `${this.at + 1} of ${length}: ${hit.text}`;
    this.show(hit);
  }

  private show(hit: Found): void {
    if (hit.what === "node") this.timeline.reveal(hit.node);
    else if (hit.what === "job") this.job(hit.job);
    else this.mark(hit.mark);
  }

  /** Shows a job's time from its submission to its end. */
  job(index: number): void {
    const { jobs, meta } = this.report;
    const { submitted_us: from, ended_us: to } = jobs[index];
    const [a, b] = [from - meta.from_us, (to ?? meta.to_us) - meta.from_us];
    const around = Math.max((b - a) * AROUND_SHARE, 1000);
    this.view.show(a - around, b + around);
  }

  /** Shows a mark in the middle, closer than now only where the whole run is shown. */
  mark(index: number): void {
    const mark = this.report.meta.marks[index];
    const t = mark.at_us - this.report.meta.from_us;
    const all = this.view.to - this.view.from > this.view.span / 4;
    const half = (all ? this.view.span * AROUND_SHARE : this.view.to - this.view.from) / 2;
    this.view.show(t - half, t + half);
    this.view.point(t);
    const node = this.report.nodeIndex(mark.node);
    if (node >= 0) this.timeline.reveal(node);
  }
}
