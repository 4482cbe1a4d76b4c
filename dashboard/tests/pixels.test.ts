import assert from "node:assert/strict";
import { test } from "node:test";
import { classOf, CLASSES, mix, type Colours } from "../src/colours";
import { Report } from "../src/data";
import type { Level } from "../src/lod";
import { unpack, type NodeTasks } from "../src/tasks";
import { Pixels } from "../src/timeline/pixels";
import { KILLED, makeFarm } from "./fixture";

const FARM = makeFarm({ nodes: 9, hours: 40, slots: 2, taskUs: 600e6 });
const BYTES = new Uint8Array(FARM.blob);
const REPORT = new Report(FARM.meta, BYTES.buffer.slice(BYTES.byteOffset, BYTES.byteOffset + BYTES.byteLength));
const NODE = REPORT.nodeIndex(KILLED.node);

/** Colours whose pixels say which state and load they are of. */
const PLAIN = {
  severity: Uint8Array.from(REPORT.meta.states, (word) => CLASSES.indexOf(classOf(word))),
  pixels: Uint32Array.from({ length: REPORT.meta.states.length * 256 }, (_, i) => i),
} as unknown as Colours;

function row(node: number, level: Level, from: number, to: number, width: number, tasks: NodeTasks | null = null) {
  const pixels = new Pixels(REPORT, PLAIN);
  pixels.aim(from, (to - from) / width, width);
  const out = new Uint32Array(width);
  pixels.row(node, level, tasks, out, 0);
  return [...out].map((pixel) => ({ word: REPORT.word(pixel >> 8), busy: pixel & 255 }));
}

function tasksOf(node: number): NodeTasks {
  const { taskBytes, taskOffset, meta, nodes } = REPORT;
  const steps = unpack(taskBytes, taskOffset[node], taskOffset[node + 1], meta.grain_us, nodes[node].slots);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

test("from afar a killed node is busy until it is lost, in the right column", () => {
  const pixels = row(NODE, "bins", 0, REPORT.span, 400);
  const killed = Math.floor((KILLED.afterUs / REPORT.span) * 400);
  assert.equal(pixels[killed - 2].word, "up");
  assert.ok(pixels[killed - 3].busy > 200);
  assert.ok(pixels.slice(killed + 1).every(({ word, busy }) => word === "lost" && busy === 0));
});

/** A node that was lost and came back, and when. */
function lostAndBack(): { node: number; lost: number; back: number } {
  const { marks, from_us } = REPORT.meta;
  const back = marks.find(({ kind }) => kind === "node_back");
  const lost = marks.filter(({ kind, node, at_us }) => kind === "node_lost" && node === back?.node && at_us < back.at_us).pop();
  assert.ok(back && lost);
  return { node: REPORT.nodeIndex(back.node), lost: lost.at_us - from_us, back: back.at_us - from_us };
}

test("trouble is seen however many bins or changes share a pixel", () => {
  const { node, lost, back } = lostAndBack();
  assert.equal(row(node, "bins", 0, REPORT.span, 1)[0].word, "lost");
  const [from, to] = [lost - 1800e6, back + 1800e6];
  assert.deepEqual(row(node, "states", from, to, 1).map(({ word }) => word), ["lost"]);
  const ends = row(node, "states", from, to, 200).map(({ word }) => word);
  assert.deepEqual([ends[0], ends[199]], ["up", "up"]);
});

test("one task on a node of two slots is half its load", () => {
  const tasks = { ...tasksOf(NODE), count: 1, begun: Float64Array.of(100e6), ended: Float64Array.of(900e6), lane: Uint8Array.of(0) };
  const one = { ...tasks, results: Uint32Array.of(1), tag: Uint32Array.of(0), lanes: 1, longest: 800e6, covered: 1 };
  const busy = row(NODE, "states", 0, 1000e6, 10, one).map((pixel) => pixel.busy);
  assert.deepEqual(busy, [0, 127, 127, 127, 127, 127, 127, 127, 127, 0]);
});

test("from near, each change is in its own column, and a short one is not lost", () => {
  const pixels = row(NODE, "states", KILLED.afterUs - 60e6, KILLED.afterUs + 20e6, 8);
  assert.deepEqual(pixels.map(({ word }) => word), ["up", "up", "suspect", "suspect", "suspect", "suspect", "lost", "lost"]);
  const wide = row(NODE, "states", KILLED.afterUs - 3600e6, KILLED.afterUs, 4).map(({ word }) => word);
  assert.deepEqual(wide, ["up", "up", "up", "suspect"]);
});

test("the load that tasks add up to is what the grid says", () => {
  const node = 2;
  const [from, to] = [REPORT.span * 0.1, REPORT.span * 0.5];
  const mean = (tasks: NodeTasks | null) => {
    const pixels = row(node, "states", from, to, 300, tasks);
    return pixels.reduce((sum, { busy }) => sum + busy, 0) / pixels.length;
  };
  const [byTasks, byGrid] = [mean(tasksOf(node)), mean(null)];
  assert.ok(byGrid > 20);
  assert.ok(Math.abs(byTasks - byGrid) < 4, `${byTasks} by tasks, ${byGrid} by the grid`);
});

test("every state has a class, and trouble wins over idleness", () => {
  assert.deepEqual(["up", "idle:no_job", "lost", "gone", "what is this"].map(classOf), ["busy", "idle", "lost", "gone", "unknown"]);
  assert.ok(CLASSES.indexOf("lost") > CLASSES.indexOf("suspect") && CLASSES.indexOf("suspect") > CLASSES.indexOf("idle"));
  assert.deepEqual(mix([0, 0, 0], [255, 100, 0], 0.5), [128, 50, 0]);
});
