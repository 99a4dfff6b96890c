// SPDX-License-Identifier: Apache-2.0
//
// Memory over execution order: bytes alive while each layer runs, every tensor as a bar over its lifetime, the peak with
// its layer and tensors by name; weights by layer.
import { familyOf } from "../data/engine_model";
import { packLives, type Life, type PlacedLife } from "../data/packing";
import * as numbers from "../data/numbers";
import { breakable, h, s, section, simpleTable } from "../ui/dom";
import { pngButton } from "../ui/picture";
import type { State, Store } from "../ui/store";
import { barList } from "./bars";
import type { View } from "./view";

const kBuffers = 1500;
const kTop = 20;
const kLeft = 74;

export function makeMemory(store: Store): View {
  const { model } = store;
  const { memory, tensors, layers } = model.engine;
  const area = h("div", { class: "chart" });
  const steps = memory.steps;
  // A tensor that is a name for another's buffer takes no memory of its own.
  const lives = tensors.map((tensor, id): Life => ({ id, first: tensor.first, last: tensor.last, bytes: tensor.bytes ?? 0 }))
    .filter((life) => life.bytes > 0 && tensors[life.id]!.role !== "weights" && tensors[life.id]!.alias_of === null)
    .sort((a, b) => b.bytes - a.bytes || a.id - b.id);
  // Where the engine says that it puts them, they stand there; what is the caller's, or has no place in the file, above
  // its arena.
  const arena = memory.arena_bytes ?? null;
  const isPlaced = arena !== null && lives.some((life) => tensors[life.id]!.offset != null);
  const drawn = lives.slice(0, kBuffers);
  const own = drawn.filter((life) => isPlaced && tensors[life.id]!.offset != null);
  const placed: PlacedLife[] = [...own.map((life) => ({ ...life, offset: tensors[life.id]!.offset! })),
    ...packLives(drawn.filter((life) => !own.includes(life))).map((life) => ({ ...life, offset: life.offset + (isPlaced ? arena! : 0) }))];

  function draw(): void {
    const width = area.clientWidth || 800;
    const height = 420;
    const [right, bottom, top] = [width - 12, height - 34, 34];
    const highest = placed.reduce((most, life) => Math.max(most, life.offset + life.bytes), memory.peak_bytes) || 1;
    const x = (step: number) => kLeft + ((right - kLeft) * step) / Math.max(1, steps.length);
    const y = (size: number) => bottom - ((bottom - top) * size) / highest;
    const focus = store.state.focus;
    const touched = new Set(focus === null ? [] : [...layers[focus]!.inputs, ...layers[focus]!.outputs].map((use) => use.tensor));
    const bars = placed.map((life) => {
      const tensor = tensors[life.id]!;
      const owner = tensor.producers[0];
      const key = tensor.role === "input" || owner === undefined ? "grey" : familyOf(layers[owner]!)[0];
      return s("rect", {
        x: x(life.first).toFixed(1), width: Math.max(0.8, x(life.last + 1) - x(life.first) - 0.3).toFixed(1), y: y(life.offset + life.bytes).toFixed(1), height: Math.max(0.5, y(life.offset) - y(life.offset + life.bytes)).toFixed(1),
        class: `buffer k-${key}${touched.has(life.id) ? " selected" : ""}`, "data-tensor": life.id,
        "data-tip": `${tensor.name}\n${numbers.shape(tensor.shape)} ${tensor.type}, ${numbers.bytes(life.bytes)}\nalive from layer ${life.first} to ${life.last}${owner === undefined ? "" : `\nwritten by ${layers[owner]!.name}`}`,
        click: () => { if (owner !== undefined) store.focus(owner); },
      });
    });
    const outline = `M${steps.map((size, i) => `${x(i).toFixed(1)} ${y(size).toFixed(1)}L${x(i + 1).toFixed(1)} ${y(size).toFixed(1)}`).join("L")}`;
    const peak = memory.peak_layer;
    const peakMark = peak === null ? [] : [
      s("line", { x1: x(peak + 0.5), x2: x(peak + 0.5), y1: top - 12, y2: bottom, class: "peak-line" }),
      s("text", { x: Math.min(right - 4, Math.max(kLeft + 4, x(peak + 0.5))), y: top - 17, class: `roof-label ${x(peak) > (kLeft + right) / 2 ? "end" : ""}` }, `peak ${numbers.bytes(memory.peak_bytes)} at layer ${peak}: ${model.shortNames[peak]!}`)];
    const ticks = numbers.byteTicks(highest, 6);
    area.replaceChildren(s("svg", { class: "memory-map", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Lifetimes of tensors over execution order" },
      s("g", { class: "axis" }, ticks.map((size) => s("g", {}, s("line", { x1: kLeft, x2: right, y1: y(size), y2: y(size) }), s("text", { x: kLeft - 6, y: y(size) + 4, class: "end" }, numbers.bytes(size)))),
        numbers.ticks(0, steps.length, 10).filter((step) => Number.isInteger(step)).map((step) => s("text", { x: x(step), y: bottom + 16, class: "centred" }, String(step))),
        s("text", { x: (kLeft + right) / 2, y: height - 3, class: "centred axis-title" }, "layer, in execution order")),
      focus !== null && s("rect", { x: x(focus), width: Math.max(1, x(focus + 1) - x(focus)), y: top, height: bottom - top, class: "focus-column" }),
      s("g", {}, bars), s("path", { d: outline, class: "alive-line" }), peakMark));
  }

  const peakTensors = simpleTable(["tensor", "shape", "type", "size", "alive"], memory.peak_tensors.slice(0, kTop).map((index) => {
    const tensor = tensors[index]!;
    const owner = tensor.producers[0];
    return [owner === undefined ? breakable(tensor.name) : h("button", { type: "button", class: "link", click: () => store.focus(owner) }, breakable(tensor.name)), numbers.shape(tensor.shape), tensor.type, numbers.bytes(tensor.bytes), `${tensor.first} … ${tensor.last}`];
  }), [3, 4]);
  const heavy = layers.map((layer, i) => ({ i, bytes: layer.weights_bytes })).filter((one) => one.bytes > 0).sort((a, b) => b.bytes - a.bytes || a.i - b.i);
  const weights = barList(heavy.slice(0, kTop).map(({ i, bytes }) => ({
    label: model.shortNames[i]!, value: bytes, key: familyOf(layers[i]!)[0], text: numbers.bytes(bytes), tip: layers[i]!.name, click: () => store.focus(i),
  })), "Weights by layer");

  if (memory.peak_bytes === 0) {
    return { root: h("div", { class: "view memory" }, h("p", { class: "lead" }, "The files name no tensors with a size, so nothing is known of memory. An engine built with --profilingVerbosity=detailed tells them.")) };
  }
  return {
    root: h("div", { class: "view memory" },
      h("p", { class: "lead" }, `Peak ${numbers.bytes(memory.peak_bytes)}`, memory.peak_layer === null ? "" : ` while layer ${memory.peak_layer} runs: ${model.shortNames[memory.peak_layer]!}`, `. Weights ${numbers.bytes(memory.weights_bytes)}. ${memory.note}`),
      h("div", { class: "picture" }, pngButton(() => `${model.engine.name}.memory`, () => area.querySelector("svg")), area), h("p", { class: "dim" }, lives.length > kBuffers ? `The ${kBuffers} largest of ${lives.length} tensors are drawn. ` : "", "Each bar is a tensor over its lifetime, coloured by the layer that writes it; the line is the sum alive. ",
        isPlaced ? `Bars stand where the engine puts them in its ${numbers.bytes(arena)}; inputs and outputs, which are the caller's, and what has no place there, above.` : "Bars are stacked to be seen, not as the engine places them."),
      h("div", { class: "columns" },
        section(memory.peak_layer === null ? "At the peak" : `Alive at the peak (${memory.peak_tensors.length} tensors)`, peakTensors),
        section(`Weights by layer${heavy.length > kTop ? ` (the ${kTop} largest of ${heavy.length})` : ""}`, heavy.length > 0 ? weights : h("p", { class: "dim" }, "The file names no weights.")))),
    shown: draw,
    changed: (state: Readonly<State>, before: Readonly<State>) => { if (state.focus !== before.focus) draw(); },
  };
}
