// Starts Debian's Chromium, told to leave the network alone.

import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";

const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

export async function launch(): Promise<Browser> {
  const executablePath = PLACES.find((place) => place && existsSync(place));
  if (!executablePath) throw new Error("no Chromium here: install Debian's package `chromium`, or name one in CHROMIUM");
  return chromium.launch({ executablePath, args: QUIET });
}
