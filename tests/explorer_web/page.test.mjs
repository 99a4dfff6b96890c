// SPDX-License-Identifier: Apache-2.0
//
// The page as a user meets it: opened from a file in a headless Chromium, clicked, typed into, printed. Numbers on
// screen are compared with the JSON that went in. Every page fails its test when it asks for anything outside its file, raises
// an error or opens a dialog.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

const folder = process.env.LATHE_PAGES;
const { chromium } = createRequire(`${process.env.LATHE_WEB}/package.json`)("playwright-core");
const data = JSON.parse(readFileSync(`${folder}/two.json`, "utf8"));
const [engine, other] = data.engines;
const kSizes = [[1280, 800], [1920, 1080]];
const kViews = ["summary", "layers", "timeline", "graph", "charts", "roofline", "memory", "findings", "compare", "model"];
const kAlone = kViews.filter((view) => view !== "compare"); // of one engine

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--headless=new"] });
});
after(async () => { await browser?.close(); });

// Runs `use` on a page and then checks that the page kept to itself.
async function open(name, use, { hash = "", width = 1280, height = 800, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  const page = await context.newPage();
  page.setDefaultTimeout(60000); // for a machine with much else to do
  const wrong = [];
  page.on("request", (request) => { if (request.url().split("#")[0] !== `file://${folder}/${name}.html`) wrong.push(`request ${request.url()}`); });
  page.on("pageerror", (error) => wrong.push(`error ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error") wrong.push(`console ${message.text()}`); });
  page.on("dialog", (dialog) => { wrong.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  try {
    await page.goto(`file://${folder}/${name}.html${hash}`);
    await page.waitForSelector(".app, .fatal");
    await use(page);
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
  }
}

const tab = (page, view) => page.click(`nav [data-view=${view}]`);
const text = async (page, selector) => (await page.textContent(selector)).trim();
const ms = (value) => (value >= 1 ? value.toPrecision(4) : value.toFixed(4));
const total = (layers) => layers.reduce((sum, layer) => sum + Math.round(layer.time.average_ms * 1e4), 0) / 1e4;

test("summary shows the file's numbers", () => open("two", async (page) => {
  const tiles = await page.locator(".tile strong").allTextContents();
  const stats = engine.statistics;
  assert.equal(tiles[0], `${ms(stats.compute.median_ms)} ms`);
  assert.equal(tiles[2], `${ms(stats.layer_median_sum_ms)} ms`);
  assert.equal(tiles[3], String(engine.layers.length));
  assert.equal(total(engine.layers), stats.layer_sum_ms);
  assert.equal(await text(page, ".gap"), stats.gap_text);
  assert.equal(await text(page, ".context"), "Test device2 threads1x128x768FP322026-11-24 21:03Lathe 0.2.0");
  assert.equal(await page.locator(".banner").count(), 0, "nothing warns of times that can be used");
  const bars = await page.locator("section:has(h2:text-is('Time by type')) .bar-row").count();
  assert.equal(bars, engine.groups.by_type.length);
  // Clocks, power and temperature over the run; what did not change has no line.
  const state = page.locator("section:has(h2:text-is('Device and its state'))");
  assert.equal(await state.locator(".spark").count(), 3);
  assert.match(await state.textContent(), /Core clock1950 … 1980 MHz.*Memory clock3201 MHz.*Power333.2 … 437.7 W.*Throttled1 of 12 readings/);
  const power = await state.locator(".spark path").last().getAttribute("d");
  assert.equal(power.split("L").length, engine.hardware_state.samples.length);
  await page.click("section:has(h2:text-is('Time by type')) .bar-row >> nth=0");
  assert.match(await text(page, ".counter"), new RegExp(`${engine.groups.by_type[0].count} selected`));
}, { hash: "#summary" }));

test("what cannot be trusted is said first, in every view", () => open("noisy", async (page) => {
  for (const view of ["summary", "layers", "findings"]) {
    await tab(page, view);
    assert.match(await text(page, ".banner"), /^These times are not usable: other programs had 66 % of the processors/);
    const [banner, view_] = await page.evaluate(() => [document.querySelector(".banner"), document.querySelector("main")].map((one) => one.getBoundingClientRect().top));
    assert.ok(banner < view_, "above everything else");
  }
  assert.match(await text(page, ".findings .lead"), /No gain is estimated/);
}));

test("views of 0 ms are hidden until they are asked for", () => open("noisy", async (page) => {
  const counter = () => text(page, ".layers .counter");
  const idle = 6; // a view in each begun block of 60 layers
  assert.match(await counter(), new RegExp(`^${60 - idle} of 60`));
  await page.click(`.layers .toolbar label:has-text('${idle} views of 0 ms')`);
  assert.match(await counter(), /^60 of 60/);
  await page.click(`.layers .toolbar label:has-text('${idle} views of 0 ms')`);
  await page.fill(".filter", "kind:view");
  assert.match(await counter(), new RegExp(`^${idle} of 60`), "who asks for views gets them");
}, { hash: "#layers" }));

test("two engines open on their comparison", () => open("two", async (page) => {
  assert.equal(await page.locator("nav [aria-selected=true]").textContent(), "Compare");
  const tiles = await page.locator(".compare .tile strong").allTextContents();
  assert.deepEqual(tiles.slice(0, 2), [engine, other].map((one) => `${ms(one.statistics.compute.median_ms)} ms`));
}));

test("engines of one sweep are points of a line", () => open("sweep", async (page) => {
  assert.equal(await page.locator(".sweep-lines").count(), 2);
  assert.equal(await page.locator(".sweep-lines .dot").count(), 8);
  const heights = await page.locator(".sweep-lines >> nth=0 >> .dot").evaluateAll((dots) => dots.map((dot) => Number(dot.getAttribute("cy"))));
  assert.deepEqual(heights, [...heights].sort((a, b) => b - a), "latency grows with the batch");
}));

test("the table filters, sorts, selects and adds up", () => open("two", async (page) => {
  const counter = () => text(page, ".counter");
  assert.match(await counter(), new RegExp(`^166 of 166`));
  const sumOf = () => text(page, ".layers [data-aggregate=time] b");
  assert.equal(await sumOf(), ms(engine.statistics.layer_sum_ms));

  await page.fill(".filter", "type:matrix layer.3/");
  const expected = engine.layers.filter((layer) => layer.type.includes("Matrix") && layer.name.includes("layer.3/"));
  assert.match(await counter(), new RegExp(`^${expected.length} of 166`));
  assert.equal(await sumOf(), ms(total(expected)));
  assert.match(page.url(), /filter=type%3Amatrix/);
  await page.fill(".filter", "");

  await page.click("[data-facet=type] summary");
  await page.check("[data-facet=type] input[value=Reformat]");
  assert.match(await counter(), /^15 of 166/);
  await page.click("text=Clear");
  assert.match(await counter(), /^166 of 166/);

  const slowest = [...engine.layers].sort((a, b) => b.time.average_ms - a.time.average_ms);
  const rows = () => page.locator(".layers .grid-row").evaluateAll((all) => all.sort((a, b) => a.dataset.position - b.dataset.position).map((row) => Number(row.dataset.row)));
  assert.deepEqual((await rows()).slice(0, 5), slowest.slice(0, 5).map((layer) => layer.index));
  await page.click("[data-column=time]");
  assert.equal((await rows())[0], [...engine.layers].sort((a, b) => a.time.average_ms - b.time.average_ms || a.index - b.index)[0].index);
  await page.click("[data-column=index]");
  assert.equal((await rows())[0], 0, "execution order");

  await page.click(".grid-row[data-row='0']");
  await page.click(".grid-row[data-row='2']", { modifiers: ["Control"] });
  await page.click(".grid-row[data-row='4']", { modifiers: ["Control"] });
  assert.equal(await sumOf(), ms(total([0, 2, 4].map((i) => engine.layers[i]))));
  assert.match(await text(page, ".layers [data-aggregate=type]"), /2× MatrixMultiply/);
  await page.click(".grid-row[data-row='1']");
  await page.click(".grid-row[data-row='6']", { modifiers: ["Shift"] });
  assert.match(await counter(), /6 selected/);
  await page.screenshot({ path: `${folder}/table_selection.png` });

  // The swatch beside a type is the type's, whatever the other views colour by.
  const swatch = () => page.locator(".grid-row[data-row='0'] .swatch").getAttribute("class");
  const ofType = await swatch();
  await tab(page, "graph");
  await page.click(".choice button[data-value=precision]");
  await tab(page, "layers");
  assert.equal(await swatch(), ofType);

  await page.click("[data-menu=columns] summary");
  await page.check("[data-menu=columns] input[value=flops]");
  assert.equal(await page.locator("[data-column=flops]").count(), 1);
  await page.keyboard.press("Escape");

  await page.focus(".grid-scroll");
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  assert.match(await text(page, ".detail h2"), /layer\.0\/attention\/key/);
  await page.keyboard.press("End");
  assert.match(await text(page, ".detail p"), /layer 165/);
  await page.keyboard.press("Control+a");
  assert.match(await counter(), /166 selected/);
}, { hash: "#layers" }));

test("details open a fused layer into its ONNX nodes", () => open("two", async (page) => {
  const layer = engine.layers[8];
  const rows = page.locator(".detail section:has(h3:text('ONNX nodes inside')) tbody tr");
  assert.equal(await rows.count(), layer.origins.length);
  assert.match(await rows.nth(0).textContent(), /MatMul.*151 M/);
  assert.match(await text(page, ".detail"), new RegExp(`${layer.time.average_ms} ms`));
  assert.match(await text(page, ".detail"), /Own error/);
  // What the tuner tried: the chosen one, the others against it, and why one was refused.
  const tried = page.locator(".detail section:has(h3:text('Tactics that were timed'))");
  assert.match(await tried.textContent(), /Tactics that were timed \(3\).*chosen.*lathe_gemm_avx2.*1\.40×.*strassen_1–.*Refused \(1\).*this CPU has no AMX.*2 more/);
  await page.click(".detail section:has(h3:text('Feeds')) .chip >> nth=0");
  assert.match(await text(page, ".detail p"), /layer 9/);
  assert.match(page.url(), /layer=.*layer\.0%2Foutput/);
  await page.keyboard.press("p");
  assert.match(await text(page, ".detail p"), /layer 8/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".detail").isVisible(), false);
}, { hash: `#layers&layer=${encodeURIComponent(engine.layers[8].name)}` }));

test("the timeline draws every layer and marks overhead", () => open("two", async (page) => {
  assert.equal(await page.locator(".overhead-mark").count(), 15);
  const whole = await text(page, ".timeline .counter");
  await page.hover(".timeline-canvas");
  for (let i = 0; i < 6; i += 1) await page.mouse.wheel(0, -300);
  await page.waitForFunction((before) => document.querySelector(".timeline .counter").textContent !== before, whole);
  await page.locator(".span:not(.overhead)").nth(1).click();
  const name = await text(page, ".detail h2");
  assert.ok(engine.layers.some((layer) => layer.name === name));
  await page.keyboard.press("0");
  assert.equal(await text(page, ".timeline .counter"), whole);

  // Single runs: a row for each that the file holds, and its layers as long as they were in it.
  await page.click(".choice button[data-value=runs]");
  const { numbers: runs, times_ms: times } = engine.layer_runs;
  assert.equal(await page.locator(".lane-name").count(), runs.length);
  const longest = Math.max(...times.map((run) => run.reduce((sum, one) => sum + one, 0)));
  assert.match(await text(page, ".timeline .counter"), new RegExp(`of ${ms(longest).replace(".", "\\.")} ms$`));
  await page.click(".choice button[data-value=queries]");
  const { start_ms: starts, compute_ms: computed } = engine.iterations;
  const end = Math.max(...starts.map((start, i) => start - starts[0] + computed[i]));
  assert.match(await text(page, ".timeline .counter"), new RegExp(`of ${ms(end).replace(".", "\\.")} ms$`));
}, { hash: "#timeline" }));

test("the graph folds, searches and links both ways", () => open("two", async (page) => {
  assert.equal(await page.locator(".node:not(.binding)").count(), 16);
  assert.equal(await page.locator(".node.binding").count(), 2);
  await page.click("text=Unfold all");
  assert.equal(await page.locator(".node:not(.binding)").count(), 166);
  const overlaps = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".node .node-back")].map((node) => node.getBoundingClientRect());
    return boxes.filter((a, i) => boxes.some((b, j) => j > i && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
  });
  assert.equal(overlaps, 0);
  const wide = await page.evaluate(() => [...document.querySelectorAll(".node")].filter((node) =>
    [...node.querySelectorAll("text")].some((label) => label.getBBox().x + label.getBBox().width > node.querySelector(".node-back").getBBox().width)).length);
  assert.equal(wide, 0, "labels run out of their boxes");
  await page.fill(".graph-search", "layer.7/ attention/query");
  assert.match(await text(page, ".graph .counter"), /1 layers found/);
  await page.press(".graph-search", "Enter");
  assert.match(await text(page, ".detail h2"), /layer\.7\/attention\/query/);
  assert.ok(await page.locator(".node.selected").isVisible());
  await page.screenshot({ path: `${folder}/graph_search.png` });
  await page.click("text=Fold all");
  await page.click(".detail button:text-is('Table')");
  assert.ok(await page.locator(".grid-row[aria-selected=true]").isVisible());
  await page.click(".detail button:text-is('Graph')");
  assert.ok(await page.locator(".node.selected:not(.folded)").isVisible(), "a hidden layer opens its block");
}, { hash: "#graph" }));

test("table and graph can be saved", () => open("two", async (page) => {
  const saved = async (button) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(`.toolbar button:text-is('${button}')`)]);
    return [download.suggestedFilename(), readFileSync(await download.path(), "utf8")];
  };
  const [name, csv] = await saved("CSV");
  assert.equal(name, "bert.layers.csv");
  const lines = csv.trim().split("\n");
  assert.equal(lines.length, engine.layers.length + 1);
  assert.match(lines[1], new RegExp(`,${Math.max(...engine.layers.map((layer) => layer.time.average_ms))},`), "the slowest layer first");
  await tab(page, "graph");
  const [, svg] = await saved("SVG");
  assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
  assert.match(svg, /encoder\/layer\.14/);
  assert.doesNotMatch(svg, /var\(--/, "colours must not depend on the page");
  // Any picture as PNG: the bytes are one, and hold more than a blank sheet.
  const picture = async (selector) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
    const bytes = readFileSync(await download.path());
    assert.equal(bytes.subarray(1, 4).toString(), "PNG", download.suggestedFilename());
    assert.ok(bytes.length > 3000, `${download.suggestedFilename()}: ${bytes.length} bytes`);
    return bytes.readUInt32BE(16);
  };
  assert.ok((await picture(".graph .save-picture")) > 500);
  for (const [view, count] of [["timeline", 1], ["charts", 8], ["roofline", 1], ["memory", 1], ["compare", 2]]) {
    await tab(page, view);
    const buttons = page.locator(`.view.${view} .save-picture`);
    assert.ok((await buttons.count()) >= count, view);
    await picture(`.view.${view} .save-picture >> nth=0`);
  }
}, { hash: "#layers" }));

test("charts are drawn from the data", () => open("two", async (page) => {
  assert.equal(await page.locator(".donut").count(), 3);
  assert.ok((await page.locator(".treemap:not(.modules) .cell").count()) > 100);
  assert.ok((await page.locator(".sunburst .cell").count()) > 20);
  assert.equal(await page.locator(".scatter .dot").count(), engine.layers.filter((layer) => layer.flops > 0).length);
  const dots = await page.locator(".run-dots").getAttribute("d");
  assert.equal(dots.split("M").length - 1, engine.iterations.compute_ms.length, "a dot for every run");
  assert.ok((await page.locator(".flame .cell").count()) > engine.layers.length / 2);
  assert.ok((await page.locator(".treemap.modules .cell").count()) > 100);
  const [whole] = await page.locator(".flame .cell").evaluateAll((cells) => cells.map((cell) => cell.dataset.tip));
  assert.match(whole, new RegExp(`${ms(engine.statistics.layer_sum_ms)} ms, 100\\.00 %`), "the flame holds all of the time");
  assert.equal(await page.locator(".layer-bar").count(), engine.layers.length);
  const heights = () => page.locator(".layer-bar").evaluateAll((bars) => bars.map((bar) => Number(bar.getAttribute("height"))));
  const tallest = (values) => values.indexOf(Math.max(...values));
  assert.equal(tallest(await heights()), tallest(engine.layers.map((layer) => layer.time.average_ms)));
  await page.selectOption("select[aria-label='only type']", "MatrixMultiply");
  await page.selectOption("select[aria-label='quantity']", "field:NbRuns");
  const products = engine.layers.filter((layer) => layer.type === "MatrixMultiply");
  assert.equal(await page.locator(".layer-bar").count(), products.length);
  assert.equal(tallest(await heights()), products.length - 1);
  assert.ok((await page.locator(".histogram .axis line").count()) > 1, "the histogram has an axis of counts");
  const binned = await page.locator(".histogram .bin").evaluateAll((bins) => bins.reduce((sum, bin) => sum + Number(/(\d+) layers/.exec(bin.dataset.tip)[1]), 0));
  assert.equal(binned, products.filter((layer) => layer.index > 0).length);
  await page.selectOption("select[aria-label='x axis']", "m");
  assert.equal(await page.locator(".scatter .dot").count(), engine.layers.filter((layer) => layer.type === "MatrixMultiply").length);
  await page.click("text=Number of layers >> nth=0");
  assert.match(await text(page, "section:has(h2:text-is('By type')) .bar-row >> nth=0"), new RegExp(`${engine.groups.by_type[0].count}$`));
  await page.locator(".treemap:not(.modules) .cell:not(.group)").first().click();
  assert.ok(await page.locator(".detail").isVisible());
}, { hash: "#charts" }));

test("roofline, memory and findings state what the file says", () => open("two", async (page) => {
  assert.equal(await page.locator(".scatter .dot").count(), engine.layers.filter((layer) => layer.flops > 0).length);
  const recoverable = engine.layers.reduce((sum, layer) => sum + layer.roofline.recoverable_ms, 0);
  assert.match(await text(page, ".roofline h2 >> nth=0"), new RegExp(`Recoverable: ${ms(recoverable)} ms`));
  assert.match(await text(page, ".scatter"), /FP32 3.00 Tflop\/s/);
  await page.locator(".dot").last().dispatchEvent("click");
  assert.ok(await page.locator(".detail").isVisible());
  await tab(page, "memory");
  assert.match(await text(page, ".memory .lead"), new RegExp(`while layer ${engine.memory.peak_layer} runs`));
  assert.equal(await page.locator(".buffer").count(), engine.tensors.length);
  await tab(page, "findings");
  assert.deepEqual(await page.locator(".findings .finding").evaluateAll((all) => all.map((one) => one.dataset.finding)), engine.findings.map((finding) => finding.id));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]).catch(() => {});
  await page.click(".findings .command .copy");
  await page.waitForSelector(".command .copy:text-is('Copied')");
}, { hash: "#roofline" }));

test("the comparison aligns, filters and sums", () => open("two", async (page) => {
  const [pair] = data.comparison.pairs;
  const falls = pair.waterfall.reduce((sum, item) => sum + Math.round(item.delta_ms * 1e4), 0);
  assert.equal(falls, Math.round((pair.candidate_sum_ms - pair.baseline_sum_ms) * 1e4));
  assert.equal(await page.locator(".fall").count(), pair.waterfall.length + 2);
  const ends = await page.evaluate(() => {
    const bars = [...document.querySelectorAll(".fall rect")].map((bar) => bar.getBBox());
    const [last, final] = bars.slice(-2);
    return Math.min(Math.abs(last.x - (final.x + final.width)), Math.abs(last.x + last.width - (final.x + final.width)));
  });
  assert.ok(ends < 1.5, "the last bar must end at the candidate's sum");
  await page.click(".choice button:text-is('Precision')");
  assert.match(await text(page, ".compare .counter"), new RegExp(`^${pair.precision_changes.length} of ${pair.rows.length}`));
  await page.click(".choice button:text-is('All')");
  assert.equal(await text(page, ".compare [data-aggregate=delta]"), `−${ms(-pair.delta_ms)}`);
  await page.click(".compare .grid-row >> nth=2");
  await page.click(".pair-detail .link >> nth=1");
  assert.match(page.url(), /^.*#layers&layer=.*engine=1/);
  assert.equal(await page.inputValue(".top select"), "1");
  assert.equal(await text(page, ".layers [data-aggregate=time] b"), ms(other.statistics.layer_sum_ms));
  await page.goBack();
  await page.waitForSelector(".compare .waterfall");
  await page.click(".choice button:text-is('Layer type')");
  assert.equal(await page.locator(".fall").count(), pair.waterfall_by_type.length + 2);
  // Error against time won: a dot for each layer of B in a row that became faster.
  const won = pair.rows.filter((row) => row.delta_ms < 0).flatMap((row) => row.candidate_layers).filter((layer) => other.layers[layer].error.local > 0);
  assert.ok(won.length > 50);
  assert.equal(await page.locator(".compare .dot").count(), won.length);
  assert.equal(await page.locator("[data-column=error]").count(), 1);
}, { hash: "#compare" }));

// A wheel that still turns while the button goes down must not swallow the click: rows keep their elements.
test("a click counts although the table scrolls under it", () => open("two", async (page) => {
  const row = page.locator(".layers .grid-row[data-row='9']");
  const box = await row.boundingBox();
  await page.mouse.move(box.x + 30, box.y + box.height / 2);
  await page.mouse.down();
  await page.evaluate(async () => {
    const scroller = document.querySelector(".layers .grid-scroll");
    scroller.scrollTop = 4;
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  });
  await page.mouse.up();
  assert.match(await text(page, ".detail p"), /layer 9/);
  assert.match(await text(page, ".counter"), /1 selected/);
}, { hash: "#layers" }));

test("the model shows where its nodes went", () => open("two", async (page) => {
  const { onnx } = engine;
  const counter = () => text(page, ".model .counter");
  assert.match(await counter(), new RegExp(`^${onnx.nodes.length} of ${onnx.nodes.length}`));
  assert.equal(await page.locator(".model .bar-row").count(), Object.keys(onnx.fates).length);
  await page.selectOption(".model .toolbar select", "fused");
  assert.match(await counter(), new RegExp(`^${onnx.fates.fused} of`));
  await page.fill(".model .filter", "layer.2/ softmax");
  assert.match(await counter(), /^2 of/, "the node and the one that reads its result");
  await page.click(".model .grid-row >> nth=0");
  const index = onnx.nodes.findIndex((node) => node.name.includes("layer.2/") && node.op_type === "Softmax");
  const [layer] = onnx.nodes[index].layers;
  assert.match(await text(page, ".detail p"), new RegExp(`layer ${layer}$|layer ${layer}\\D`));
  assert.match(await text(page, ".node-detail h2"), /^Softmax: .*layer\.2/);
  // Its producer is a click away, whatever the filter hides, and a node of the layer's details leads here.
  await page.click(".node-detail .link >> nth=0");
  assert.equal(await text(page, ".node-detail h2"), `${onnx.nodes[index - 1].op_type}: ${onnx.nodes[index - 1].name}`);
  await tab(page, "layers");
  await page.click("[data-column=index]");
  await page.click(".grid-row[data-row='8']");
  await page.click(".detail .link >> nth=1");
  assert.equal(await text(page, ".node-detail h2"), `${engine.layers[8].origins[1].op_type}: ${engine.layers[8].origins[1].name}`);
  assert.equal(await page.locator(".model .grid-row[aria-selected=true]").count(), 1);
  await page.fill(".model .filter", "nothing when");
  assert.match(await text(page, ".model .grid-row"), /Identity/);
}, { hash: "#model" }));

test("no text of a file becomes markup", () => open("hostile", async (page) => {
  for (const view of kAlone) await tab(page, view);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 3);
  await tab(page, "layers");
  await page.click("[data-column=index]");
  await page.click(".grid-row[data-row='3']");
  assert.ok((await text(page, ".detail h2")).includes("</script><img src=x onerror=alert(1)>"));
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  assert.ok((await text(page, ".detail h2")).includes("</script><img"));
}));

test("engines without times have every view", () => open("untimed", async (page) => {
  for (const view of kAlone) await tab(page, view);
  assert.match(await text(page, ".top"), /bert/);
}));

for (const [name, message] of [["cut", /damaged \(not JSON\)/], ["other", /"lathe-analysis" was expected/], ["version", /version 3\.1/], ["empty", /empty template/], ["broken", /damaged/], ["truncated", /damaged \(not JSON\)/]]) {
  test(`a page with ${name} data says so`, () => open(name, async (page) => {
    assert.match(await text(page, ".fatal"), message);
  }));
}

test("the schema's example opens", () => open("example", async (page) => {
  assert.equal(await page.locator("nav [data-view=model]").count(), 0, "without a model there is no view of it");
  for (const view of kViews.slice(0, -1)) await tab(page, view);
}));

// What the binary wrote for two engines of a real model: the page's sums are the JSON's, and so is the way from one to the other.
test("a report of real engines", () => open("real", async (page) => {
  const real = JSON.parse(readFileSync(`${folder}/real.json`, "utf8"));
  for (const [index, one] of real.engines.entries()) {
    await page.selectOption(".top select", String(index));
    assert.equal(await text(page, ".layers [data-aggregate=time] b"), ms(one.statistics.layer_sum_ms));
    const idle = one.layers.filter((layer) => layer.kind === "view" && !(layer.time?.average_ms > 1e-6)).length;
    assert.match(await text(page, ".counter"), new RegExp(`^${one.layers.length - idle} of ${one.layers.length}`));
  }
  for (const view of kViews) {
    await tab(page, view);
    await page.waitForTimeout(60);
    await page.screenshot({ path: `${folder}/real_${view}.png` });
  }
  // The last engine chosen: tensors inside others' memory are no bars, and the engine's own arena is named.
  const last = real.engines.at(-1);
  await tab(page, "memory");
  assert.ok(last.tensors.some((tensor) => tensor.alias_of !== null));
  const owners = last.tensors.filter((tensor) => tensor.alias_of === null && tensor.role !== "weights" && tensor.bytes > 0);
  assert.equal(await page.locator(".buffer").count(), owners.length);
  assert.match(await text(page, ".view.memory"), /Bars stand where the engine puts them/);
  await tab(page, "compare");
  const [pair] = real.comparison.pairs;
  const bars = await page.locator(".fall").count();
  assert.equal(bars, pair.waterfall.length + 2);
  const falls = pair.waterfall.reduce((sum, item) => sum + item.delta_ms, 0);
  assert.ok(Math.abs(falls - (pair.candidate_sum_ms - pair.baseline_sum_ms)) < 1e-9 * pair.baseline_sum_ms);
}, { hash: "#layers" }));

// Text against its ground, and data colours against the text on them; WCAG's formula.
const contrasts = () => {
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => {
    const probe = document.createElement("i");
    probe.style.color = style.getPropertyValue(name);
    document.body.append(probe);
    const parts = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    probe.remove();
    return parts;
  };
  const light = (name) => rgb(name).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const pairs = ["text", "dim", "accent", "mark", "good", "warn"].flatMap((ink) => ["ground", "raised"].map((ground) => [`--${ink}`, `--${ground}`]));
  pairs.push(["--text", "--accent-ground"], ["--text", "--sunk"], ["--dim", "--sunk"]);
  for (const key of ["blue", "orange", "green", "purple", "sky", "yellow", "vermillion", "grey", "dark", "heat0", "heat1", "heat2", "heat3", "heat4"]) pairs.push([`--i-${key}`, `--k-${key}`]);
  return pairs.map(([ink, ground]) => {
    const [a, b] = [light(ink), light(ground)];
    return [ink, ground, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
};

for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of kSizes) {
    test(`nothing overlaps or runs out, ${colorScheme}, ${width} px`, () => open("two", async (page) => {
      for (const view of kViews) {
        await tab(page, view);
        await page.waitForTimeout(60);
        await page.screenshot({ path: `${folder}/${view}_${colorScheme}_${width}.png` });
        const wide = await page.evaluate(() => [document.documentElement, document.querySelector("main")].map((element) => element.scrollWidth - element.clientWidth));
        assert.deepEqual(wide, [0, 0], `${view} runs out of the window`);
        const overlapping = await page.evaluate(() => {
          const groups = [".top > *", ".top nav > *", ".toolbar > *", ".tile", ".columns > *", ".grid-head > *"];
          return groups.flatMap((group) => {
            const boxes = [...document.querySelectorAll(group)].filter((one) => one.offsetParent).map((one) => [one, one.getBoundingClientRect()]);
            return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([two, b]) => one.parentElement === two.parentElement &&
              Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1).map(([two]) => `${one.textContent} / ${two.textContent}`));
          });
        });
        assert.deepEqual(overlapping, [], view);
      }
      const poor = (await page.evaluate(contrasts)).filter(([, , ratio]) => ratio < 4.5);
      assert.deepEqual(poor, []);
    }, { width, height, colorScheme }));
  }
}

for (const name of ["two", "noisy", "sweep"]) {
  test(`telephones show all of it, ${name}`, () => open(name, async (page) => {
    for (const view of await page.locator("nav [data-view]").evaluateAll((tabs) => tabs.map((one) => one.dataset.view))) {
      await tab(page, view);
      await page.waitForTimeout(60);
      await page.screenshot({ path: `${folder}/${name}_${view}_420.png` });
      const wide = await page.evaluate(() => [document.documentElement, document.querySelector("main")].map((element) => element.scrollWidth - element.clientWidth));
      assert.deepEqual(wide, [0, 0], `${view} runs out of the window`);
    }
  }, { width: 420, height: 800 }));
}

// Times of a fast device have more digits, and its tactics' names no end.
for (const name of ["two", "fast"]) {
  test(`panels hold what is in them, ${name}`, () => open(name, async (page) => {
    for (const view of await page.locator("nav [data-view]").evaluateAll((tabs) => tabs.map((one) => one.dataset.view))) {
      await tab(page, view);
      const beyond = await page.evaluate(() => [...document.querySelectorAll(".panel, .finding, .tile, .toolbar")].filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
        .map((one) => `${one.className}: ${one.textContent.slice(0, 60)}, ${one.scrollWidth} in ${one.clientWidth} px`));
      assert.deepEqual(beyond, [], view);
    }
  }));
}

// Programmatic focus after a key counts as the keyboard's, so the outlines are those that a Tab would show.
test("every control is reached by keyboard and shows it", () => open("two", async (page) => {
  for (const view of kViews) {
    await tab(page, view);
    await page.keyboard.press("Tab");
    const [count, poor] = await page.evaluate(() => {
      const controls = [...document.querySelectorAll("button, select, input, a[href], summary, .grid-scroll, svg[tabindex]")].filter((one) => one.checkVisibility() && !one.disabled);
      return [controls.length, controls.filter((one) => {
        one.focus();
        const style = getComputedStyle(one);
        return one.tabIndex < 0 || document.activeElement !== one || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 1;
      }).map((one) => one.outerHTML.slice(0, 120))];
    });
    assert.ok(count > 12, view);
    assert.deepEqual(poor, [], view);
  }
  await tab(page, "layers");
  await page.click("[data-facet=type] summary");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("details.menu[open]").count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "SUMMARY");
  await page.keyboard.press("n");
  await tab(page, "graph");
  assert.equal(await page.locator(".node:not(.folded):not(.binding)").count(), 12, "the chosen layer's block is open");
  await page.focus(".graph-canvas");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".node:not(.folded):not(.binding)").count(), 1);
}));

test("printed, the table is whole and light", () => open("two", async (page) => {
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator(".paper tbody tr").count(), engine.layers.length);
  assert.equal(await page.locator(".grid").first().isVisible(), false);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator(".paper").count(), 0);
  await page.emulateMedia({ media: null });
  await page.pdf({ path: `${folder}/printed.pdf`, preferCSSPageSize: true, printBackground: true });
  assert.ok(readFileSync(`${folder}/printed.pdf`).toString("latin1").match(/\/Type \/Page\b/g).length >= 3);
}, { hash: "#layers", colorScheme: "dark" }));

// The targets are 2 s, 100 ms and 10 MB on an idle machine. The times are printed; what fails is ten times that, which is no
// busy machine but work that grows with the square of the layers.
test("ten thousand layers stay usable", () => open("big", async (page) => {
  assert.ok(readFileSync(`${folder}/big.html`).length < 10e6);
  await page.waitForFunction(() => performance.getEntriesByName("shown").length > 0);
  const paint = await page.evaluate(() => performance.getEntriesByName("shown")[0].startTime);
  await tab(page, "layers");
  assert.match(await text(page, ".counter"), /^10000 of 10000/);
  const times = await page.evaluate(() => ["m", "mat", "type:matrix", "layer.77/ time>0.01", "-reformat", ""].map((value) => {
    const input = document.querySelector(".filter");
    const start = performance.now();
    input.value = value;
    input.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect();
    return performance.now() - start;
  }));
  const median = times.sort((a, b) => a - b)[3];
  console.log(`summary shown after ${paint.toFixed(0)} ms, filter ${times.map((time) => time.toFixed(0)).join(" ")} ms`);
  assert.ok(paint < 20000, `summary shown after ${paint} ms`);
  assert.ok(median < 1000, `filtering took ${times} ms`);
  assert.ok((await page.locator(".grid-row").count()) < 100, "rows out of sight exist");
  for (const view of kAlone.slice(0, -1)) await tab(page, view);
}));
