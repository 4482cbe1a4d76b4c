import assert from "node:assert/strict";
import { test } from "node:test";
import { columns, cover, level, sumsTasks, type Scene } from "../src/lod";
import { room, ticks } from "../src/ticks";
import { US, UTC, type Zone } from "../src/format";
import { View } from "../src/view";

const WEEK: Scene = { usPerPx: (177 * US.h) / 1100, widthPx: 1100, binUs: (177 * US.h) / 1024, taskUs: 60 * US.s, slots: 300, share: 1, allFit: false };

test("from weeks to milliseconds: bins, then states, then tasks, never back", () => {
  const order = ["bins", "states", "tasks"];
  const seen: string[] = [];
  for (let usPerPx = WEEK.usPerPx; usPerPx > 1; usPerPx /= 1.3) seen.push(level({ ...WEEK, usPerPx, slots: 30, share: usPerPx / WEEK.usPerPx }));
  assert.equal(seen[0], "bins");
  assert.equal(seen[seen.length - 1], "tasks");
  assert.ok(seen.includes("states"));
  assert.deepEqual([...seen].sort((a, b) => order.indexOf(a) - order.indexOf(b)), seen);
});

test("no frame draws or adds up more tasks than it has time for", () => {
  const near = { ...WEEK, usPerPx: 10 * US.s, share: 0.02 };
  assert.equal(level({ ...near, slots: 30 }), "tasks");
  assert.equal(level({ ...near, slots: 3000 }), "states");
  assert.ok(!sumsTasks(WEEK));
  assert.ok(sumsTasks({ ...WEEK, usPerPx: WEEK.usPerPx / 10 }));
});

test("long tasks do not push nodes out of sight while the whole run is shown", () => {
  const long = { ...WEEK, taskUs: 5 * US.h, slots: 30 };
  assert.equal(level(long), "bins");
  assert.equal(level({ ...long, allFit: true }), "tasks");
  assert.equal(level({ ...long, share: 0.1, usPerPx: WEEK.usPerPx / 10 }), "tasks");
});

test("a state shorter than a pixel still has one", () => {
  assert.deepEqual(columns(105, 106, 100, 10, 50), [0, 1]);
  assert.deepEqual(columns(100, 130, 100, 10, 50), [0, 3]);
  assert.deepEqual(columns(0, 10_000, 100, 10, 50), [0, 50]);
  const [first, end] = columns(0, 50, 100, 10, 50);
  assert.equal(first, end);
});

test("columns add up to the time that was covered", () => {
  const sums = new Float32Array(10);
  cover(sums, 15, 47, 0, 10, 1);
  assert.deepEqual([...sums].map((n) => Math.round(n * 100) / 100), [0, 0.5, 1, 1, 0.7, 0, 0, 0, 0, 0]);
  sums.fill(0);
  cover(sums, 92, 500, 0, 10, 0.5);
  assert.equal(Math.round(sums[9] * 100), 40);
  sums.fill(0);
  cover(sums, -50, -5, 0, 10, 1);
  assert.ok(sums.every((n) => n === 0));
});

const MARCH_2 = Date.UTC(2026, 2, 2) * 1000;

test("ticks stand on round times at every zoom, and there are enough of them and not too many", () => {
  for (let span = 3 * 7 * US.day; span > 500; span /= 1.7) {
    const from = MARCH_2 + 3_601_234_567;
    const found = ticks(from, from + span, 12, UTC);
    assert.ok(found.length >= 3 && found.length <= 13, `${found.length} ticks in ${span} us`);
    assert.ok(found.every(({ at }) => at >= from && at <= from + span));
    assert.equal(new Set(found.map(({ text, at }) => `${text} ${Math.floor(at / US.day)}`)).size, found.length, `${span}: ${found.map(({ text }) => text)}`);
  }
  assert.deepEqual(ticks(MARCH_2, MARCH_2 + US.day, 4, UTC).map(({ text }) => text), ["Mon 2 Mar", "06:00", "12:00", "18:00", "Tue 3 Mar"]);
});

test("texts of microseconds have room", () => {
  assert.equal(room(1154, US.day), 12);
  assert.equal(room(1154, 4 * US.ms), 9);
  assert.equal(room(50, US.day), 2);
});

test("days begin at midnight of the clock in use, before and after it is changed", () => {
  const change = Date.UTC(2026, 2, 29, 1) * 1000;
  const berlin: Zone = { label: "local time", offset: (us) => (us < change ? US.h : 2 * US.h) };
  const found = ticks(change - US.day, change + 2 * US.day, 4, berlin);
  const local = found.filter(({ major }) => major).map(({ at }) => (at + berlin.offset(at)) % US.day);
  assert.ok(local.length >= 2);
  assert.ok(local.every((rest) => rest === 0), String(local));
});

function quietView(span: number): View {
  return new View(span, () => undefined);
}

test("zooming keeps the time under the pointer where it is, and never leaves the run", () => {
  const view = quietView(1e9);
  view.zoom(0.1, 3e8);
  assert.ok(Math.abs((3e8 - view.from) / (view.to - view.from) - 0.3) < 1e-9);
  view.zoom(0.1, view.from);
  view.pan(-1000);
  assert.equal(view.from, 0);
  view.zoom(1e9, view.from);
  assert.deepEqual([view.from, view.to], [0, 1e9]);
  view.zoom(1e-12, 5e8);
  assert.ok(view.to - view.from > 0);
});

test("what changes within a frame is told once, together", () => {
  const frames: (() => void)[] = [];
  const view = new View(1e9, (run) => frames.push(run));
  const told: string[][] = [];
  view.listen((changes) => told.push([...changes]));
  view.zoom(0.5, 0);
  view.zoom(0.5, 0);
  view.point(5);
  frames.forEach((run) => run());
  assert.deepEqual(told, [["window", "cursor"]]);
  view.point(6);
  frames[frames.length - 1]();
  assert.deepEqual(told[1], ["cursor"]);
});
