// What became of the jobs: the first thing that somebody who opens a report wants to know. No DOM in here.

import type { JobMeta, Mark } from "./contract";
import type { Report } from "./data";
import { count, cut, jobName, many, percent, plain } from "./format";

/** A word of the palette, from the worst to the best; jobs and the whole are told in its colour. */
const TONES = ["failed", "cancelled", "running", "done"] as const;
export type Tone = (typeof TONES)[number];

/** Characters of a job's name in a sentence. */
const NAME_MAX = 48;

/** Of a job: what its certificate says, or that it has none. */
export interface JobVerdict {
  word: string;
  tone: Tone;
  /** The word in a sentence: `is complete`. */
  says: string;
  /** What is wrong or missing, with figures; nothing where all is well. */
  why: string;
}

/** Words of certificates, and how a sentence says them; one that is not known is no good news. */
const WORDS = new Map<string, [Tone, string]>([
  ["complete", ["done", "is complete"]],
  ["complete_with_failures", ["failed", "is complete with failures"]],
  ["ended_early", ["cancelled", "ended early"]],
]);

/** Ranges of units of which two nodes said different things. */
function conflicts({ job, certificate }: JobMeta, marks: Mark[]): number {
  return certificate ? Number(certificate.conflicts ?? 0) : marks.filter((mark) => mark.kind === "conflict" && mark.job === job).length;
}

/** `99.9 %`, and never 100 % of what is not all. */
export function doneShare(job: JobMeta): string {
  const [done, units] = [Number(job.done), Number(job.units)];
  const shown = percent(units > 0 ? done / units : 0);
  return shown === percent(1) && job.done !== job.units ? percent(0.999) : shown;
}

export function jobVerdict(job: JobMeta, marks: Mark[]): JobVerdict {
  const told = job.certificate ? String(job.certificate.verdict) : null;
  const contradicted = conflicts(job, marks);
  const why = [
    job.failed !== "0" && `${count(job.failed)} of ${count(job.units)} units failed`,
    job.abandoned !== "0" && `${count(job.abandoned)} of ${count(job.units)} units abandoned`,
    contradicted > 0 && `${many(contradicted, "conflict")}: nodes contradict each other`,
    told === null && `${doneShare(job)} of ${count(job.units)} units done when the log ends`,
  ].filter((part) => part !== false).join(", ");
  const of = (word: string, [tone, says]: [Tone, string]): JobVerdict =>
    ({ word, says, why, tone: contradicted > 0 || (told === null && job.failed !== "0") ? "failed" : tone });
  if (told !== null) return of(plain(told), WORDS.get(told) ?? ["failed", `is ${plain(told)}`]);
  if (job.ended_us === null) return of("not ended", ["running", "has not ended"]);
  // The log of whoever ended it may be missing.
  return of("without a certificate", ["cancelled", "ended without a certificate"]);
}

/** Indices of all jobs, the worst first, else in their order; what stands for many comes last. */
export function worstFirst(report: Report): number[] {
  const rank = report.jobs.map((job) => (job.job === 0 ? TONES.length : TONES.indexOf(jobVerdict(job, report.meta.marks).tone)));
  return report.jobs.map((_, i) => i).sort((a, b) => rank[a] - rank[b]);
}

/** Of all jobs: a sentence in a colour, and those of which more must be said, the worst first. */
export interface Summary {
  tone: Tone | null;
  text: string;
  troubled: { index: number; tone: Tone; text: string }[];
}

/** `Job 1 mersenne`, as a sentence begins. */
function titled(job: JobMeta): string {
  const text = jobName(job);
  return `${text[0].toUpperCase()}${text.slice(1)}${job.name ? ` ${cut(job.name, NAME_MAX)}` : ""}`;
}

export function summarise(report: Report): Summary {
  // Job 0 stands for those that there is no room for: nobody certified them together.
  const told = worstFirst(report)
    .map((index) => ({ job: report.jobs[index], index, ...jobVerdict(report.jobs[index], report.meta.marks) }))
    .filter(({ job }) => job.job !== 0);
  const out = report.jobsLeftOut;
  if (told.length === 0) return { tone: null, text: out > 0 ? `${many(out, "job")}, all left out here` : "No jobs", troubled: [] };
  const troubled = told.filter(({ why }) => why !== "").map(({ job, index, tone, says, why }) => ({ index, tone, text: `${titled(job)} ${says}: ${why}` }));
  const { tone, job, says, why } = told[0];
  if (told.length === 1 && out === 0) {
    const units = job.units === "1" ? "its unit" : `each of its ${count(job.units)} units`;
    const more = why === "" && tone === "done" ? `${units} counted once` : why;
    return { tone, text: `${titled(job)} ${says}${more === "" ? "" : `: ${more}`}`, troubled: [] };
  }
  const counts = new Map<string, number>();
  for (const { word } of told) counts.set(word, (counts.get(word) ?? 0) + 1);
  if (out > 0) counts.set("left out here", out);
  const text = counts.size === 1 && tone === "done"
    ? `All ${count(told.length)} jobs are complete: every unit counted once`
    : `${many(report.jobsAll, "job")}: ${[...counts].map(([word, n]) => `${count(n)} ${word}`).join(", ")}`;
  return { tone, text, troubled };
}
