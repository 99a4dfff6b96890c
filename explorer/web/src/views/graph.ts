// SPDX-License-Identifier: Apache-2.0
//
// The engine as a graph. Repeated blocks (layers of a transformer, stages of a CNN) start folded when there are many
// layers; a double click opens or folds one. Beyond kMostNodes boxes a picture helps nobody, and only the neighbourhood
// of the chosen layer is drawn.
import { blocks, executionOrder, foldGraph, neighbourhood, neighbourhoodUpTo, splitEdges, type DisplayGraph, type GraphEdge, type GraphNode } from "../data/blocks";
import { layerColour, legend, type ColourMode } from "../data/engine_model";
import { filterLayers, kNoFacets } from "../data/filter";
import { layoutGraph, type Placed } from "../data/layout";
import * as numbers from "../data/numbers";
import { precisionKey } from "../data/palette";
import { choice, h, s, swatch } from "../ui/dom";
import { PanZoom } from "../ui/pan_zoom";
import { pngButton, standaloneSvg, svgButton } from "../ui/picture";
import type { State, Store } from "../ui/store";
import { fitText } from "../ui/text_width";
import type { View } from "./view";

const kMostNodes = 1200;
const kFoldFrom = 60;
const kRadius = 4;
const kAround = 250;
const kMostReaders = 5;
const kWidth = 262;
const kText = kWidth - 22; // beside the stripe

export const kColourModes: readonly (readonly [ColourMode, string])[] = [["type", "Type"], ["precision", "Precision"], ["time", "Time"], ["verdict", "Bound by"]];

export function makeGraph(store: Store): View {
  const { model } = store;
  const folded = blocks(model);
  const open = new Set<string>();
  if (model.layers.length < kFoldFrom) for (const block of folded.keys()) open.add(block);
  const connected = model.engine.edges.length > 0;
  let beam = false;
  let details = false;
  let allEdges = false;
  let marks = new Map<string, GraphEdge[]>();
  let graph: DisplayGraph = { nodes: [], edges: [], nodeOf: new Map() };
  let placed: Placed | null = null;
  const boxOf = new Map<string, SVGGElement>();

  const scene = s("g");
  const svg = s("svg", { class: "graph-canvas", tabindex: 0, role: "group", "aria-label": "Graph of layers" }, s("defs", {},
    s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8z", class: "arrow" }))), scene);
  const zoom = new PanZoom(svg, { least: 0.02, most: 4, changed: ({ k, x, y }) => scene.setAttribute("transform", `translate(${x},${y}) scale(${k})`) });
  const message = h("span", { class: "counter", role: "status" });
  const key = h("div", { class: "legend" });

  const search = h("input", { type: "search", class: "filter graph-search", placeholder: "Search, Enter for the next hit", "aria-label": "Search in the graph", spellcheck: "false" });
  let hits: number[] = [];
  let hit = -1;
  search.addEventListener("input", () => {
    hits = search.value.trim() === "" ? [] : filterLayers(model, search.value, kNoFacets);
    hit = -1;
    drawMarks();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || hits.length === 0) return;
    hit = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
    store.focus(hits[hit]!);
  });

  function visibleLayers(): Set<number> | null {
    if (!beam) return null;
    return neighbourhood(model, store.state.focus ?? 0, kRadius);
  }

  function nodeSize(node: GraphNode): { width: number; height: number } {
    return { width: kWidth, height: node.folded ? 52 : details && node.tensor === undefined ? 66 : 40 };
  }

  function rebuild(): void {
    graph = foldGraph(model, folded, open, visibleLayers());
    let note = "";
    if (graph.nodes.length > kMostNodes) {
      const around = neighbourhoodUpTo(model, store.state.focus ?? 0, kAround);
      note = `${graph.nodes.length} boxes are too many to draw: shown is the neighbourhood of ${model.shortNames[store.state.focus ?? 0]!}`;
      graph = foldGraph(model, folded, open, around);
    }
    const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
    const edges = !connected ? { drawn: executionOrder(graph), marks: [] } : allEdges ? { drawn: graph.edges, marks: [] } : splitEdges(graph, kMostReaders);
    marks = new Map();
    for (const edge of edges.marks) marks.set(edge.to, [...(marks.get(edge.to) ?? []), edge]);
    placed = layoutGraph(graph, edges.drawn, (id) => nodeSize(nodes.get(id)!));
    const drawn = graph.nodes.filter((node) => node.tensor === undefined).length;
    if (!connected) note = "The file names no tensors: dashed lines are the order of execution";
    message.textContent = note || `${drawn} boxes, ${model.layers.length} layers${folded.size > 0 ? `, ${folded.size - open.size} of ${folded.size} blocks folded` : ""}`;
    draw();
  }

  function draw(): void {
    if (!placed) return;
    boxOf.clear();
    const tensorsOf = new Map(graph.edges.map((edge) => [`${edge.from}\n${edge.to}`, edge.tensors]));
    const lines = placed.lines.map(({ from, to, points }) => {
      const tensors = (tensorsOf.get(`${from}\n${to}`) ?? []).map((index) => model.engine.tensors[index]!);
      const tip = tensors.slice(0, 4).map((t) => `${t.name}\n${numbers.shape(t.shape)} ${t.type} ${numbers.bytes(t.bytes)}`).join("\n");
      const path = `M${points.map((p) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("L")}`;
      // In precision's colours the lines have those of their tensors.
      const stroke = store.state.colours === "precision" && tensors[0] ? `stroke:var(--k-${precisionKey(tensors[0].type)});stroke-width:2` : null;
      return s("g", { class: connected ? "edge" : "edge order", "data-tip": tip || null }, s("path", { d: path, class: "edge-hit" }), s("path", { d: path, class: "edge-line", style: stroke, "marker-end": "url(#arrow)" }));
    });
    scene.replaceChildren(s("g", {}, lines), s("g", {}, graph.nodes.map(drawNode)));
    key.replaceChildren(...legend(model, store.state.colours).map((entry) => swatch(entry.colour, entry.label)));
    drawMarks();
  }

  function drawNode(node: GraphNode): SVGGElement {
    const box = placed!.boxes.get(node.id)!;
    const { width, height } = nodeSize(node);
    const group = s("g", { class: node.folded ? "node folded" : "node", transform: `translate(${(box.x - width / 2).toFixed(1)},${(box.y - height / 2).toFixed(1)})` });
    const time = node.layers.reduce((sum, layer) => sum + (model.timeMs[layer] || 0), 0);
    const percent = model.sumMs > 0 ? `${numbers.percent((100 * time) / model.sumMs)} %` : "";
    if (node.tensor !== undefined) {
      const tensor = model.engine.tensors[node.tensor]!;
      group.classList.add("binding");
      group.setAttribute("data-tip", `${tensor.role} of the network\n${tensor.name}\n${numbers.shape(tensor.shape)} ${tensor.type} ${tensor.format}`);
      group.append(s("rect", { width, height, rx: 20, class: "node-back" }), s("text", { x: width / 2, y: 16, class: "node-name centred" }, fitText(tensor.name, kText - 10, { bold: true, keepEnd: true })),
        s("text", { x: width / 2, y: 32, class: "node-fact centred" }, fitText(`${tensor.role} ${numbers.shape(tensor.shape)} ${tensor.type}`, kText - 10)));
    } else if (node.folded) {
      group.setAttribute("data-block", node.block);
      group.setAttribute("data-tip", `${node.block}\n${node.layers.length} layers, ${numbers.milliseconds(time)} ms\nDouble click opens the block`);
      group.append(s("rect", { width, height, rx: 4, class: "node-back" }), ...stripe(node, height),
        s("text", { x: 14, y: 20, class: "node-name" }, fitText(node.block, kText - 16, { bold: true, keepEnd: true })),
        s("text", { x: 14, y: 39, class: "node-fact" }, `${node.layers.length} layers · ${numbers.milliseconds(time)} ms · ${percent}`),
        s("text", { x: width - 18, y: 21, class: "node-plus" }, "+"));
    } else {
      const index = node.layers[0]!;
      const layer = model.layers[index]!;
      group.setAttribute("data-layer", String(index));
      group.setAttribute("data-layer-tip", String(index));
      group.append(s("rect", { width, height, rx: 4, class: "node-back" }), ...stripe(node, height),
        s("text", { x: 14, y: 16, class: "node-name" }, fitText(model.shortNames[index]!, kText, { bold: true, keepEnd: true })),
        s("text", { x: 14, y: 32, class: "node-fact" }, fitText([`${numbers.milliseconds(layer.time?.average_ms)} ms`, `${layer.type} ${layer.precision}`.trim()].filter((part) => part !== "").join(" · "), kText)));
      if (details) {
        const out = layer.outputs[0];
        group.append(s("text", { x: 14, y: 46, class: "node-fact" }, fitText(out ? `→ ${numbers.shape(out.shape)} ${out.type}` : "no output", kText)),
          s("text", { x: 14, y: 60, class: "node-fact" }, fitText(layer.tactic, kText)));
      }
    }
    (marks.get(node.id) ?? []).forEach((edge, i) => group.append(drawMark(edge, i, nodeSize(node).width)));
    boxOf.set(node.id, group);
    return group;
  }

  // A line that is not drawn: a dot at the reader's upper edge that names where it comes from.
  function drawMark(edge: GraphEdge, position: number, width: number): SVGGElement {
    const names = edge.tensors.map((index) => model.engine.tensors[index]!.name).slice(0, 3).join("\n");
    const source = graph.nodes.find((node) => node.id === edge.from)!.layers[0];
    return s("g", { class: "edge-mark", "data-tip": `Also reads\n${names}\nfrom ${source === undefined ? "outside" : model.layers[source]!.name}`,
      click: (event: MouseEvent) => {
        event.stopPropagation();
        if (source !== undefined) store.focus(source);
      } },
      s("path", { d: `M${width - 20 - position * 14} -9v6`, class: "edge-line" }), s("circle", { cx: width - 20 - position * 14, cy: 0, r: 4.5 }));
  }

  // The colour at a node's left edge; a block shows its layers' shares of time.
  function stripe(node: GraphNode, height: number): SVGRectElement[] {
    const weights = node.layers.map((layer) => model.timeMs[layer] || 0);
    const total = weights.reduce((a, b) => a + b, 0);
    let y = 0;
    return node.layers.map((layer, i) => {
      const part = total > 0 ? (weights[i]! / total) * height : height / node.layers.length;
      const rect = s("rect", { x: 0, y: y.toFixed(2), width: 8, height: Math.max(0.1, part).toFixed(2), class: `k-${layerColour(model, layer, store.state.colours).key}` });
      y += part;
      return rect;
    });
  }

  function drawMarks(): void {
    const found = new Set(hits.map((layer) => graph.nodeOf.get(layer)));
    const chosen = new Set([...store.state.selected].map((layer) => graph.nodeOf.get(layer)));
    for (const [id, group] of boxOf) {
      group.classList.toggle("hit", found.has(id));
      group.classList.toggle("selected", chosen.has(id));
      group.classList.toggle("faded", hits.length > 0 && !found.has(id) && !chosen.has(id));
    }
    if (search.value.trim() !== "") message.textContent = `${hits.length} layers found`;
  }

  function fit(): void {
    if (!placed || svg.clientWidth === 0) return;
    const k = Math.min(1, svg.clientWidth / placed.width, svg.clientHeight / placed.height);
    zoom.set({ k, x: (svg.clientWidth - placed.width * k) / 2, y: Math.max(0, (svg.clientHeight - placed.height * k) / 2) });
  }

  // Readable size, from the top: a network is long, and all of it at once is a line.
  function home(): void {
    if (!placed || svg.clientWidth === 0) return;
    const k = Math.max(0.75, Math.min(1, svg.clientWidth / placed.width));
    const first = placed.boxes.get(graph.nodes[0]?.id ?? "");  // the first layer: inputs come after layers
    const middle = placed.width * k <= svg.clientWidth || !first ? placed.width / 2 : first.x;
    zoom.set({ k, x: svg.clientWidth / 2 - middle * k, y: 8 });
  }

  function centre(layer: number): void {
    const box = placed?.boxes.get(graph.nodeOf.get(layer) ?? "");
    if (!box) return;
    const k = Math.max(zoom.transform.k, 0.6);
    zoom.set({ k, x: svg.clientWidth / 2 - box.x * k, y: svg.clientHeight / 2 - box.y * k });
  }

  // A layer inside a folded block is shown by opening the block.
  function reveal(layer: number): void {
    const inside = [...folded].find(([block, members]) => !open.has(block) && members.includes(layer));
    if (inside) {
      open.add(inside[0]);
      rebuild();
    } else if (beam || !graph.nodeOf.has(layer)) {
      rebuild();
    }
    drawMarks();
    centre(layer);
  }

  function toggle(block: string): void {
    if (!open.delete(block)) open.add(block);
    const anchor = folded.get(block)?.[0];
    rebuild();
    if (anchor !== undefined) centre(anchor);
  }

  // By keyboard: opens or folds the block of the chosen layers.
  function openChosen(): void {
    const chosen = store.state.focus ?? [...store.state.selected][0];
    const block = [...folded].find(([, members]) => chosen !== undefined && members.includes(chosen))?.[0];
    if (block !== undefined) toggle(block);
  }

  scene.addEventListener("click", (event) => {
    if (zoom.dragged) return;
    const target = (event.target as Element).closest<SVGGElement>("[data-layer], [data-block]");
    if (target?.dataset.layer !== undefined) {
      centreOnFocus = false;
      store.focus(Number(target.dataset.layer));
      centreOnFocus = true;
    } else if (target?.dataset.block !== undefined) {
      store.update({ selected: new Set(folded.get(target.dataset.block)), focus: null });
    }
  });
  scene.addEventListener("dblclick", (event) => {
    const target = (event.target as Element).closest<SVGGElement>("[data-layer], [data-block]");
    const block = target?.dataset.block ?? graph.nodes.find((node) => node.id === `l${target?.dataset.layer}`)?.block;
    if (block) toggle(block);
  });
  let centreOnFocus = true;

  function foldAll(fold: boolean): void {
    open.clear();
    if (!fold) for (const block of folded.keys()) open.add(block);
    rebuild();
    home();
  }

  const box = (label: string, tip: string, change: (on: boolean) => void) => {
    const input = h("input", { type: "checkbox" });
    input.addEventListener("change", () => change(input.checked));
    return h("label", { "data-tip": tip }, input, label);
  };
  const button = (title: string, tip: string, click: () => void) => h("button", { type: "button", "data-tip": tip, click }, title);
  const bar = h("div", { class: "toolbar" }, search, choice("Colour", kColourModes, store.state.colours, (colours) => store.update({ colours })),
    folded.size > 0 && button("Fold all", "Every block as one box", () => foldAll(true)), folded.size > 0 && button("Unfold all", "Every layer as a box", () => foldAll(false)),
    box("Shapes and tactics", "More lines in each box", (on) => { details = on; rebuild(); }),
    box("All lines", `Also those of tensors that more than ${kMostReaders} boxes read, shown as dots otherwise`, (on) => { allEdges = on; rebuild(); home(); }),
    box("Neighbourhood", `Only layers within ${kRadius} steps of the chosen one`, (on) => { beam = on; rebuild(); if (store.state.focus !== null) centre(store.state.focus); else home(); }),
    button("Fit", "All of it (0)", fit), button("Top", "Readable size, from the first layer", home),
    svgButton(() => `${model.engine.name}.graph`, standalone), pngButton(() => `${model.engine.name}.graph`, () => svg, standalone), message);

  // All of it, at full size, wherever it is zoomed to.
  function standalone(): string {
    const moved = scene.getAttribute("transform");
    scene.removeAttribute("transform");
    const text = standaloneSvg(svg, { x: 0, y: 0, width: placed!.width, height: placed!.height });
    if (moved !== null) scene.setAttribute("transform", moved);
    return text;
  }

  let started = false;
  return {
    root: h("div", { class: "view graph" }, bar, key, svg),
    shown: () => {
      if (!started) {
        started = true;
        rebuild();
        home();
      } else {
        draw();
      }
      if (store.state.focus !== null) reveal(store.state.focus);
    },
    changed: (state: Readonly<State>, before: Readonly<State>) => {
      if (state.colours !== before.colours) draw();
      if (state.focus !== before.focus && state.focus !== null && centreOnFocus) reveal(state.focus);
      else if (state.selected !== before.selected) drawMarks();
    },
    keys: (event) => {
      if (event.key === "/") search.focus();
      else if (event.key === "0") fit();
      else if (event.key === "Enter" && document.activeElement === svg) openChosen();
      else return false;
      return true;
    },
  };
}
