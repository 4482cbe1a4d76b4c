// How long the first picture of a page takes, and how long a zoom: `measure.mjs FILE`. Prints, and judges nothing: the
// machine decides about times.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { launch } from "./chromium";

const LOADS = 5;
const ZOOMS = 30;

const said = (times: number[]) => {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(0);
  return `median ${at(0.5)} ms, max ${sorted[sorted.length - 1].toFixed(0)} ms`;
};

const mark = (page: Page, name: string) => page.evaluate((of) => performance.getEntriesByName(of)[0].startTime, name);

/** Turns the wheel by `delta` over the timeline; how long until the frame that shows it was handed over. */
function zoom(page: Page, delta: number, x: number, y: number): Promise<number> {
  return page.evaluate(([by, px, py]) => new Promise<number>((done) => {
    const canvas = document.querySelector("canvas.rows") as HTMLCanvasElement;
    const box = canvas.getBoundingClientRect();
    const start = performance.now();
    const at = { clientX: box.left + px, clientY: box.top + py, bubbles: true, cancelable: true };
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: by, ...at }));
    requestAnimationFrame(() => {
      // Tasks run after the frame that was being made.
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => done(performance.now() - start);
      port2.postMessage(0);
    });
  }), [delta, x, y]);
}

const file = process.argv[2] ?? "dist/pages/big.html";
const url = pathToFileURL(resolve(file)).href;
const browser = await launch();
try {
  const [first, complete]: number[][] = [[], []];
  let page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  for (let i = 0; i < LOADS; i++) {
    await page.close();
    page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
    await page.goto(url);
    await page.waitForFunction(() => performance.getEntriesByName("starfarm-complete").length > 0);
    first.push(await mark(page, "starfarm-first-picture"));
    complete.push(await mark(page, "starfarm-complete"));
  }
  console.log(`${file}`);
  console.log(`first picture over ${LOADS} loads: ${said(first)}; all sections: ${said(complete)}`);
  const [times, levels]: [number[], Record<string, number[]>] = [[], {}];
  for (let i = 0; i < ZOOMS; i++) {
    // In to the bars of tasks, halfway out, and in elsewhere.
    const inward = i % 15 < 11;
    const took = await zoom(page, inward ? -240 : 240, 300 + ((i * 97) % 700), 150 + ((i * 53) % 400));
    times.push(took);
    const level = (await page.locator("canvas.rows").getAttribute("data-level")) ?? "";
    (levels[level] ??= []).push(took);
    await page.waitForTimeout(120);
  }
  console.log(`zoom over ${ZOOMS} steps: ${said(times)}`);
  for (const [level, of] of Object.entries(levels)) console.log(`  level ${level}, ${of.length} steps: ${said(of)}`);
} finally {
  await browser.close();
}
