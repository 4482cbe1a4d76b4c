// Finds a node by name, a job by name or number, a kind of mark. No DOM in here.

import type { Report } from "./data";
import { jobName, plain } from "./format";

export type Found =
  | { what: "node"; text: string; node: number }
  | { what: "job"; text: string; job: number }
  | { what: "mark"; text: string; mark: number };

const FOUND_MAX = 500;

/** How well `name` answers `query`: 0 for wholly, then a beginning, then a part; -1 for not at all. */
export function rank(name: string, query: string): number {
  const low = name.toLowerCase();
  if (low === query) return 0;
  if (low.startsWith(query)) return 1;
  return low.includes(query) ? 2 : -1;
}

/** All that answer `query`, the best first; nodes before jobs before marks where they answer alike. */
export function search(report: Report, query: string): Found[] {
  const words = query.trim().toLowerCase().replace(/\s+/g, " ");
  if (words === "") return [];
  const found: { rank: number; hit: Found }[] = [];
  const offer = (name: string, hit: Found) => {
    const ranked = rank(name, words);
    if (ranked >= 0) found.push({ rank: ranked, hit });
  };
  report.nodes.forEach(({ node }, i) => offer(node, { what: "node", text: node, node: i }));
  report.jobs.forEach((of, i) => {
    const { job, name } = of;
    const hit: Found = { what: "job", text: name ? `${jobName(of)}: ${name}` : jobName(of), job: i };
    const ranks = [String(job), jobName(of), name].map((text) => rank(text, words));
    // A part of a number says nothing: 1 is no answer to 12.
    const exact = ranks.slice(0, 2).includes(0);
    if (exact || ranks[2] >= 0) found.push({ rank: exact ? 0 : ranks[2], hit });
  });
  report.meta.marks.forEach((mark, i) => {
    const asked = rank(mark.kind, words.replaceAll(" ", "_"));
    if (asked >= 0) found.push({ rank: asked + 3, hit: { what: "mark", text: `${plain(mark.kind)}: ${mark.text}`, mark: i } });
  });
  // Array.sort keeps the order of equals: marks stay in the order of time.
  return found.sort((a, b) => a.rank - b.rank).slice(0, FOUND_MAX).map(({ hit }) => hit);
}

/** Names in the order people count in: node-2 before node-10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;
