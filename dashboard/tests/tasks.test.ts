import assert from "node:assert/strict";
import { test } from "node:test";
import { runAt, touching, unpack, Varints, type NodeTasks } from "../src/tasks";
import { Bytes } from "./fixture";

type Run = [begun: number, ended: number];

function packed(runs: Run[], grain = 1): Uint8Array {
  const bytes = new Bytes();
  let before = 0;
  for (const [begun, ended] of runs) {
    bytes.signed(ended / grain - before);
    before = ended / grain;
    bytes.varint((ended - begun) / grain);
    bytes.varint(1);
    bytes.varint(8);
  }
  return bytes.all;
}

function unpacked(runs: Run[], slots: number, grain = 1): NodeTasks {
  const bytes = packed(runs, grain);
  const steps = unpack(bytes, 0, bytes.length, grain, slots);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

test("a varint is read as it was written, beyond 32 bits and below zero too", () => {
  const bytes = new Bytes();
  const numbers = [0, 1, 127, 128, 300, 2 ** 31, 2 ** 32 + 5, 2 ** 50 + 3];
  numbers.forEach((n) => bytes.varint(n));
  const signed = [0, -1, 1, -64, 64, -(2 ** 40), 2 ** 40];
  signed.forEach((n) => bytes.signed(n));
  const varints = new Varints(bytes.all, 0, bytes.length);
  assert.deepEqual(numbers.map(() => varints.next()), numbers);
  assert.deepEqual(signed.map(() => varints.signed()), signed);
});

test("the bytes that the replay promises: seven bits each, the low ones first", () => {
  const varints = new Varints(Uint8Array.of(0xe5, 0x8e, 0x26, 0x03), 0, 4);
  assert.equal(varints.next(), 624_485);
  assert.equal(varints.signed(), -2);
});

test("what is cut in the middle of a number ends, and is no number", () => {
  assert.equal(new Varints(Uint8Array.of(0x80, 0x80), 0, 2).next(), 0);
  const whole = packed([[0, 10], [12, 20]]);
  const steps = unpack(whole, 0, whole.length - 1, 1, 1);
  let step = steps.next();
  while (!step.done) step = steps.next();
  assert.equal(step.value.count, 1);
});

test("runs come out in the order of their ends, in microseconds, whatever order results came in", () => {
  const tasks = unpacked([[4000, 9000], [1000, 5000], [6000, 12_000]], 3, 1000);
  assert.deepEqual([...tasks.ended], [5000, 9000, 12_000]);
  assert.deepEqual([...tasks.begun], [1000, 4000, 6000]);
  assert.equal(tasks.longest, 6000);
});

test("runs of a lane never overlap, and no more lanes are used than runs overlap", () => {
  const runs: Run[] = [[0, 10], [2, 6], [6, 9], [10, 14], [9, 30], [14, 15], [11, 29], [30, 31]];
  const tasks = unpacked(runs, 8);
  for (let i = 0; i < tasks.count; i++) {
    for (let j = 0; j < i; j++) {
      const apart = tasks.ended[j] <= tasks.begun[i] || tasks.ended[i] <= tasks.begun[j];
      assert.ok(apart || tasks.lane[i] !== tasks.lane[j], `${i} and ${j} share lane ${tasks.lane[i]}`);
    }
  }
  const overlaps = runs.map(([t]) => runs.filter(([a, b]) => a <= t && t < b).length);
  assert.equal(tasks.lanes, Math.max(...overlaps));
});

test("more runs at a time than slots share the last lane", () => {
  const tasks = unpacked([[0, 10], [1, 10], [2, 10], [3, 10]], 2);
  assert.equal(tasks.lanes, 2);
  assert.deepEqual([...tasks.lane].sort(), [0, 1, 1, 1]);
});

test("a run is found by a moment within it, however long ago it began", () => {
  const tasks = unpacked([[10, 20], [21, 22], [0, 90], [40, 50]], 2);
  const at = (t: number) => {
    const i = runAt(tasks, t, null);
    return i < 0 ? null : tasks.ended[i];
  };
  assert.deepEqual([at(15), at(30), at(91)], [20, 90, null]);
  const [first, end] = touching(tasks, 60, 70);
  assert.ok([...tasks.ended.subarray(first, end)].includes(90));
});
