// SPDX-License-Identifier: Apache-2.0
//
// Builds the page. `page DIR` bundles src/main.ts and src/style.css and puts both into src/page.html:
// DIR/report_template.html, one file with one placeholder for the data. `types` writes the TypeScript types of
// docs/schema/analysis.schema.json into generated/, so that the code is checked against the published schema.
// `tests DIR` bundles src/**/*.test.ts for node's own test runner, which on old versions reads no TypeScript.
import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const common = { bundle: true, logLevel: "warning", target: "es2022", charset: "utf8", legalComments: "none" };

async function bundle(entry) {
  const result = await build({ ...common, entryPoints: [join(here, entry)], minify: true, write: false, format: "iife", metafile: true });
  return { text: result.outputFiles[0].text, inputs: Object.keys(result.metafile.inputs) };
}

// The libraries inside the page ask for their notices to go with every copy.
function notices(inputs) {
  const packages = new Set(inputs.map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1]).filter(Boolean));
  return [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
  }).join("\n");
}

// A function as replacement: '$' in minified code is not a pattern.
function put(page, marker, text) {
  if (page.split(marker).length !== 2) throw new Error(`src/page.html must contain ${marker} once`);
  return page.replace(marker, () => text);
}

async function buildPage(folder) {
  const [script, style] = [await bundle("src/main.ts"), await bundle("src/style.css")];
  let page = readFileSync(join(here, "src/page.html"), "utf8");
  page = put(page, "/*STYLE*/", style.text.replaceAll("</style", "<\\/style"));
  page = put(page, "/*NOTICES*/", notices([...script.inputs, ...style.inputs]).replaceAll("<", "&lt;"));
  page = put(page, "/*SCRIPT*/", script.text.replaceAll("</script", "<\\/script"));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "report_template.html"), page);
}

async function writeTypes() {
  const { compileFromFile } = await import("json-schema-to-typescript");
  const types = await compileFromFile(join(here, "../../docs/schema/analysis.schema.json"), {
    additionalProperties: false, bannerComment: "// Generated from docs/schema/analysis.schema.json by `npm run check`.",
  });
  mkdirSync(join(here, "generated"), { recursive: true });
  writeFileSync(join(here, "generated/analysis.ts"), types);
}

async function bundleTests(folder) {
  const files = readdirSync(join(here, "src"), { recursive: true });
  const entryPoints = files.filter((file) => file.endsWith(".test.ts")).map((file) => join(here, "src", file));
  await build({ ...common, entryPoints, outdir: folder, platform: "node", format: "esm", outExtension: { ".js": ".mjs" } });
}

const [what, folder] = process.argv.slice(2);
if (what === "page") await buildPage(folder);
else if (what === "types") await writeTypes();
else if (what === "tests") await bundleTests(folder);
else throw new Error("usage: build.mjs page DIR | types | tests DIR");
