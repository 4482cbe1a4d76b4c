// Writes pages of made-up farms: `make.mjs FOLDER [pair|tiny|small|big|many]`.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fill, makeFarm, type Wishes } from "../fixture";

export const FARMS: Record<string, Wishes> = {
  pair: { nodes: 2, hours: 40, slots: 2, taskUs: 30e6 },
  tiny: { nodes: 8, hours: 12, slots: 2, taskUs: 60e6, cut: true },
  small: { nodes: 102, hours: 76, slots: 4, taskUs: 300e6 },
  // 3.2 million tasks; the grain is what the replay takes for so many.
  big: { nodes: 300, hours: 177, slots: 1, taskUs: 47e6, grainUs: 1_024_000 },
  many: { nodes: 1200, hours: 48, slots: 8, taskUs: 900e6, grainUs: 256_000 },
};

const [folder = "dist/pages", ...names] = process.argv.slice(2);
const template = readFileSync("dist/report.html", "utf8");
mkdirSync(folder, { recursive: true });
for (const name of names.length > 0 ? names : Object.keys(FARMS)) {
  const { meta, blob } = makeFarm(FARMS[name]);
  const page = fill(template, meta, blob);
  writeFileSync(`${folder}/${name}.html`, page);
  const results = meta.nodes.reduce((sum, node) => sum + node.results, 0);
  console.log(`${folder}/${name}.html: ${meta.nodes.length} nodes, ${results} tasks, ${(page.length / 2 ** 20).toFixed(2)} MiB`);
}
