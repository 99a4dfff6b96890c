// SPDX-License-Identifier: Apache-2.0
//
// Two engines: the difference of their layer sums as a waterfall, every row aligned through ONNX nodes, fusions lost and
// new, precision changes, the checks of --fail-if, and engines side by side.
import { exactSum } from "../data/aggregate";
import { groupFamily, legend, shortPath, typicalMs, type EngineModel } from "../data/engine_model";
import { splitWords } from "../data/filter";
import * as numbers from "../data/numbers";
import { precisionKey } from "../data/palette";
import type { FusionChange, Group, MatchedRow, Pair } from "../data/schema";
import { append, breakable, choice, facts, h, section, simpleTable, swatch, type Child } from "../ui/dom";
import { Grid, type GridColumn } from "../ui/grid";
import { pictureSection } from "../ui/picture";
import type { Store } from "../ui/store";
import { barList } from "./bars";
import type { View } from "./view";
import { drawScatter } from "./scatter";
import { makeSweepChart } from "./sweep";
import { drawWaterfall } from "./waterfall";

type RowFilter = "all" | "changed" | "precision" | "tactic" | "fusion" | "alone";

interface CompareColumn extends GridColumn { value: (row: MatchedRow) => number | string; show: (row: MatchedRow) => Child | Child[] }

const kRowFilters: readonly (readonly [RowFilter, string])[] = [["all", "All"], ["changed", "Faster or slower"], ["precision", "Precision"], ["tactic", "Tactic"], ["fusion", "Fusion"], ["alone", "One side only"]];

function keep(row: MatchedRow, filter: RowFilter): boolean {
  switch (filter) {
    case "changed": return row.status === "faster" || row.status === "slower";
    case "precision": return row.precision_changed;
    case "tactic": return row.tactic_changed;
    case "fusion": return row.fusion !== "same";
    case "alone": return row.status === "added" || row.status === "removed";
    default: return true;
  }
}

function errorsKnown(model: EngineModel): boolean {
  return model.layers.some((layer) => layer.error?.local != null);
}

function errorOf(model: EngineModel, row: MatchedRow): number {
  return row.candidate_layers.reduce((most, index) => Math.max(Number.isNaN(most) ? 0 : most, model.layers[index]!.error?.local ?? most), NaN);
}

// What a narrower type costs and brings, layer by layer: error upwards, time won to the right. Top right is fast but
// wrong, bottom left is right for nothing.
function drawTrade(pair: Pair, b: EngineModel, width: number, pick: (row: number) => void): HTMLElement {
  const rowOf = new Map(pair.rows.flatMap((row, i) => row.candidate_layers.map((layer): [number, number] => [layer, i])));
  const won = (layer: number) => -(pair.rows[rowOf.get(layer) ?? -1]?.delta_ms ?? NaN);
  return drawScatter(b, {
    width, height: 340, label: "Error against time won", colours: "precision", selected: new Set(), pick: (layer) => { const row = rowOf.get(layer); if (row !== undefined) pick(row); },
    x: { title: "Time won, ms (rows that became slower are not shown)", of: won, show: numbers.milliseconds },
    y: { title: "Own error of the layer", of: (layer) => b.layers[layer]!.error?.local, show: numbers.scientific },
  });
}

function ratio(row: MatchedRow): number {
  return row.baseline_ms && row.candidate_ms ? row.baseline_ms / row.candidate_ms : NaN;
}

export function makeCompare(store: Store): View {
  const comparison = store.analysis.comparison!;
  const names = store.models.map((model) => model.engine.name);
  const stage = h("div", { class: "compare-pair" });
  let draw = () => {};
  let printed = () => h("div");

  function pairView(pair: Pair): void {
    const [a, b] = [store.models[pair.baseline]!, store.models[pair.candidate]!];
    const title = [names[pair.baseline]!, names[pair.candidate]!] as const;
    let filter: RowFilter = "all";
    let words = "";
    let sort: { id: string; descending: boolean } | null = null;
    let selected: ReadonlySet<number> = new Set();
    const area = h("div", { class: "chart" });
    const detail = h("div", { class: "pair-detail" });
    let fall: "waterfall" | "waterfall_by_type" = "waterfall";

    const number = (id: string, text: string, tip: string, width: number, value: (row: MatchedRow) => number, show: (value: number) => string): CompareColumn =>
      ({ id, title: text, tip, width, numeric: true, value, show: (row) => show(value(row)) });
    const text = (id: string, heading: string, tip: string, width: number, value: (row: MatchedRow) => string): CompareColumn =>
      ({ id, title: heading, tip, width, numeric: false, value, show: (row) => h("span", { title: value(row) }, value(row)) });
    const columns: CompareColumn[] = [
      { ...text("label", "Rows (ONNX nodes)", "Smallest groups of layers that implement the same ONNX nodes in both", 280, (row) => row.label), grow: true, show: (row) => h("span", { title: row.label }, shortPath(row.label)) },
      number("a", "A ms", title[0], 84, (row) => row.baseline_ms ?? NaN, numbers.milliseconds),
      number("b", "B ms", title[1], 84, (row) => row.candidate_ms ?? NaN, numbers.milliseconds),
      { id: "delta", title: "B − A ms", tip: "Negative: B is faster", width: 96, numeric: true, value: (row) => row.delta_ms ?? NaN,
        show: (row) => h("span", { class: `status-${row.status}` }, numbers.signedMilliseconds(row.delta_ms)) },
      number("ratio", "A / B", "Above 1: B is faster", 66, ratio, (value) => (Number.isNaN(value) ? numbers.kUnknown : `${value.toFixed(2)}×`)),
      text("status", "Status", "Against the noise threshold", 76, (row) => row.status),
      text("precision", "Precision", "A → B where they differ", 118, (row) => (row.precision_changed ? `${row.baseline_precision || numbers.kUnknown} → ${row.candidate_precision || numbers.kUnknown}` : row.baseline_precision)),
      text("fusion", "Fusion", "fused: fewer layers in B; split: more", 86, (row) => (row.fusion === "same" ? "" : row.fusion)),
      text("tactic", "Tactic", "Tactic names differ", 70, (row) => (row.tactic_changed ? "changed" : "")),
      number("layers_a", "A layers", "Layers of A in the row", 80, (row) => row.baseline_layers.length, String),
      number("layers_b", "B layers", "Layers of B in the row", 80, (row) => row.candidate_layers.length, String),
      ...(errorsKnown(b) ? [number("error", "B error", "Largest own error of B's layers against the reference", 84, (row) => errorOf(b, row), numbers.scientific)] : []),
      text("match", "Matched by", "How they were found to belong together", 100, (row) => row.match),
    ];
    const grid = new Grid({
      label: "Aligned layers", columns: () => columns,
      cell: (row, column) => (column as CompareColumn).show(pair.rows[row]!),
      sortedBy: () => sort, selected: () => selected,
      sort: (column) => {
        sort = sort?.id !== column.id ? { id: column.id, descending: column.numeric } : sort.descending === column.numeric ? { id: column.id, descending: !column.numeric } : null;
        fill();
      },
      select: (rows, focus) => {
        selected = rows;
        grid.refresh();
        drawFoot();
        drawDetail(focus);
      },
    });
    const counter = h("span", { class: "counter", role: "status" });
    const search = h("input", { type: "search", class: "filter", placeholder: "Filter by name", "aria-label": "Filter aligned rows", spellcheck: "false" });
    search.addEventListener("input", () => {
      words = search.value;
      fill();
    });

    function fill(): void {
      const wanted = splitWords(words.toLowerCase());
      const rows = pair.rows.map((_, i) => i).filter((i) => {
        const row = pair.rows[i]!;
        const haystack = wanted.length > 0 ? `${row.label}\n${row.origins.join("\n")}\n${row.baseline_layers.map((l) => a.layers[l]!.name).join("\n")}`.toLowerCase() : "";
        return keep(row, filter) && wanted.every((word) => haystack.includes(word));
      });
      const column = columns.find((one) => one.id === sort?.id);
      if (column && sort) {
        const sign = sort.descending ? -1 : 1;
        rows.sort((p, q) => {
          const [x, y] = [column.value(pair.rows[p]!), column.value(pair.rows[q]!)];
          if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || p - q;
          return sign * (x < y ? -1 : x > y ? 1 : 0) || p - q;
        });
      }
      counter.textContent = `${rows.length} of ${pair.rows.length} rows`;
      grid.setRows(rows);
      drawFoot();
    }

    function drawFoot(): void {
      const rows = grid.rows.filter((row) => selected.has(row));
      const counted = rows.length > 1 ? rows : grid.rows;
      const sum = (read: (row: MatchedRow) => number | null) => exactSum(counted.map((row) => read(pair.rows[row]!) ?? 0));
      const cells: Record<string, string> = { label: rows.length > 1 ? `Σ of ${rows.length} selected rows` : `Σ of ${counted.length} rows`, a: numbers.milliseconds(sum((row) => row.baseline_ms)), b: numbers.milliseconds(sum((row) => row.candidate_ms)),
        delta: numbers.signedMilliseconds(sum((row) => row.delta_ms)) };
      grid.foot.replaceChildren(h("div", { class: "grid-foot-row short" }, columns.map((column) => h("div", { class: column.numeric ? "number" : null, "data-aggregate": column.id }, h("b", {}, cells[column.id] ?? "")))));
    }

    function side(model: typeof a, engine: number, layers: readonly number[]): Child[] {
      return [h("h3", {}, names[engine]!), layers.length === 0 ? h("p", { class: "dim" }, "has no such layer") : h("ul", { class: "tensors" }, layers.map((index) => {
        const layer = model.layers[index]!;
        return h("li", {}, h("button", { type: "button", class: "link", click: () => store.update({ engine, view: "layers", focus: index, selected: new Set([index]) }) }, breakable(layer.name)),
          h("span", { class: "dim" }, `${layer.type} ${layer.precision} · ${numbers.milliseconds(layer.time?.average_ms)} ms · ${layer.tactic} · ${layer.inputs.filter((use) => use.role === "activation").map((use) => `${numbers.shape(use.shape)} ${use.type}`).join(", ")} → ${layer.outputs.map((use) => `${numbers.shape(use.shape)} ${use.type} ${use.format}`).join(", ")}`));
      }))];
    }

    function drawDetail(focus: number | null): void {
      const row = focus === null ? undefined : pair.rows[focus];
      detail.replaceChildren();
      if (row) detail.append(section(`Row ${row.id}: ${row.label}`, h("div", { class: "columns" }, h("div", {}, ...side(a, pair.baseline, row.baseline_layers)), h("div", {}, ...side(b, pair.candidate, row.candidate_layers)))));
    }

    function selectRows(rows: readonly number[]): void {
      filter = "all";
      selected = new Set(rows);
      fill();
      const first = rows[0];
      if (first !== undefined) grid.reveal(first);
      drawDetail(rows.length === 1 ? first! : null);
    }

    function fusions(heading: string, changes: readonly FusionChange[]): HTMLElement | null {
      return changes.length === 0 ? null : section(`${heading} (${changes.length})`, h("ul", {}, changes.slice(0, 50).map((change) =>
        h("li", {}, h("button", { type: "button", class: "link", title: change.nodes.join("\n"), click: () => selectRows([change.row]) }, breakable(change.text))))), changes.length > 50 && h("p", { class: "dim" }, `and ${changes.length - 50} more`));
    }

    const trade = h("div", { class: "chart" });
    draw = () => {
      if (errorsKnown(b)) trade.replaceChildren(drawTrade(pair, b, trade.clientWidth || 900, (row) => selectRows([row])));
      if (pair.baseline_sum_ms === null || pair.candidate_sum_ms === null) area.replaceChildren(h("p", { class: "dim" }, "One of the engines has no layer profile, so there is no waterfall."));
      else area.replaceChildren(drawWaterfall(pair.baseline_sum_ms, pair.candidate_sum_ms, pair[fall], area.clientWidth || 900, title, selectRows));
    };
    printed = () => simpleTable(columns.map((column) => column.title), grid.rows.map((row) => columns.map((column) => h("span", {}, column.show(pair.rows[row]!)))),
      columns.flatMap((column, i) => (column.numeric ? [i] : [])));
    const { latency } = pair;
    const [fast, slow] = [typicalMs(b.engine), typicalMs(a.engine)];
    const speed = pair.baseline_sum_ms && pair.candidate_sum_ms ? `${(pair.baseline_sum_ms / pair.candidate_sum_ms).toFixed(3)}×` : numbers.kUnknown;
    stage.replaceChildren();
    append(stage, [
      h("div", { class: "tiles" },
        sideTile("A, baseline", title[0], slow, pair.baseline_sum_ms), sideTile("B, candidate", title[1], fast, pair.candidate_sum_ms),
        latency ? tile("B against A", `${numbers.signedPercent(latency.change_percent, 2)} %`,
          `${latency.low_percent === null ? "" : `95 %: ${numbers.signedPercent(latency.low_percent, 2)} … ${numbers.signedPercent(latency.high_percent, 2)} %, `}${latency.significant ? "significant" : "not significant"}; ${latency.samples.join(" and ")} runs`)
          : tile("B against A", slow && fast ? `${numbers.signedPercent((100 * (fast - slow)) / slow, 2)} %` : numbers.kUnknown, slow && fast ? "of the latency" : "not both have times"),
        tile("Sum of layers, B − A", `${numbers.signedMilliseconds(pair.delta_ms)} ms`, `A / B = ${speed}`),
        tile("Fusions", `${pair.fusions_lost.length} lost, ${pair.fusions_new.length} new`, `rows with another precision: ${pair.precision_changes.length}, tactic: ${pair.tactic_changes.length}`)),
      ...notes(pair), checks(pair),
      pictureSection("Where the difference comes from", "waterfall", area, choice("By", [["waterfall", "Row"], ["waterfall_by_type", "Layer type"]], fall, (value) => { fall = value; draw(); })),
      h("div", { class: "toolbar" }, search, choice("Show", kRowFilters, filter, (value) => { filter = value; fill(); }), counter),
      h("div", { class: "compare-grid" }, grid.root), detail,
      errorsKnown(b) && pictureSection(`Error against time won: ${title[1]}`, "error_against_time", trade, h("div", { class: "legend" }, legend(b, "precision").map((entry) => swatch(entry.colour, entry.label)))),
      h("div", { class: "columns" }, fusions("Fusions lost", pair.fusions_lost), fusions("Fusions new", pair.fusions_new))]);
    fill();
    draw();
  }

  function tile(heading: string, value: string, note: string): HTMLElement {
    return h("div", { class: "tile" }, h("span", { class: "tile-title" }, heading), h("strong", { class: "breakable" }, value), h("span", { class: "tile-note" }, note));
  }

  function sideTile(heading: string, name: string, latency: number | null, sum: number | null): HTMLElement {
    return tile(`${heading}: ${name}`, latency === null ? numbers.kUnknown : `${numbers.milliseconds(latency)} ms`,
      `${latency === null ? "latency not measured" : "median latency"}; layers ${sum === null ? "not timed" : `add up to ${numbers.milliseconds(sum)} ms`}`);
  }

  function notes(pair: Pair): HTMLElement[] {
    return pair.notes.length === 0 ? [] : [section("Notes on the comparison", h("ul", { class: "notes" }, pair.notes.map((note) => h("li", { class: `note-${note.severity}` }, h("b", {}, note.severity), " ", note.text))))];
  }

  function checks(pair: Pair): HTMLElement | null {
    const index = comparison.pairs.indexOf(pair);
    const mine = comparison.checks.filter((check) => check.pair === index);
    return mine.length === 0 ? null : section("Checks", simpleTable(["condition", "", "figure"], mine.map((check) => [check.expression, h("b", { class: check.failed ? "failed" : "passed" }, check.failed ? "FAILED" : "passed"), check.text])));
  }

  // All engines, one column each: settings, and stacked bars by type and by precision.
  function overview(): HTMLElement {
    const { models } = store;
    const stacked = (by: "by_type" | "by_precision", key: (model: EngineModel, group: Group) => string) => barList(models.map((model) => ({
      label: model.engine.name, value: model.sumMs, key: "grey", text: `${numbers.milliseconds(model.sumMs)} ms`,
      parts: model.engine.groups[by].map((group) => ({ value: group.time_ms ?? 0, key: key(model, group), tip: `${model.engine.name}, ${group.key}: ${group.count} layers, ${numbers.milliseconds(group.time_ms)} ms` })),
    })), "Engines");
    const keys = [...new Set(models.flatMap((model) => model.engine.groups.by_type.map((group) => group.key)))];
    const cell = (model: (typeof models)[number], key: string) => model.engine.groups.by_type.find((group) => group.key === key);
    const byType = simpleTable(["ms by type", ...names], keys.map((key) => [key, ...models.map((model) => numbers.milliseconds(cell(model, key)?.time_ms ?? 0))]), models.map((_, i) => i + 1));
    const settings = [...new Set(models.flatMap((model) => Object.keys(model.engine.build_options)))].filter((key) => new Set(models.map((model) => model.engine.build_options[key])).size > 1);
    return h("div", { class: "columns" }, section("Time by type", stacked("by_type", (model, group) => groupFamily(model, group.layers)), byType),
      section("Time by precision", stacked("by_precision", (_, group) => precisionKey(group.key)), simpleTable(["", ...names], [
        ["engine latency ms", ...models.map((model) => numbers.milliseconds(typicalMs(model.engine)))], ["layers", ...models.map((model) => String(model.layers.length))],
        ["weights", ...models.map((model) => numbers.bytes(model.engine.statistics.weights_bytes))], ["peak activations", ...models.map((model) => numbers.bytes(model.engine.memory.peak_bytes))],
        ["overhead ms", ...models.map((model) => numbers.milliseconds(model.engine.statistics.overhead_ms))], ["device", ...models.map((model) => model.engine.device.name)],
        ...settings.map((key) => [key, ...models.map((model) => model.engine.build_options[key] ?? numbers.kUnknown)])], models.map((_, i) => i + 1)), settings.length === 0 && facts([["Build options", "no differences known"]])));
  }

  const chooser = h("select", { "aria-label": "Pair" }, comparison.pairs.map((pair, i) => h("option", { value: i }, `${names[pair.baseline]} → ${names[pair.candidate]}`)));
  chooser.addEventListener("change", () => pairView(comparison.pairs[Number(chooser.value)]!));
  if (comparison.pairs.length > 0) pairView(comparison.pairs[0]!);
  const sweep = makeSweepChart(store.models.map((model) => model.engine));
  return {
    root: h("div", { class: "view compare" }, sweep?.root ?? null, comparison.pairs.length > 1 && h("div", { class: "toolbar" }, h("label", {}, "Pair ", chooser)), stage, overview()),
    shown: () => {
      draw();
      sweep?.draw();
    },
    printed: () => printed(),
  };
}
