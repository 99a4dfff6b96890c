// SPDX-License-Identifier: Apache-2.0
//
// The ONNX model beside the engine: every node with the layer that runs it, or the reason why none does. A node's layers
// are selected with it, and the nodes of a layer that was chosen elsewhere are marked here. Below the table one node with
// its tensors and attributes; its neighbours are a click away.
import { exactSum } from "../data/aggregate";
import { shortPath } from "../data/engine_model";
import { splitWords } from "../data/filter";
import { fateTitle, layersText, modelOf, type ModelData } from "../data/onnx_model";
import * as numbers from "../data/numbers";
import type { OnnxModel } from "../data/schema";
import { barList } from "./bars";
import { breakable, copyButton, facts, h, section, simpleTable, type Child } from "../ui/dom";
import { Grid, kTableScale, type GridColumn } from "../ui/grid";
import type { State, Store } from "../ui/store";
import { textWidth } from "../ui/text_width";
import type { View } from "./view";

const kPrinted = 2000;
const kLinks = 12;
const kOwn = 4;
const kFateKeys: Record<string, string> = {
  layer: "blue", fused: "green", several: "sky", expanded: "sky", view: "grey", layout: "orange", no_op: "grey", constant: "yellow", shape: "yellow", types: "purple", unused: "dark",
  unknown: "vermillion",
};

interface NodeColumn extends GridColumn { value: (node: number) => number | string; show: (node: number, room?: number) => Child | Child[] }

// A path that is too long says most without its middle.
function named(name: string, room: number): HTMLElement {
  return h("span", { title: name }, textWidth(name) * kTableScale > room ? shortPath(name) : name);
}

export function makeModel(store: Store): View {
  const data = modelOf(store.model);
  if (!data) return { root: h("div", { class: "view model" }, h("p", {}, "No model was given beside this engine: lathe explore x.engine --onnx=model.onnx -o report.html")) };
  return modelView(store, data);
}

function modelView(store: Store, data: ModelData): View {
  const { model } = store;
  const { onnx } = data;
  let words = "";
  let fate = "";
  let marked: ReadonlySet<number> = new Set();
  let mine = false; // this view itself changes the selection
  let sort: { id: string; descending: boolean } | null = null;

  const text = (id: string, title: string, tip: string, width: number, value: (node: number) => string): NodeColumn =>
    ({ id, title, tip, width, numeric: false, value, show: (node) => h("span", { title: value(node) }, value(node)) });
  const number = (id: string, title: string, tip: string, width: number, value: (node: number) => number, show: (value: number) => string): NodeColumn =>
    ({ id, title, tip, width, numeric: true, value, show: (node) => show(value(node)) });
  const columns: NodeColumn[] = [
    number("index", "#", "Position in the file", 52, (node) => node, String),
    { ...text("name", "Node", "Name in the model", 230, (node) => onnx.nodes[node]!.name), grow: true, show: (node: number, room = Infinity) => named(onnx.nodes[node]!.name, room) },
    text("op", "Operator", "ONNX operator", 130, (node) => onnx.nodes[node]!.op_type),
    { ...text("fate", "Became", "What became of it", 168, (node) => fateTitle(onnx.nodes[node]!.fate)),
      show: (node: number) => [h("i", { class: `swatch k-${kFateKeys[onnx.nodes[node]!.fate] ?? "grey"}` }), fateTitle(onnx.nodes[node]!.fate)] },
    { ...text("layers", "Layer", "The layer that runs it, or why none does", 220, (node) => layersText(model, data, node)), grow: true },
    number("time", "Layer ms", "Time of its layers, which may run other nodes, too", 92, (node) => data.timeMs[node]!, numbers.milliseconds),
    text("shape", "Output", "Shape of the first output, as the model says", 140, (node) => data.outputShape(node)),
    text("type", "Type", "Of the first output", 70, (node) => data.outputType(node)),
    number("weights", "Weights", "Initializers that it reads", 92, (node) => data.weights[node]!, (value) => (value === 0 ? "" : numbers.bytes(value))),
  ].filter((column) => column.id !== "time" || data.timeMs.some((time) => !Number.isNaN(time)));

  const grid = new Grid({
    label: "Nodes of the model", columns: () => columns,
    cell: (node, column, room) => (column as NodeColumn).show(node, room),
    sortedBy: () => sort, selected: () => marked,
    sort: (column) => {
      const first = column.numeric && column.id !== "index";
      sort = sort?.id !== column.id ? { id: column.id, descending: first } : sort.descending === first ? { id: column.id, descending: !first } : null;
      fill();
    },
    select: mark,
  });

  const search = h("input", { type: "search", class: "filter", placeholder: "Filter: name, operator, tensor, why", "aria-label": "Filter nodes", spellcheck: "false" });
  search.addEventListener("input", () => { words = search.value; fill(); });
  const counter = h("span", { class: "counter", role: "status" });
  const fates = h("select", { "aria-label": "What became of them" }, h("option", { value: "" }, "all nodes"),
    h("option", { value: "+" }, "in layers"), h("option", { value: "-" }, "in no layer"),
    Object.entries(onnx.fates).map(([name, count]) => h("option", { value: name }, `${fateTitle(name)} (${count})`)));
  fates.addEventListener("change", () => { fate = fates.value; fill(); });
  const detail = h("div", { class: "node-detail" });

  function isShown(node: OnnxModel["nodes"][number]): boolean {
    return fate === "" || (fate === "+" ? node.layers.length > 0 : fate === "-" ? node.layers.length === 0 : node.fate === fate);
  }

  function fill(): void {
    const wanted = splitWords(words.toLowerCase());
    const rows = onnx.nodes.map((_, i) => i).filter((node) =>
      isShown(onnx.nodes[node]!) && (wanted.length === 0 || wanted.every((word) => data.searchText(node).includes(word))));
    const column = columns.find((one) => one.id === sort?.id);
    if (column && sort) {
      const sign = sort.descending ? -1 : 1;
      rows.sort((p, q) => {
        const [x, y] = [column.value(p), column.value(q)];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || p - q;
        return sign * (x < y ? -1 : x > y ? 1 : 0) || p - q;
      });
    }
    fates.value = fate;
    counter.textContent = `${rows.length} of ${onnx.nodes.length} nodes`;
    grid.setRows(rows);
    drawFoot();
  }

  // Layers once, however many of their nodes are counted.
  function drawFoot(): void {
    const selected = grid.rows.filter((row) => marked.has(row));
    const rows = selected.length > 1 ? selected : grid.rows;
    const layers = [...new Set(rows.flatMap((node) => onnx.nodes[node]!.layers))];
    const cells: Record<string, string> = {
      name: selected.length > 1 ? `${rows.length} selected nodes` : `${rows.length} nodes`, layers: `in ${layers.length} ${layers.length === 1 ? "layer" : "layers"}`,
      time: numbers.milliseconds(exactSum(layers.map((layer) => model.timeMs[layer] || 0))), weights: numbers.bytes(data.weightsOf(rows)),
    };
    grid.foot.replaceChildren(h("div", { class: "grid-foot-row short" }, columns.map((column) =>
      h("div", { class: column.numeric ? "number" : null, "data-aggregate": column.id }, h("b", {}, cells[column.id] ?? "")))));
  }

  const nodeLinks = (nodes: readonly number[]): Child[] => [...nodes.slice(0, kLinks).map((node) =>
    h("button", { type: "button", class: "link", click: () => choose(node) }, onnx.nodes[node]!.name)), nodes.length > kLinks && `and ${nodes.length - kLinks} more`];

  function tensorRows(tensors: readonly number[], side: "inputs" | "outputs"): Child[][] {
    return tensors.filter((tensor) => tensor >= 0).map((tensor): Child[] => {
      const one = onnx.tensors[tensor]!;
      const others = side === "inputs" ? data.producer(tensor) : data.readers(tensor);
      const role = one.role === "value" ? "" : one.role;
      return [h("span", { title: one.name }, breakable(one.name)), data.shapeText(tensor), one.type, one.bytes === null ? "" : numbers.bytes(one.bytes),
        h("span", { class: "chips" }, role !== "" && h("span", { class: "dim" }, role), ...nodeLinks(others))];
    });
  }

  function drawNode(): void {
    detail.replaceChildren();
    const { node: chosen } = store.state;
    const node = chosen === null || !marked.has(chosen) ? undefined : onnx.nodes[chosen];
    if (!node) return;
    const attributes = Object.entries(node.attributes);
    const table = (side: "inputs" | "outputs", last: string) =>
      simpleTable([side === "inputs" ? "input" : "output", "shape", "type", "size", last], tensorRows(node[side], side), [3]);
    detail.append(section(`${node.op_type}: ${node.name}`, h("div", { class: "columns" },
      h("div", {}, facts([
        ["Became", fateTitle(node.fate)], ["Why", node.why], ["Domain", node.domain],
        ["Layers", node.layers.length === 0 ? "" : h("span", { class: "chips" }, node.layers.map((layer) =>
          h("button", { type: "button", class: "chip", "data-layer-tip": layer, click: () => store.show("layers", layer) }, `${layer}: ${model.shortNames[layer]!}`)))],
        ["Shares them with", node.layers.length === 0 ? "" : `${new Set(node.layers.flatMap((layer) => data.nodesOf(layer))).size - 1} other nodes`],
        ...attributes.map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const),
      ]), copyButton(() => node.name, "Copy name")),
      h("div", {}, table("inputs", "comes from"), table("outputs", "read by")))));
  }

  function mark(nodes: ReadonlySet<number>, node: number | null): void {
    marked = nodes;
    const layers = new Set([...nodes].flatMap((one) => onnx.nodes[one]!.layers));
    mine = true;
    store.update({ node, selected: layers, focus: layers.size === 1 ? [...layers][0]! : null });
    mine = false;
    drawNode();
    drawFoot();
  }

  // One node, whatever the filter hides.
  function choose(node: number): void {
    if (!grid.rows.includes(node)) {
      words = search.value = fate = "";
      fill();
    }
    mark(new Set([node]), node);
    grid.reveal(node);
    grid.refresh();
  }

  // The nodes of the layers that were selected elsewhere; the first of them may be out of sight.
  function follow(): void {
    const nodes = [...store.state.selected].flatMap((layer) => data.nodesOf(layer)).sort((a, b) => a - b);
    marked = new Set(nodes);
    drawNode();
    drawFoot();
    if (nodes.length > 0) grid.reveal(nodes[0]!);
    grid.refresh();
  }

  const bars = barList(Object.entries(onnx.fates).map(([name, count]) => ({
    label: fateTitle(name), value: count, text: String(count), key: kFateKeys[name] ?? "grey", tip: "Show these nodes",
    click: () => { fate = name; fill(); },
  })), "What became of the nodes");
  const own = onnx.own_layers;
  const head = section(onnx.file.split("/").pop()!, h("p", {}, onnx.text), onnx.note !== "" && h("p", { class: "dim" }, onnx.note),
    h("div", { class: "columns" }, h("div", {}, bars), facts([
      ["Producer", onnx.producer], ["Opset", onnx.opset === 0 ? "" : String(onnx.opset)], ["Graph", onnx.name],
      ["Initializers", `${data.initializers.length}, ${numbers.bytes(data.initializerBytes)}`],
      ["Layers without a node", own.length === 0 ? "none" : h("span", { class: "chips" }, own.slice(0, kOwn).map((layer) =>
        h("button", { type: "button", class: "chip", "data-layer-tip": layer, click: () => store.show("layers", layer) }, `${layer}: ${model.shortNames[layer]!}`)),
        own.length > kOwn && h("button", { type: "button", class: "chip", click: () => store.update({ view: "layers", selected: new Set(own), focus: null }) }, `all ${own.length} in the table`))],
    ])));
  fill();
  return {
    root: h("div", { class: "view model" }, head, h("div", { class: "toolbar" }, search, fates, counter), h("div", { class: "compare-grid" }, grid.root), detail),
    shown: () => {
      const { node, selected } = store.state;
      if (node !== null && !marked.has(node)) choose(node);
      else if ([...marked].flatMap((one) => onnx.nodes[one]!.layers).some((layer) => !selected.has(layer)) || marked.size === 0) follow();
    },
    changed: (state: Readonly<State>, before: Readonly<State>) => {
      if (mine) return;
      if (state.node !== before.node && state.node !== null) choose(state.node);
      else if (state.selected !== before.selected) follow();
    },
    printed: () => simpleTable(columns.map((column) => column.title), grid.rows.slice(0, kPrinted).map((node) => columns.map((column) => h("span", {}, column.show(node)))),
      columns.flatMap((column, i) => (column.numeric ? [i] : []))),
    keys: (event) => {
      if (event.key !== "/") return false;
      search.focus();
      search.select();
      return true;
    },
  };
}
