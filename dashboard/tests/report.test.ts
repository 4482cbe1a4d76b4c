import assert from "node:assert/strict";
import { test } from "node:test";
import { Report } from "../src/data";
import { bytes, clock, count, cut, day, duration, LOCAL, moment, percent, short, US, UTC } from "../src/format";
import { notes, sentAgain, utilisation } from "../src/head";
import { certificateLines } from "../src/jobs";
import { BAD, filter } from "../src/marks";
import { computed } from "../src/nodes";
import { search } from "../src/search";
import { emptiness, extent, isolated } from "../src/series";
import { inkOn, luminance, type Rgb } from "../src/colours";
import { jobVerdict, summarise, worstFirst } from "../src/verdict";
import { statesAt, summary } from "../src/words";
import { Rows } from "../src/timeline/rows";
import { moved } from "../src/timeline/ruler";
import { ticks } from "../src/ticks";
import { topFor } from "../src/timeline/tooltip";
import type { JobMeta, Mark } from "../src/contract";
import { groupText } from "../src/timeline/bands";
import { fill, KILLED, makeFarm, FROM_US } from "./fixture";

const FARM = makeFarm({ nodes: 12, hours: 40, slots: 2, taskUs: 600e6 });

function open(change: (farm: typeof FARM) => void = () => undefined): Report {
  const farm = { meta: structuredClone(FARM.meta), blob: Buffer.from(FARM.blob) };
  change(farm);
  const bytes = new Uint8Array(farm.blob);
  return new Report(farm.meta, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

test("a killed node is up before, suspect, and lost from then on", () => {
  const report = open();
  const node = report.nodeIndex(KILLED.node);
  const word = (t: number) => report.held(node, t).word;
  assert.equal(word(KILLED.afterUs - 60e6), "up");
  assert.equal(word(KILLED.afterUs - 20e6), "suspect");
  assert.equal(word(KILLED.afterUs + 1e6), "lost");
  const held = report.held(node, KILLED.afterUs + 1e6);
  assert.deepEqual([held.since, held.until], [KILLED.afterUs, report.span]);
  assert.ok(statesAt(report, KILLED.afterUs + 1e6).get("lost")?.includes(node));
});

test("before it joined, a node was not gone: it had not joined yet", () => {
  const report = open();
  const joined = report.nodes[3].joined_us - FROM_US;
  assert.ok(joined > 1000);
  assert.equal(report.held(3, joined - 1000).word, "not joined yet");
  assert.notEqual(report.held(3, joined + 1000).word, "not joined yet");
});

test("the states of a window are those that touch it, the first one from its beginning on", () => {
  const report = open();
  const node = report.nodeIndex(KILLED.node);
  const words: string[] = [];
  report.eachState(node, KILLED.afterUs - 10e6, KILLED.afterUs + 10e6, (code) => words.push(report.word(code)));
  assert.deepEqual(words, ["suspect", "lost"]);
});

test("the legend has the states that were, and no others", () => {
  assert.ok(open().wordsSeen().includes("lost"));
  const quiet = open((farm) => {
    const { offset, length } = farm.meta.arrays["states/code"];
    farm.blob.fill(farm.meta.states.indexOf("up"), offset, offset + length);
  });
  assert.deepEqual(quiet.wordsSeen(), ["up"]);
});

test("damaged data are an error that says so, not a picture", () => {
  assert.throws(() => open((farm) => (farm.meta.format = "starfarm-report/9")), /starfarm-report\/9/);
  assert.throws(() => open((farm) => (farm.blob = farm.blob.subarray(0, 4096))), /cut or damaged/);
  assert.throws(() => open((farm) => delete farm.meta.arrays["states/at"]), /states\/at/);
  assert.throws(() => open((farm) => (farm.meta.arrays["states/at"].offset = 4)), /cut or damaged/);
  assert.throws(() => open((farm) => (farm.meta.arrays["grid/busy"].length -= 1)), /cut or damaged/);
});

test("a node, a job and a kind of mark are found, the exact one first", () => {
  const report = open();
  const texts = (query: string) => search(report, query).map(({ text }) => text);
  assert.equal(texts("LAB-007")[0], "lab-007");
  assert.equal(texts("lab-01").length, 3);
  assert.deepEqual(texts("mersenne"), ["job 1: mersenne"]);
  assert.deepEqual(texts("job 2"), ["job 2: sweep of seeds"]);
  assert.ok(texts("node lost").length > 0 && texts("node lost").every((text) => text.startsWith("node lost")));
  assert.deepEqual(texts("nothing of the kind"), []);
  assert.deepEqual(texts("  "), []);
});

test("marks are told apart by kind and by words", () => {
  const { marks } = open().meta;
  const lost = filter(marks, "node_lost", "");
  assert.ok(lost.length > 0 && lost.length < marks.length);
  assert.ok(filter(marks, "node_lost", "LAB-007").every(({ node }) => node === KILLED.node));
  assert.equal(filter(marks, "node_lost", "LAB-007").length, 1);
  const bad = filter(marks, BAD, "");
  assert.ok(bad.length >= lost.length && bad.every(({ kind }) => kind === "node_lost"));
  assert.equal(filter(marks, "", "job 1").filter(({ job }) => job === 1).length, 2);
});

test("rows are ordered by name as people count, by time lost, by load", () => {
  const report = open((farm) => (farm.meta.nodes[0].node = "lab-13"));
  const rows = new Rows(report);
  const names = () => rows.nodes.map((node) => report.nodes[node].node);
  assert.equal(names()[names().length - 1], "lab-13");
  rows.sort("lost");
  assert.equal(names()[0], KILLED.node);
  rows.sort("busy");
  const loads = rows.nodes.map((node) => report.nodes[node].utilisation);
  assert.deepEqual(loads, [...loads].sort((a, b) => b - a));
  assert.ok(rows.nodes.every((node, row) => rows.place[node] === row));
});

test("rows fit the room, or are as tall as was asked, and those in sight cover it", () => {
  const rows = new Rows(open());
  assert.equal(rows.fit(120, 0), 10);
  assert.equal(rows.fit(120, 40), 40);
  rows.height = rows.fit(120, 40);
  assert.deepEqual(rows.inSight(100, 120), [2, 6]);
  rows.grow(2);
  assert.equal(rows.fit(120, 0), 80);
});

test("a certificate is read from its verdict on, numbers in groups, hashes as they are", () => {
  const hash = "01".repeat(32);
  const lines = certificateLines({ hits_hash: hash, done: "1234567", extra: "x", epochs: [1, 2], spec: hash, job: 1, verdict: "complete" });
  assert.deepEqual(lines, [["verdict", "complete"], ["done", "1\u202f234\u202f567"], ["epochs", "1, 2"], ["spec", hash], ["hits_hash", hash], ["extra", "x"]]);
});

test("marks that stand together are told by the worst of them", () => {
  const mark = (kind: string): Mark => ({ at_us: 0, kind, node: null, job: null, text: "" });
  assert.equal(groupText([mark("node_back")]), "node back");
  assert.equal(groupText([mark("node_joined"), mark("node_joined"), mark("node_lost"), mark("job_submitted")]), "node lost +3");
  assert.equal(groupText([mark("node_lost"), mark("node_lost")]), "2 × node lost");
});

test("a farm's utilisation is that of all slot time, whichever node had it", () => {
  const report = open();
  report.nodes.forEach((node, i) => Object.assign(node, i === 0 ? { busy_us: 900e6, slots_us: 1000e6 } : { busy_us: 0, slots_us: 100e6 }));
  assert.equal(utilisation(report), 900 / 2100);
  report.nodes.forEach((node) => (node.slots_us = node.busy_us = 0));
  assert.equal(percent(utilisation(report)), "–");
});

test("a node that computed to its end while it drained was not the busier before", () => {
  const node = { ...open().nodes[0], up_us: 400, idle_us: { no_job: 100 }, suspect_us: 0, draining_us: 100, slots_us: 1000, busy_us: 400, utilisation: 0.4 };
  // Half of 400 us with tasks on two slots, and of these three quarters before it drained.
  assert.deepEqual(computed(node), { busy: 150, waits: 150 });
  assert.deepEqual(computed({ ...node, utilisation: 1 }), { busy: 300, waits: 0 });
  assert.deepEqual(computed({ ...node, up_us: 100, draining_us: 0, utilisation: 0 }), { busy: 0, waits: 0 });
});

test("the parts of every node's time are the whole that the log tells of", () => {
  for (const node of open().nodes) {
    const idle = Object.values(node.idle_us).reduce((sum, us) => sum + us, 0);
    const { busy, waits } = computed(node);
    const all = busy + waits + idle + node.suspect_us + node.draining_us + node.quarantined_us + node.lost_us;
    assert.ok(Math.abs(all - node.known_us) < 1, `${node.node}: ${all} of ${node.known_us}`);
  }
});

test("a log that was closed at its end has no banner, only its notes", () => {
  assert.deepEqual(notes({ complete: true, notes: [] }), []);
  assert.deepEqual(notes({ complete: true, notes: ["epoch 1 was cut"] }), ["epoch 1 was cut"]);
  const cut = notes({ complete: false, notes: ["segment 7 was cut"] });
  assert.match(cut[0], /lacks a part/);
  assert.deepEqual(cut.slice(1), ["segment 7 was cut"]);
});

test("a tooltip is below the pointer, above it near the screen's end, and never above the screen", () => {
  assert.equal(topFor(60, 80, 200, 900), 76);
  assert.equal(topFor(60, 80, 790, 900), -30);
  assert.equal(topFor(60, 80, 10, 140), 76);
});

test("an arrow key moves one end of what is measured, and no further than the run", () => {
  assert.deepEqual(moved([100, 100], "to", 30, 1000), [100, 130]);
  assert.deepEqual(moved([100, 130], "from", -150, 1000), [0, 130]);
  assert.deepEqual(moved([100, 990], "to", 30, 1000), [100, 1000]);
});

test("the verdict counts every job once", () => {
  const text = (change?: (farm: typeof FARM) => void) => summarise(open(change)).text;
  assert.equal(text(), "All 2 jobs are complete: every unit counted once");
  assert.equal(text((farm) => void Object.assign(farm.meta.jobs[1], { certificate: null, ended_us: null })), "2 jobs: 1 not ended, 1 complete");
  assert.equal(text((farm) => (farm.meta.jobs = [])), "No jobs");
  const many = open((farm) => {
    farm.meta.jobs.push({ ...farm.meta.jobs[1], job: 0, certificate: null });
    farm.meta.jobs_left_out = 40;
  });
  assert.deepEqual([summarise(many).text, many.jobsAll], ["42 jobs: 2 complete, 40 left out here", 42]);
});

test("the worst job is told first, with what is wrong in figures", () => {
  const report = open((farm) => {
    const [first, second] = farm.meta.jobs;
    farm.meta.jobs.push({ ...first, job: 3, name: "", units: "1000", done: "999", failed: "1", certificate: { ...first.certificate, verdict: "complete_with_failures" } });
    second.certificate = { ...second.certificate, conflicts: 2 };
    Object.assign(first, { units: "100000", done: "99999", certificate: null, ended_us: null });
  });
  report.jobs.push({ ...report.jobs[0], job: 0 });
  assert.deepEqual(worstFirst(report), [1, 2, 0, 3]);
  const { tone, troubled } = summarise(report);
  assert.equal(tone, "failed");
  assert.deepEqual(troubled.map(({ index, tone, text }) => [index, tone, text.replaceAll("\u202f", " ")]), [
    [1, "failed", "Job 2 sweep of seeds is complete: 2 conflicts: nodes contradict each other"],
    [2, "failed", "Job 3 is complete with failures: 1 of 1 000 units failed"],
    [0, "running", "Job 1 mersenne has not ended: 99.9 % of 100 000 units done when the log ends"],
  ]);
});

test("one job is told in one sentence", () => {
  const only = (change: (job: JobMeta) => void) => summarise(open((farm) => (farm.meta.jobs.pop(), change(farm.meta.jobs[0]))));
  const well = only((job) => (job.units = "1000"));
  assert.deepEqual([well.tone, well.text.replaceAll("\u202f", " ")], ["done", "Job 1 mersenne is complete: each of its 1 000 units counted once"]);
  for (const verdict of ["disputed", "constructor"]) {
    const odd = only((job) => (job.certificate = { verdict }));
    assert.deepEqual(odd, { tone: "failed", text: `Job 1 mersenne is ${verdict}`, troubled: [] });
  }
  const ended = only((job) => Object.assign(job, { units: "10", abandoned: "4", certificate: { verdict: "ended_early" } }));
  assert.deepEqual(ended, { tone: "cancelled", text: "Job 1 mersenne ended early: 4 of 10 units abandoned", troubled: [] });
});

test("a job without a certificate that failed in part, or whose nodes contradict each other, has failed already", () => {
  const job = { ...open().jobs[0], certificate: null, ended_us: null };
  assert.equal(jobVerdict(job, []).tone, "running");
  assert.equal(jobVerdict({ ...job, failed: "1" }, []).tone, "failed");
  const conflict = (job: number): Mark => ({ at_us: 0, kind: "conflict", node: null, job, text: "" });
  assert.equal(jobVerdict(job, [conflict(2)]).tone, "running");
  assert.equal(jobVerdict(job, [conflict(1)]).tone, "failed");
  const ended = jobVerdict({ ...job, ended_us: 1 }, []);
  assert.deepEqual([ended.word, ended.tone], ["without a certificate", "cancelled"]);
  // A word of a later version is no reason to be green.
  assert.equal(jobVerdict({ ...job, certificate: { verdict: "disputed" } }, []).tone, "failed");
});

test("tasks sent again are those that the farm counted, whatever came back from nodes", () => {
  const { nodes, totals } = open();
  const known = nodes.reduce((sum, node) => sum + node.resent, 0);
  assert.ok(known > 0);
  assert.equal(sentAgain({ nodes, totals }), known);
  assert.equal(sentAgain({ nodes, totals: { ...totals, resent: 0 } }), 0);
  assert.equal(sentAgain({ nodes, totals: { ...totals, resent: known + 5 } }), known + 5);
});

test("a chart in which nothing happened is told from one of which nothing is known", () => {
  const of = (...values: number[]) => Float32Array.from(values);
  assert.equal(emptiness([of(NaN, NaN), of(NaN)]), "The log tells nothing of it.");
  assert.equal(emptiness([of(NaN, 0), of(0)]), "None in the whole run.");
  assert.equal(emptiness([of(NaN, NaN), of(0, 0)]), "The log tells nothing of it.", "none of one line says nothing of the other");
  assert.equal(emptiness([of(0, 0), of(0, 0.5)]), null);
  assert.equal(emptiness([of(NaN, NaN), of(0, 0.5)]), null);
});

test("a mean counts of each bin only what is known of it", () => {
  const of = (...values: number[]) => Float32Array.from(values);
  assert.deepEqual(extent(of(9, 1, NaN, 5, 9), null, 1, 4), { low: 1, mean: 3, high: 5 });
  assert.deepEqual(extent(of(9, 1, NaN, 5, 9), of(1, 1, 0, 0.25, 1), 1, 4), { low: 1, mean: 1.8, high: 5 });
  assert.equal(extent(of(9, NaN), of(1, 1), 1, 2), null);
  const report = open();
  assert.equal(report.told, null);
  report.meta.arrays["series/told"] = report.meta.arrays["series/gq"];
  assert.deepEqual(report.told, report.series("gq"));
});

test("a run between two gaps that no line would reach is found", () => {
  const of = (...values: number[]) => Float32Array.from(values);
  assert.deepEqual(isolated(of(5, NaN, 1, 2, NaN, 0, NaN, 7)), [0, 5, 7]);
  assert.equal(isolated(of(NaN, 1, 2, 3, NaN)), null);
});

test("times that no calendar has are told as such", () => {
  const absurd = 2 ** 64;
  for (const us of [absurd, -absurd, Infinity, NaN]) {
    for (const zone of [UTC, LOCAL]) {
      assert.deepEqual([moment(us, zone), day(us, zone), clock(us, US.min, zone)], Array(3).fill("no such date"));
    }
  }
  assert.equal(moment(8e18, UTC), "255479-11-28 14:13:20");
  const years = ticks(0, absurd, 8, LOCAL);
  assert.ok(years.length >= 4 && years.every(({ at }) => at <= absurd) && years[years.length - 1].at > absurd / 2);
  assert.equal(years[0].text, "1970-01-01");
});

test("words on bars of every colour have a contrast of 4.5 at least", () => {
  for (let n = 0; n < 4096; n++) {
    const rgb: Rgb = [(n >> 8) * 17, ((n >> 4) & 15) * 17, (n & 15) * 17];
    const [bar, ink] = [luminance(rgb), inkOn(rgb) === "#000" ? 0 : 1];
    const contrast = (Math.max(bar, ink) + 0.05) / (Math.min(bar, ink) + 0.05);
    assert.ok(contrast >= 4.5, `${rgb}: ${contrast}`);
  }
});

test("the head counts all nodes, though only some have rows", () => {
  const few = open();
  assert.deepEqual([few.totals.nodes, few.totals.slots], [12, 24]);
  const many = open((farm) => (farm.meta.totals = { nodes: 5000, slots: 10_000, results: 7 }));
  assert.deepEqual(many.totals, { nodes: 5000, slots: 10_000, results: 7 });
  assert.match(summary(many), /^States of 5\u202f000 nodes/);
});

test("text of a log cannot end the element that holds it", () => {
  const meta = structuredClone(FARM.meta);
  meta.jobs[0].name = "</script><!--<script>$&";
  const page = fill("[<!--starfarm:meta-->][<!--starfarm:data-->]", meta, Buffer.from("x"));
  assert.ok(!page.includes("<"));
  assert.equal(JSON.parse(page.slice(1, page.indexOf("][") )).jobs[0].name, meta.jobs[0].name);
});

test("numbers and times as people write them", () => {
  assert.deepEqual([0, 7, 4200, 12.34 * US.s, 65 * US.s, 3600e6, 7 * US.day + 9 * US.h].map(duration), ["0 s", "7 µs", "4.20 ms", "12.3 s", "1 min 5 s", "1 h", "7 d 9 h"]);
  assert.equal(duration(US.day - 1), "24 h");
  assert.equal(count("1234567890123456789012").replaceAll("\u202f", " "), "1 234 567 890 123 456 789 012");
  assert.deepEqual([0.5, 999, 1234, 56_789_000, 2e30, NaN].map(short), ["0.5", "999", "1.23 k", "56.8 M", "2.00e+30", "–"]);
  assert.deepEqual([0, 0.5, 0.9996, 0.123].map((share) => percent(share).replaceAll("\u202f", " ")), ["0 %", "50.0 %", "100 %", "12.3 %"]);
  assert.deepEqual([cut("node-0123456789", 15), cut("node-0123456789", 10)], ["node-0123456789", "nod…456789"]);
  assert.equal(bytes(16 * 2 ** 30), "16.0 GiB");
  assert.equal(moment(FROM_US + 1_234_567, UTC, 1000), "2026-03-02 06:00:01.234");
});
