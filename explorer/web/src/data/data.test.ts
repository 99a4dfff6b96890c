// SPDX-License-Identifier: Apache-2.0
//
// The page's logic without a page: filters, sums, folding, packing, links, numbers, damaged data. The data is the
// schema's own example, checked against the schema first, so that page and schema cannot drift apart.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import Ajv from "ajv/dist/2020.js";
import { exactSum, summarize } from "./aggregate";
import { blockLabel, blockOf, blocks, foldGraph, neighbourhood, neighbourhoodUpTo, splitEdges } from "./blocks";
import { columnById, kColumns, sortLayers, tableText } from "./columns";
import { makeEngineModel, shortPath } from "./engine_model";
import { facetCounts, filterLayers, kNoFacets, splitWords } from "./filter";
import { layoutGraph } from "./layout";
import { formatLink, parseLink } from "./link";
import { DataError, parseAnalysis } from "./load";
import { moduleTree } from "./modules";
import * as numbers from "./numbers";
import { packLives } from "./packing";
import { typeFamily } from "./palette";
import type { Analysis, Engine, Layer } from "./schema";
import { sweepOf } from "./sweep";
import { modesOf, tracksOf } from "./tracks";
import { commonFolder } from "../views/detail";

const root = process.env.LATHE_ROOT!;
const source = readFileSync(`${root}/explorer/core/testdata/two_engines.analysis.json`, "utf8");
const example = (): Analysis => JSON.parse(source) as Analysis;
const model = makeEngineModel(parseAnalysis(source).engines[0]);
const all = model.layers.map((_, i) => i);

test("the example follows the schema", () => {
  const validate = new Ajv({ strict: false, allErrors: true }).compile(JSON.parse(readFileSync(`${root}/docs/schema/analysis.schema.json`, "utf8")));
  assert.ok(validate(example()), JSON.stringify(validate.errors));
});

test("damaged data is named with its place", () => {
  const damage = (change: (data: Analysis) => void) => {
    const data = example();
    change(data);
    return () => parseAnalysis(JSON.stringify(data));
  };
  const says = (text: string) => (error: unknown) => error instanceof DataError && error.message.includes(text);
  assert.throws(() => parseAnalysis(""), says("empty template"));
  assert.throws(() => parseAnalysis(source.slice(0, 5000)), says("damaged (not JSON)"));
  assert.throws(() => parseAnalysis("[]"), says("an object was expected"));
  assert.throws(damage((d) => { (d as { schema: string }).schema = "other"; }), says('"lathe-analysis" was expected'));
  assert.throws(damage((d) => { d.schema_version = "2.0"; }), says("version 2.0"));
  assert.throws(damage((d) => { d.engines[0].layers[1]!.inputs[0]!.tensor = 999; }), says("engines[0].layers[1].inputs[0].tensor[0]: 999"));
  assert.throws(damage((d) => { delete (d.engines[0].layers[0] as Partial<Layer>).name; }), says('engines[0].layers[0]: the field "name" is missing'));
  assert.throws(damage((d) => { d.engines[0].edges[0]!.to = -1; }), says("engines[0].edges[0].to"));
  assert.throws(damage((d) => { d.engines[0].findings[0]!.layers = [77]; }), says("findings[0].layers[0]: 77"));
  assert.throws(damage((d) => { d.comparison!.pairs[0]!.candidate = 5; }), says("comparison.pairs[0].candidate"));
  assert.throws(damage((d) => { d.comparison!.pairs[0]!.waterfall[0]!.rows = [1000]; }), says("waterfall[0].rows[0]"));
});

test("every byte of the example can be lost without a crash that has no message", () => {
  for (let cut = 0; cut < source.length; cut += 997) {
    try {
      parseAnalysis(source.slice(0, cut));
    } catch (error) {
      assert.ok(error instanceof DataError);
    }
  }
});

test("the sum of all rows is the file's layer sum", () => {
  const summary = summarize(model, all, columnById("time")!);
  assert.ok(summary.kind === "number");
  assert.equal(numbers.milliseconds(summary.total), numbers.milliseconds(model.engine.statistics.layer_sum_ms));
  assert.equal(summary.known, model.layers.length);
  assert.equal(exactSum([1e16, 1, -1e16]), 1);
});

test("texts are summed up by frequency", () => {
  const summary = summarize(model, all, columnById("type")!);
  assert.ok(summary.kind === "text");
  assert.deepEqual(summary.values, facetCounts(model, "type"));
  assert.equal(summary.values.reduce((sum, [, count]) => sum + count, 0), model.layers.length);
});

test("filters: words, fields, comparisons, exclusion, facets", () => {
  const found = (text: string) => filterLayers(model, text, kNoFacets);
  assert.deepEqual(found(""), all);
  const types = model.layers.map((layer) => layer.type.toLowerCase());
  assert.deepEqual(found("type:conv"), all.filter((i) => types[i]!.includes("conv")));
  assert.deepEqual(found("-type:conv"), all.filter((i) => !types[i]!.includes("conv")));
  assert.deepEqual(found("time>0.05"), all.filter((i) => model.timeMs[i]! > 0.05));
  assert.deepEqual(found("time<=0.05 type:pool"), all.filter((i) => model.timeMs[i]! <= 0.05 && types[i]!.includes("pool")));
  assert.deepEqual(found("no such layer"), []);
  assert.deepEqual(filterLayers(model, "", { ...kNoFacets, verdict: new Set(["launch"]) }), all.filter((i) => model.layers[i]!.roofline.verdict === "launch"));
  assert.deepEqual(splitWords('a "b c" type:"x y" -z'), ["a", "b c", "type:x y", "-z"]);
});

test("sorting keeps unknown values last", () => {
  const data = example();
  data.engines[0].layers[1]!.time = null;
  const other = makeEngineModel(data.engines[0]);
  for (const descending of [true, false]) {
    const order = sortLayers(other, all, columnById("time")!, descending);
    assert.equal(order.at(-1), 1);
    const times = order.slice(0, -1).map((i) => other.timeMs[i]!);
    assert.deepEqual(times, [...times].sort((a, b) => (descending ? b - a : a - b)));
  }
});

test("exported tables hold every digit and no formula", () => {
  const data = example();
  data.engines[0].layers[0]!.name = '=HYPERLINK("x")';
  const lines = tableText(makeEngineModel(data.engines[0]), [0], kColumns.filter((column) => ["name", "time"].includes(column.id)), ",").trim().split("\n");
  assert.equal(lines[1], `"'=HYPERLINK(""x"")",${data.engines[0].layers[0]!.time!.average_ms}`);
});

test("short names keep what tells repeated blocks apart", () => {
  assert.equal(shortPath("/m/encoder/layer.11/attention/self/query/MatMul + /m/x/Add"), "layer.11/…/self/query/MatMul +1");
  assert.equal(shortPath("/m/encoder/layer.1/output/dense/MatMul"), "layer.1/output/dense/MatMul");
  assert.equal(shortPath("Conv_0 + Relu_1"), "Conv_0 +1");
  assert.equal(shortPath("net/quant_conv1/Last/ReadVariableOp:0 + QuantLinearNode__638 + net/quant_conv1/Conv2D"), "net/quant_conv1/Conv2D +2");
  assert.equal(shortPath("/a/b/c/d/e"), "c/d/e");
  assert.equal(shortPath("Reformatting CopyNode for Input Tensor 0 to /a/b/Conv + /a/b/Relu"), "reformat for a/b/Conv +1");
  assert.equal(shortPath("/conv1/Conv + /relu/Relu"), "conv1/Conv +1", "short in the same way where there would be room");
});

test("a layer's label comes with it", () => {
  const [first] = example().engines;
  first!.layers[0]!.label = "a label";
  assert.equal(makeEngineModel(first!).shortNames[0], "a label");
  assert.equal(makeEngineModel(first!).shortNames[1], shortPath(first!.layers[1]!.name));
});

test("a band is named by its block, or by its number where that has no room", () => {
  const wide = (most: number) => (text: string) => text.length <= most;
  assert.equal(blockLabel("/layer2/layer2.0", wide(20)), "layer2.0");
  assert.equal(blockLabel("/encoder/layers/encoder_layer_11", wide(3)), "11");
  assert.equal(blockLabel("/encoder/layers/encoder_layer_11", wide(1)), "");
});

// Layers named so, each with one millisecond.
function engineOf(names: readonly string[]): Engine {
  const [engine] = example().engines;
  const layers = names.map((name, index) => ({ ...engine!.layers[0]!, index, name, label: shortPath(name), origins: [{ name, op_type: "Op", flops: null, bytes: null }], inputs: [], outputs: [], time: { average_ms: 1, median_ms: 1, total_ms: 1, percent: null, start_ms: index } }));
  return { ...engine!, layers, statistics: { ...engine!.statistics, layer_sum_ms: names.length } } as Engine;
}

test("modules hold all layers once, and chains of only children are one", () => {
  const tree = moduleTree(makeEngineModel(engineOf(["/net/body/block.0/attn/q/MatMul", "/net/body/block.0/attn/k/MatMul", "/net/body/block.0/attn/k/Add", "/net/body/block.1/attn/q/MatMul", "/net/body/head/Gemm"])))!;
  assert.equal(tree.timeMs, 5);
  assert.deepEqual(tree.rows, [0, 1, 2, 3, 4]);
  assert.deepEqual(tree.children.map((child) => [child.name, child.rows.length]), [["block.0/attn", 3], ["q/MatMul", 1], ["head/Gemm", 1]]);
  assert.deepEqual(tree.children[0]!.children.map((child) => [child.name, child.layer]), [["q/MatMul", 0], ["k", null]]);
  assert.equal(moduleTree(makeEngineModel(engineOf(["Conv_0", "Conv_1"]))), null, "names without paths have no modules");
});

test("a sweep is what differs in one dimension", () => {
  const at = (name: string, shape: number[], ms: number): Engine => {
    const [engine] = example().engines;
    return { ...engine!, name, bindings: [{ name: "x", io: "input", tensor: null, shape, type: "FP32", format: "", bytes: null, profiles: [] }], statistics: { ...engine!.statistics, compute: { ...engine!.statistics.compute!, median_ms: ms } } } as Engine;
  };
  const batch = sweepOf([at("a 8x3x4", [8, 3, 4], 5), at("a 1x3x4", [1, 3, 4], 1), at("b 1x3x4", [1, 3, 4], 2), at("b 8x3x4", [8, 3, 4], 6)])!;
  assert.equal(batch.axis, "batch");
  assert.deepEqual(batch.lines.map((line) => [line.name, line.points.map((point) => [point.x, point.ms])]), [["a", [[1, 1], [8, 5]]], ["b", [[1, 2], [8, 6]]]]);
  const length = sweepOf([at("a x:1x64", [1, 64], 1), at("a x:1x128", [1, 128], 2)])!;
  assert.equal(length.axis, "dim 1 of x");
  assert.equal(length.isBatch, false);
  assert.equal(sweepOf([at("a", [1, 3], 1), at("b", [1, 3], 2)]), null, "the same shape twice is a comparison, no sweep");
});

test("tracks: single runs begin together, queries that overlap stand below each other", () => {
  const engine = engineOf(["/a/b/Conv", "/a/c/Conv"]);
  engine.layer_runs = { count: 9, numbers: [0, 8], times_ms: [[1, 2], [3, 0]] };
  engine.iterations = { latency_ms: [2, 2, 2], compute_ms: [2, 2, 2], start_ms: [10, 11, 12.5] };
  const one = makeEngineModel(engine);
  assert.deepEqual(tracksOf(one, "runs").map((track) => track.spans.map((span) => [span.layer, span.start, span.end])), [[[0, 0, 1], [1, 1, 3]], [[0, 0, 3]]]);
  assert.deepEqual(tracksOf(one, "queries").map((track) => track.spans.map((span) => [span.run, span.start])), [[[0, 0], [2, 2.5]], [[1, 1]]]);
  assert.deepEqual(modesOf(one).map(([mode]) => mode), ["typical", "runs", "queries"]);
  assert.deepEqual(modesOf(model).map(([mode]) => mode).includes("runs"), false, "older files have no single runs");
});

test("runs of another engine are refused", () => {
  const data = example();
  data.engines[0]!.layer_runs = { count: 1, numbers: [0], times_ms: [[1]] };
  assert.throws(() => parseAnalysis(JSON.stringify(data)), (error: unknown) => error instanceof DataError && error.message.includes("layer_runs.times_ms[0]"));
});

test("names share a folder, not half a word", () => {
  assert.equal(commonFolder(["/a/b/c/x", "/a/b/cc/y"]), "/a/b/");
  assert.equal(commonFolder(["/a/x", "/b/y"]), "/");
  assert.equal(commonFolder(["Conv_0", "Relu_1"]), "");
});

test("blocks are the first numbered part of a path", () => {
  const layer = (name: string) => ({ name, origins: [{ name }] as unknown }) as Layer;
  assert.equal(blockOf(layer("/m/encoder/layer.3/attention/MatMul")), "/m/encoder/layer.3");
  assert.equal(blockOf(layer("/features/features.1/features.1.0/Conv")), "/features/features.1");
  assert.equal(blockOf(layer("Conv_0")), "");
  assert.equal(blockOf({ name: "Reformatting CopyNode for Input Tensor 1 to /h.2/attn/MatMul", origins: [] as unknown } as Layer), "/h.2");
});

test("a folded graph keeps every layer once and no inner edge", () => {
  const folded = new Map([["block", [0, 1]]]);
  const graph = foldGraph(model, folded, new Set(), null);
  assert.deepEqual(graph.nodes.flatMap((node) => node.layers).sort((a, b) => a - b), all);
  assert.ok(graph.edges.every((edge) => edge.from !== edge.to));
  const layers = (one: typeof graph) => one.nodes.filter((node) => node.tensor === undefined).length;
  assert.equal(layers(graph), model.layers.length - 1);
  const bindings = graph.nodes.filter((node) => node.tensor !== undefined).map((node) => model.engine.tensors[node.tensor!]!.name);
  assert.deepEqual(bindings.sort(), model.engine.bindings.map((binding) => binding.name).sort());
  assert.equal(layers(foldGraph(model, folded, new Set(["block"]), null)), model.layers.length);
  assert.equal(blocks(model).size, 0);
  const placed = layoutGraph(graph, graph.edges, () => ({ width: 100, height: 40 }));
  const boxes = [...placed.boxes.values()];
  assert.equal(boxes.length, graph.nodes.length);
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => assert.ok(Math.abs(a.x - b.x) >= 100 || Math.abs(a.y - b.y) >= 40, "boxes overlap")));
});

test("a tensor that all read becomes marks, and nobody loses the only way in", () => {
  const ids = ["mask", "a", "b", "c", "d", "lonely"];
  const edge = (from: string, to: string) => ({ from, to, tensors: [0] });
  const chain = [edge("a", "b"), edge("b", "c"), edge("c", "d")];
  const fan = ids.slice(1).map((to) => edge("mask", to));
  const graph = { nodes: ids.map((id) => ({ id, layers: [], block: "", folded: false })), edges: [...fan, ...chain], nodeOf: new Map<number, string>() };
  const { drawn, marks } = splitEdges(graph, 3);
  assert.deepEqual(marks.map((one) => one.to), ["b", "c", "d"]);
  assert.deepEqual(drawn, [fan[0], fan[4], ...chain]);
  assert.equal(splitEdges(graph, 5).marks.length, 0);
});

test("a neighbourhood grows by steps", () => {
  assert.deepEqual([...neighbourhood(model, 2, 0)], [2]);
  const one = neighbourhood(model, 2, 1);
  assert.deepEqual(new Set(one), new Set([2, ...model.previous[2]!, ...model.next[2]!]));
  assert.deepEqual(neighbourhoodUpTo(model, 2, one.size), one);
  assert.equal(neighbourhoodUpTo(model, 2, 1).size, 1);
  assert.ok(neighbourhoodUpTo(model, 2, 1000).size <= model.layers.length);
});

test("packed buffers never overlap", () => {
  let state = 7;
  const random = (limit: number) => { state = (state * 48271) % 2147483647; return state % limit; };
  const lives = Array.from({ length: 200 }, (_, id) => { const first = random(100); return { id, first, last: first + random(12), bytes: 1 + random(1000) }; });
  const placed = packLives(lives);
  assert.equal(placed.length, lives.length);
  placed.forEach((a, i) => placed.slice(i + 1).forEach((b) =>
    assert.ok(a.last < b.first || b.last < a.first || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)));
});

test("links survive any name", () => {
  for (const layer of ["a + b", "x&engine=9#&=%", "ü\u001e<b>", ""]) {
    const link = { view: "graph" as const, layer, engine: 1, filter: "type:conv & -x" };
    assert.deepEqual(parseLink(formatLink(link)), link);
  }
  assert.deepEqual(parseLink("#nonsense&engine=-3"), { view: "summary", layer: null, engine: 0, filter: "" });
});

test("numbers", () => {
  assert.equal(numbers.milliseconds(null), "–");
  assert.equal(numbers.milliseconds(0), "0");
  assert.equal(numbers.milliseconds(16.3912), "16.39");
  assert.equal(numbers.milliseconds(1234.5), "1235");
  assert.equal(numbers.milliseconds(0.04321), "0.0432");
  assert.equal(numbers.signedMilliseconds(-0.5), "−0.5000");
  assert.equal(numbers.bytes(1536), "1.50 KiB");
  assert.equal(numbers.count(2_500_000), "2.50 M");
  assert.equal(numbers.shape([1, -1, 3]), "1×?×3");
  assert.deepEqual(numbers.ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.ok(numbers.ticks(0.3, 0.31, 8).every((tick) => tick >= 0.3 && tick <= 0.31));
  assert.deepEqual(numbers.byteTicks(2048, 2), [0, 1024, 2048]);
});

test("layer types find their colour", () => {
  for (const [type, family] of [["Convolution", "blue"], ["DepthwiseBlock", "blue"], ["SqueezeExcite", "yellow"], ["MatrixMultiply", "green"], ["FeedForward", "green"], ["Attention", "purple"], ["LayerNorm", "sky"], ["PointWise", "orange"],
    ["Pooling", "yellow"], ["Shuffle", "grey"], ["Reformat", "vermillion"], ["Myelin", "dark"]] as const) {
    assert.equal(typeFamily(type)[0], family, type);
  }
  assert.equal(typeFamily("PointWise", "cast")[0], "vermillion");
});
