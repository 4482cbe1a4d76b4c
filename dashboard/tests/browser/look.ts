// Opens a report in Chromium and looks whether what must be there can be found:
// `look.mjs FILE FOLDER [NODE MICROSECONDS]`, where NODE was killed at that time (us since 1970). Without these two it
// takes the first node that the report's marks say was lost. Screenshots go to FOLDER.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import type { Meta } from "../../src/contract";
import { fill, makeFarm } from "../fixture";
import { launch } from "./chromium";

/** A node that is killed is found to be lost so much later at most: its silence is noticed, then waited for. */
const NOTICED_US = 180e6;

/** CSS pixels. */
const FINGER_PX = 44;

interface Opened {
  page: Page;
  problems: string[];
}

async function open(browser: Browser, url: string, options: Parameters<Browser["newPage"]>[0]): Promise<Opened> {
  const page = await browser.newPage({ timezoneId: "UTC", ...options });
  const problems: string[] = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => request.url() !== url && !request.url().startsWith("data:") && problems.push(`request for ${request.url()}`));
  await page.goto(url);
  await page.waitForFunction(() => performance.getEntriesByName("starfarm-complete").length > 0);
  return { page, problems };
}

const metaOf = (page: Page): Promise<Meta> =>
  page.evaluate(() => JSON.parse(document.getElementById("starfarm-meta")?.textContent ?? "null"));

/** `2026-03-02 11:00:00` */
const clock = (us: number) => new Date(us / 1000).toISOString().slice(0, 19).replace("T", " ");

async function cells(page: Page, summary: string): Promise<string[][]> {
  const rows = page.locator("details", { has: page.locator(`summary:text-is("${summary}")`) }).locator("tbody tr");
  // What opens is filled a moment later.
  await rows.first().waitFor();
  return rows.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent ?? "")));
}

async function findsTheLostNode(page: Page, node: string, at: number, begin: number): Promise<void> {
  await page.keyboard.press("/");
  await page.keyboard.type(node);
  await page.keyboard.press("Enter");
  assert.match((await page.locator(".find output").textContent()) ?? "", new RegExp(`^1 of \\d+: ${node}$`));
  await page.locator(".said", { hasText: `${node} · ` }).waitFor();

  await page.getByText("States of the picked node as a table").click();
  const states = await cells(page, "States of the picked node as a table");
  const lost = states.filter(([, state]) => state === "lost").map(([from]) => Date.parse(`${from.replace(" ", "T")}Z`) * 1000);
  const near = lost.find((from) => from >= at - 1000 && from - at <= NOTICED_US);
  assert.ok(near !== undefined, `${node} was killed at ${clock(at)}, but its states are ${JSON.stringify(states)}`);

  await page.getByText("The farm at a moment").click();
  const farm = async (when: number) => {
    await page.getByLabel("Time", { exact: true }).fill(clock(when));
    await page.getByRole("button", { name: "show", exact: true }).click();
    return (await cells(page, "The farm at a moment")).find(([, , names]) => names.split(", ").includes(node))?.[0];
  };
  assert.equal(await farm(near + 1e6), "lost");
  assert.notEqual(await farm(Math.max(at - 60e6, begin + 1e6)), "lost");
}

/** A run of days is shown in bins at first; one of seconds shows each task at once. */
async function zooms(page: Page, isLong: boolean): Promise<void> {
  const rows = page.locator("canvas.rows");
  const width = () => page.locator(".overview .window").evaluate((element) => element.getBoundingClientRect().width);
  const level = () => rows.getAttribute("data-level");
  const all = await width();
  if (isLong) assert.equal(await level(), "bins");
  const box = await rows.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  for (let i = 0; i < 40 && ((await level()) !== "tasks" || (await width()) >= all / 2); i++) {
    await page.mouse.wheel(0, -240);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  assert.equal(await level(), "tasks");
  assert.ok((await width()) < all / 2);
  await rows.focus();
  await page.keyboard.press("0");
  await page.waitForFunction((wide) => document.querySelector(".overview .window")?.getBoundingClientRect().width === wide, all);
  await page.keyboard.press("+");
  await page.waitForFunction((wide) => (document.querySelector(".overview .window")?.getBoundingClientRect().width ?? wide) < wide * 0.6, all);
}

async function measures(page: Page): Promise<void> {
  await page.evaluate(() => scrollTo(0, 0));
  const box = await page.locator("canvas.rows").boundingBox();
  assert.ok(box);
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + box.width * 0.3, box.y + 90);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 90, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  assert.match((await page.locator(".ruler span").textContent()) ?? "", /^\d.* (d|h|min|s|ms|µs)/);
  await page.locator("canvas.rows").focus();
  await page.keyboard.press("Escape");
  assert.ok(await page.locator(".ruler").isHidden());
}

/** Without a mouse: the ruler begins at the middle, and the arrow keys move its ends. */
async function measuresWithKeys(page: Page): Promise<void> {
  const rows = page.locator("canvas.rows");
  const said = page.locator(".said");
  await page.mouse.move(0, 0);
  await rows.focus();
  await rows.press("r");
  for (let i = 0; i < 5; i++) await rows.press("ArrowRight");
  const [five, words] = [await page.locator(".ruler").boundingBox(), await said.textContent()];
  await rows.press("Shift+ArrowLeft");
  const six = await page.locator(".ruler").boundingBox();
  assert.ok(five && six && Math.abs(five.width - 40) <= 2 && Math.abs(six.width - 48) <= 2, JSON.stringify([five, six]));
  assert.match(words ?? "", /^measured: \d/);
  assert.notEqual(await said.textContent(), words);
  await rows.press("Escape");
  assert.ok(await page.locator(".ruler").isHidden());
}

/** What is said of the lowest row is on the screen as a whole, however few rows there are. */
async function saysAllOfTheLowestRow(page: Page, folder: string): Promise<void> {
  await page.evaluate(() => scrollTo(0, 0));
  const box = await page.locator("canvas.rows").boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height - 3);
  await page.locator(".tooltip").waitFor();
  const cut = await page.locator(".tooltip").evaluate((tooltip) => {
    const { top, bottom } = tooltip.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) return "the screen";
    for (let around = tooltip.parentElement; around; around = around.parentElement) {
      const edge = around.getBoundingClientRect();
      if (getComputedStyle(around).overflowY !== "visible" && (top < edge.top || bottom > edge.bottom)) return around.className || around.tagName;
    }
    return "nothing";
  });
  await page.screenshot({ path: `${folder}/lowest.png` });
  assert.equal(cut, "nothing", "the tooltip of the lowest row is cut");
}

/** The charts below go with the timeline, and it goes with them. */
async function seriesGoAlong(page: Page): Promise<void> {
  const width = () => page.locator(".overview .window").evaluate((element) => element.getBoundingClientRect().width);
  const plot = page.locator(".plot .u-over").first();
  await plot.scrollIntoViewIfNeeded();
  await page.mouse.move(0, 0);
  const [all, box] = [await width(), await plot.boundingBox()];
  assert.ok(box);
  await page.mouse.move(box.x + box.width * 0.4, box.y + 30);
  await page.locator(".stage .cursor").waitFor({ state: "attached" });
  await page.waitForFunction(() => document.querySelector(".stage .cursor:not([hidden])"));
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction((wide) => (document.querySelector(".overview .window")?.getBoundingClientRect().width ?? wide) < wide * 0.3, all);
  await plot.dblclick();
  await page.waitForFunction((wide) => document.querySelector(".overview .window")?.getBoundingClientRect().width === wide, all);
}

/** The head names jobs with which something is wrong, and leads to them. */
async function leadsToTheTroubledJob(page: Page): Promise<void> {
  assert.match((await page.locator(".verdict strong").textContent()) ?? "", /^(Job|All|\d|No jobs)/);
  const link = page.locator(".verdict li button").first();
  if ((await link.count()) === 0) return;
  const name = ((await link.textContent()) ?? "").split(" ").slice(0, 2).join(" ").toLowerCase();
  await link.click();
  const card = page.locator(".card", { has: page.locator("summary:focus") });
  assert.ok(((await card.locator(".name").textContent()) ?? "").startsWith(`${name} `), `${name} was not opened`);
  await card.locator(".certificate, .caption").first().waitFor();
}

/** All times are said on the other clock. */
async function changesTheClock(page: Page): Promise<void> {
  const range = page.locator("header .range");
  assert.match((await range.textContent()) ?? "", /UTC/);
  await page.getByTitle("UTC or local time").click();
  await range.getByText("local time").waitFor();
}

/** Damaged data are told in words instead of a blank page. */
async function saysWhenDamaged(browser: Browser, file: string, folder: string): Promise<void> {
  const damaged = `${folder}/damaged.html`;
  const cut = (_: string, head: string, data: string) => head + data.slice(0, Math.floor(data.length / 8) * 4);
  writeFileSync(damaged, readFileSync(file, "utf8").replace(/(id="starfarm-data"[^>]*>)([^<]+)/, cut));
  const page = await browser.newPage();
  await page.goto(pathToFileURL(resolve(damaged)).href);
  await page.getByRole("alert").getByText("This report cannot be shown.").waitFor();
}

/** A run shorter than a bin, between two gaps, is seen in the charts, from afar and from within it. */
async function drawsALonelyRun(browser: Browser, folder: string): Promise<void> {
  const { meta, blob } = makeFarm({ nodes: 2, hours: 1, slots: 1, taskUs: 60e6 });
  const { offset, length } = meta.arrays["series/dq"];
  for (let bin = 0; bin < length; bin++) blob.writeFloatLE(bin === 9 ? 3 : NaN, offset + bin * 4);
  const file = `${folder}/lonely.html`;
  writeFileSync(file, fill(readFileSync("dist/report.html", "utf8"), meta, blob));
  const { page } = await open(browser, pathToFileURL(resolve(file)).href, { viewport: { width: 1400, height: 4000 }, colorScheme: "light" });
  const blue = () => page.locator("figure", { hasText: "Queues" }).locator("canvas").evaluate((canvas: HTMLCanvasElement) => {
    const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
    // Edges of letters are nearly transparent, and of any colour.
    return Array.from({ length: pixels.length / 4 }, (_, i) => pixels[i * 4 + 2] - pixels[i * 4] > 60 && pixels[i * 4 + 3] > 60).filter(Boolean).length;
  });
  assert.ok((await blue()) > 20, "no dot for a lonely run");
  const rows = await page.locator("canvas.rows").boundingBox();
  const plot = await page.locator(".plot .u-over").first().boundingBox();
  assert.ok(rows && plot);
  // Within the bin, and not at its middle, where the dot is.
  await page.mouse.move(Math.ceil(plot.x + (plot.width * 9) / length), rows.y + 80);
  for (let i = 0; i < 40; i++) await page.mouse.wheel(0, -240);
  await page.waitForFunction(() => (document.querySelector(".overview .window")?.getBoundingClientRect().width ?? 99) < 9);
  await page.waitForTimeout(300);
  assert.ok((await blue()) > plot.width / 2, "a lonely run is out of sight from within");
  await page.close();
}

async function hidesAState(page: Page): Promise<void> {
  const pixels = () => page.locator("canvas.rows").evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const before = await pixels();
  const chip = page.locator(".legend button", { hasText: "busy" });
  await chip.click();
  assert.equal(await chip.getAttribute("aria-pressed"), "false");
  // The picture is drawn anew with the next frame.
  const differs = (was: string) => document.querySelector<HTMLCanvasElement>("canvas.rows")?.toDataURL() !== was;
  await page.waitForFunction(differs, before);
  await chip.click();
}

/** Every picture says in words what it shows. */
async function saysItInWords(page: Page): Promise<void> {
  const silent = await page.evaluate(() =>
    [...document.querySelectorAll("canvas")].filter((canvas) => !canvas.closest("[role=img], [role=application]")?.getAttribute("aria-label")).length);
  assert.equal(silent, 0, "pictures without words");
  await page.getByText("Nodes as a table", { exact: true }).click();
  assert.ok((await cells(page, "Nodes as a table")).length > 10);
}

/** What a finger can press here is as large as a finger's tip. */
async function fitsFingers(page: Page): Promise<void> {
  const small = await page.evaluate((least) =>
    [...document.querySelectorAll("button, select, input, summary, a")].flatMap((control) => {
      const { width, height } = control.getBoundingClientRect();
      const isHidden = width === 0 || height === 0;
      return isHidden || (width >= least && height >= least) ? [] : [`${control.textContent || control.tagName}: ${width} x ${height}`];
    }), FINGER_PX);
  assert.deepEqual(small, [], "too small for a finger");
}

async function onAPhone(browser: Browser, url: string, folder: string): Promise<string[]> {
  const { page, problems } = await open(browser, url, { viewport: { width: 360, height: 780 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 360, `the page is ${wide} px wide on a phone of 360`);
  await fitsFingers(page);
  const bar = await page.locator(".bar").boundingBox();
  assert.ok(bar && bar.height < 2 * FINGER_PX, "the bar has one line");
  await page.screenshot({ path: `${folder}/phone.png` });
  await page.locator("canvas.rows").tap({ position: { x: 150, y: 66 } });
  assert.ok(await page.locator(".tooltip").isVisible());
  return problems;
}

async function main(file: string, folder: string, node?: string, at?: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const url = pathToFileURL(resolve(file)).href;
  const browser = await launch();
  try {
    const { page, problems } = await open(browser, url, { viewport: { width: 1400, height: 1000 }, colorScheme: "light" });
    await page.screenshot({ path: `${folder}/light.png` });
    await page.screenshot({ path: `${folder}/light-full.png`, fullPage: true });
    const meta = await metaOf(page);
    const first = meta.marks.find(({ kind }) => kind === "node_lost");
    const [name, when] = [node ?? first?.node, at ? Number(at) : first?.at_us];
    assert.ok(name && when, "no node was lost here: name one and when");
    await zooms(page, meta.to_us - meta.from_us > 3600e6);
    await page.screenshot({ path: `${folder}/zoomed.png` });
    await page.keyboard.press("0");
    await findsTheLostNode(page, name, when, meta.from_us);
    await page.screenshot({ path: `${folder}/found.png`, fullPage: true });
    await measures(page);
    await measuresWithKeys(page);
    await saysAllOfTheLowestRow(page, folder);
    await hidesAState(page);
    await saysItInWords(page);
    await page.locator("canvas.rows").press("0");
    await seriesGoAlong(page);
    await leadsToTheTroubledJob(page);
    await changesTheClock(page);
    await saysWhenDamaged(browser, file, folder);
    await drawsALonelyRun(browser, folder);
    const dark = await open(browser, url, { viewport: { width: 1400, height: 1000 }, colorScheme: "dark" });
    await dark.page.screenshot({ path: `${folder}/dark.png` });
    problems.push(...dark.problems, ...(await onAPhone(browser, url, folder)));
    assert.deepEqual(problems, []);
    console.log(`${file}: ${name}, lost at ${clock(when)}, was found; no errors, no requests; screenshots in ${folder}`);
  } finally {
    await browser.close();
  }
}

const [file = "dist/pages/small.html", folder = "dist/screenshots", node, at] = process.argv.slice(2);
await main(file, folder, node, at);
