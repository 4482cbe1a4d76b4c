// Builds the page's bundle and puts it into the template that `starfarm log replay --html` fills:
// `dist/report.html`. With the argument `tests` it builds the tests instead, into `dist/tests/`.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** Script and style together, as a web server would send them. */
const GZIPPED_BYTES_MAX = 60 * 1024;

const PLACEHOLDERS = ["<!--starfarm:meta-->", "<!--starfarm:data-->"];

/** What is bundled with ours, and wants its licence beside it. */
const LICENCE = "node_modules/uplot/LICENSE";

async function bundle() {
  const result = await build({
    entryPoints: { report: "src/main.ts", style: "src/style.css" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    // The outputs are asked for as plain ASCII so that nothing depends on the encoding of the page around them.
    charset: "ascii",
    legalComments: "none",
    outdir: "dist",
    write: false,
  });
  const text = (end) => result.outputFiles.find((file) => file.path.endsWith(end)).text.trim();
  return { script: text("report.js"), style: text("style.css") };
}

/** A Content-Security-Policy source that allows this text and no other. */
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function fill(template, { script, style }) {
  // Inside a script element these would end it, or hide its end.
  for (const word of ["</script", "<!--", "<script"]) {
    if (script.toLowerCase().includes(word)) throw new Error(`the bundle holds \`${word}\`: write it another way`);
  }
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const licence = readFileSync(LICENCE, "utf8").trim();
  const parts = { policy, style, script, licence };
  const page = template.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
  for (const placeholder of PLACEHOLDERS) {
    if (page.split(placeholder).length !== 2) throw new Error(`\`${placeholder}\` must be there once`);
  }
  return page;
}

async function report() {
  const parts = await bundle();
  const bytes = gzipSync(parts.script, { level: 9 }).length + gzipSync(parts.style, { level: 9 }).length;
  console.log(`bundle: ${bytes} bytes gzipped of ${GZIPPED_BYTES_MAX}`);
  if (bytes > GZIPPED_BYTES_MAX) throw new Error("the bundle is too big: leave something out");
  mkdirSync("dist", { recursive: true });
  writeFileSync("dist/report.html", fill(readFileSync("src/report.html", "utf8"), parts));
}

async function tests() {
  const sources = ["tests", "tests/browser"].flatMap((folder) =>
    readdirSync(folder).filter((name) => name.endsWith(".ts")).map((name) => `${folder}/${name}`));
  await build({
    entryPoints: sources,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    outbase: "tests",
    outdir: "dist/tests",
    outExtension: { ".js": ".mjs" },
  });
}

await (process.argv[2] === "tests" ? tests() : report());
