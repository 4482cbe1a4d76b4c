// The report's page: opens the data, draws the timeline, then everything below it.

import { Colours } from "./colours";
import { Report } from "./data";
import { button, h, section } from "./dom";
import { Finder } from "./find";
import { duration } from "./format";
import { head } from "./head";
import { jobsSection } from "./jobs";
import { marksSection } from "./marks";
import { nodesSection } from "./nodes";
import { SeriesCharts } from "./series";
import { Timeline } from "./timeline/timeline";
import { summarise } from "./verdict";
import { View } from "./view";
import { summary, wordsSection } from "./words";

const HELP = "Wheel or pinch zooms around the pointer, dragging moves, shift and dragging measures. On the keyboard: + and - zoom, arrows move and pick a row, 0 shows all, [ and ] change the height of rows, r measures (then left and right move the end, with shift the beginning), / searches, n and N go to the next and the one before.";

/** What the bar leads to, by the ids of sections. */
const SECTIONS = [["timeline", "Timeline"], ["series", "Charts"], ["jobs", "Jobs"], ["nodes", "Nodes"], ["marks", "What happened"]];

function timelineSection(report: Report, timeline: Timeline, view: View): HTMLElement {
  const grain = report.meta.grain_us > 1000 ? ` Times of single results are known to ${duration(report.meta.grain_us)}.` : "";
  const caption = `Each row is a node, from left to right goes time. The fuller the green, the more of its slots compute; zoom in far enough and each result has a bar.${grain}`;
  timeline.describe(summary(report));
  const help = h("details", { class: "help" }, h("summary", {}, "Keys and gestures"), h("p", { id: "timeline-help" }, HELP));
  return section("timeline", "Nodes over time", caption, timeline.element, wordsSection(report, view), help);
}

/** Follows the system's theme until somebody chooses. */
function themeButton(view: View): HTMLElement {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  dark.addEventListener("change", () => view.tell("theme"));
  return button("◐", "Light or dark", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    view.tell("theme");
  });
}

function bar(view: View, finder: Finder): HTMLElement {
  const zone = button("UTC", "UTC or local time", () => view.toggleZone());
  zone.classList.add("zone");
  view.listen((changes) => {
    if (changes.has("clock")) zone.textContent = view.zone.label === "UTC" ? "UTC" : "local";
  });
  const links = SECTIONS.map(([id, text]) => h("a", { href: `#${id}` }, text));
  return h("div", { class: "bar" }, h("b", {}, "starfarm"), finder.element, h("nav", { class: "wide", "aria-label": "Sections" }, ...links), zone, themeButton(view));
}

/** Runs the steps one after the other, each in its own turn, so that the page answers in between. */
function inTurn(steps: (() => void)[]): void {
  const [first, ...rest] = steps;
  if (!first) return;
  setTimeout(() => {
    first();
    inTurn(rest);
  });
}

function mount(place: HTMLElement, report: Report): void {
  const view = new View(report.span, (run) => requestAnimationFrame(run));
  const colours = new Colours(report);
  view.listen((changes) => changes.has("theme") && colours.refresh());
  const timeline = new Timeline(report, view, colours);
  const finder = new Finder(report, view, timeline);
  const show = (inner: () => void) => {
    inner();
    timeline.element.scrollIntoView({ block: "center" });
  };
  const jobs = jobsSection(report, colours, view, (job) => show(() => finder.job(job)));
  place.replaceChildren(bar(view, finder), head(report, colours, view, jobs.open), timelineSection(report, timeline, view));
  timeline.layout();
  performance.mark("starfarm-drawn");
  document.title = `${summarise(report).text} · starfarm`;
  const charts = new SeriesCharts(report, view, colours);
  const later = () => inTurn([
    () => place.append(charts.element),
    () => charts.plot(timeline.plane.width),
    () => place.append(jobs.element),
    () => place.append(nodesSection(report, colours, view, (node) => show(() => timeline.reveal(node)))),
    () => place.append(marksSection(report, colours, view, (mark) => show(() => finder.mark(report.meta.marks.indexOf(mark))))),
    () => place.append(h("footer", {}, `Written by starfarm ${report.meta.version}. This file is complete in itself: it loads nothing.`)),
    () => performance.mark("starfarm-complete"),
  ]);
  // The frame after the next one comes when the first picture is on the screen.
  requestAnimationFrame(() => requestAnimationFrame(() => {
    performance.mark("starfarm-first-picture");
    later();
  }));
  resizing(place, timeline, charts);
}

function resizing(place: HTMLElement, timeline: Timeline, charts: SeriesCharts): void {
  let width = place.clientWidth;
  const fit = () => {
    timeline.layout();
    charts.layout(timeline.plane.width);
  };
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    requestAnimationFrame(fit);
  }).observe(place);
  addEventListener("resize", () => requestAnimationFrame(fit));
}

async function start(): Promise<void> {
  const place = document.getElementById("starfarm");
  if (!place) return;
  try {
    mount(place, await Report.open(document));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    place.replaceChildren(h("p", { class: "broken", role: "alert" }, `This report cannot be shown. ${why} Write it again with: starfarm log replay FILE --html report.html`));
    console.error(error);
  }
}

void start();
