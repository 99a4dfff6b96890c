// SPDX-License-Identifier: Apache-2.0
//
// The layer table: sort by any column, filter by text and by ticked values, choose columns, select any rows and see
// what they have in common under each column.
import { summarize } from "../data/aggregate";
import { cellText, columnById, initialColumns, kColumns, sortLayers, tableText, type Column } from "../data/columns";
import { isIdleView, layerColour } from "../data/engine_model";
import { facetCounts, filterLayers, kFacets, kNoFacets, type Facet } from "../data/filter";
import * as numbers from "../data/numbers";
import { breakable, copyButton, download, h, simpleTable, type Child } from "../ui/dom";
import { Grid, type GridColumn } from "../ui/grid";
import type { State, Store } from "../ui/store";
import type { View } from "./view";

const kFilterHelp = "Words must all occur in name, type, tactic or ONNX nodes. Also: type: precision: verdict: kind: tactic: runner: " +
  "onnx: tensor: and time>0.1 share>1 roof<50 nodes>2 flops>1e9 error>1e-3. A leading - excludes. kind:overhead finds reformats and copies.";
const kPrinted = 2000;
const kFacetTitles: Record<Facet, string> = { type: "Type", precision: "Precision", verdict: "Bound by", kind: "Kind" };

export function makeLayers(store: Store): View {
  const { model } = store;
  let shown = initialColumns(model);
  const isTimed = model.maxMs > 0;
  let sort: { id: string; descending: boolean } | null = isTimed ? { id: "time", descending: true } : null;
  const idle = model.layers.map(isIdleView);
  const idleCount = idle.filter(Boolean).length;
  let showsIdle = !isTimed || idleCount === model.layers.length;

  const columns = (): Column[] => kColumns.filter((column) => shown.includes(column.id));
  const gridColumns = (): GridColumn[] => columns().map((column) => ({
    id: column.id, title: column.title, tip: column.tip, width: column.width, numeric: column.number !== undefined, grow: column.id === "name" || column.id === "tactic",
  }));

  const grid = new Grid({
    label: "Layers",
    columns: gridColumns,
    cell: (row, column) => cell(row, columnById(column.id)!),
    sortedBy: () => sort,
    sort: (column) => {
      const first = column.numeric && column.id !== "index";
      sort = sort?.id !== column.id ? { id: column.id, descending: first } : sort.descending === first ? { id: column.id, descending: !first } : null;
      fill();
    },
    selected: () => store.state.selected,
    select: (rows, focus) => store.update({ selected: rows, focus }),
  });

  function cell(row: number, column: Column): Child | Child[] {
    const text = cellText(model, column, row);
    if (column.id === "type") return [h("i", { class: `swatch k-${layerColour(model, row, "type").key}` }), text];
    if (column.id === "share") {
      const value = column.number!(model, row) ?? 0;
      return [h("i", { class: "share-bar", style: `width:${Math.min(100, (100 * value * model.sumMs) / 100 / (model.maxMs || 1)) || 0}%` }), h("span", {}, text)];
    }
    if (column.number) return text;
    return h("span", { title: text }, column.id === "name" ? model.shortNames[row]! : text);
  }

  const search = h("input", { type: "search", class: "filter", placeholder: "Filter: words, type:conv, time>0.1, -reformat", "aria-label": "Filter layers", "data-tip": kFilterHelp, spellcheck: "false" });
  search.value = store.state.filter;
  search.addEventListener("input", () => store.update({ filter: search.value }));
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") grid.focus();
    else if (event.key === "Escape" && search.value !== "") {
      store.update({ filter: "" });
      event.stopPropagation();
    }
  });
  const counter = h("span", { class: "counter", role: "status" });

  function facetMenu(facet: Facet): HTMLElement {
    const values = facetCounts(model, facet);
    const label = h("summary", {}, kFacetTitles[facet]);
    const menu = h("details", { class: "menu", "data-facet": facet }, label, h("div", { class: "menu-items" }, values.map(([value, count]) => {
      const box = h("input", { type: "checkbox", value });
      box.addEventListener("change", () => {
        const chosen = new Set(store.state.facets[facet]);
        if (box.checked) chosen.add(value);
        else chosen.delete(value);
        store.update({ facets: { ...store.state.facets, [facet]: chosen } });
      });
      return h("label", {}, box, value, h("span", { class: "dim" }, String(count)));
    })));
    return menu;
  }

  function columnMenu(): HTMLElement {
    return h("details", { class: "menu right", "data-menu": "columns" }, h("summary", {}, "Columns"), h("div", { class: "menu-items" }, kColumns.map((column) => {
      const box = h("input", { type: "checkbox", value: column.id });
      box.checked = shown.includes(column.id);
      box.addEventListener("change", () => {
        shown = box.checked ? [...shown, column.id] : shown.filter((id) => id !== column.id);
        grid.refresh();
        drawFoot();
      });
      return h("label", { title: column.tip }, box, column.title);
    })));
  }

  const clear = h("button", { type: "button", click: () => store.update({ filter: "", facets: kNoFacets, selected: new Set(), focus: null }) }, "Clear");
  const idleSwitch = h("input", { type: "checkbox" });
  idleSwitch.checked = showsIdle;
  idleSwitch.addEventListener("change", () => {
    showsIdle = idleSwitch.checked;
    fill();
  });
  const idleBox = isTimed && idleCount > 0 && h("label", { "data-tip": "Views of memory (reshapes and the like) run no code" }, idleSwitch, `${idleCount} ${idleCount === 1 ? "view" : "views"} of 0 ms`);
  const bar = h("div", { class: "toolbar" }, search, kFacets.map(facetMenu), clear, idleBox, counter, h("span", { class: "spring" }),
    copyButton(() => tableText(model, exported(), columns(), "\t"), "Copy rows"),
    h("button", { type: "button", click: () => download(`${model.engine.name}.layers.csv`, "text/csv", tableText(model, exported(), columns(), ",")) }, "CSV"),
    columnMenu());

  // What leaves the table: the selected rows in the table's order, or all that are shown.
  function exported(): readonly number[] {
    const rows = grid.rows.filter((row) => store.state.selected.has(row));
    return rows.length > 1 ? rows : grid.rows;
  }

  function fill(): void {
    const found = filterLayers(model, store.state.filter, store.state.facets);
    const asked = showsIdle || store.state.facets.kind.has("view") || /\bkind:view\b/.test(store.state.filter);
    const rows = asked ? found : found.filter((row) => !idle[row] || store.state.selected.has(row));
    const column = sort ? columnById(sort.id) : undefined;
    grid.setRows(column && sort ? sortLayers(model, rows, column, sort.descending) : rows);
    for (const menu of bar.querySelectorAll<HTMLElement>("[data-facet]")) {
      const chosen = store.state.facets[menu.dataset.facet as Facet];
      menu.classList.toggle("active", chosen.size > 0);
      menu.querySelectorAll("input").forEach((box) => { box.checked = chosen.has(box.value); });
    }
    drawFoot();
  }

  function drawFoot(): void {
    const selected = grid.rows.filter((row) => store.state.selected.has(row));
    const rows = selected.length > 1 ? selected : grid.rows;
    const hidden = [...store.state.selected].length - selected.length;
    counter.textContent = `${grid.rows.length} of ${model.layers.length} layers` +
      (store.state.selected.size > 0 ? `, ${store.state.selected.size} selected${hidden > 0 ? ` (${hidden} not shown)` : ""}` : "");
    grid.foot.replaceChildren(h("div", { class: "grid-foot-row" }, columns().map((column) => footCell(column, rows, selected.length > 1))));
  }

  function footCell(column: Column, rows: readonly number[], isSelection: boolean): HTMLElement {
    if (column.id === "index") return h("div", { class: "number" }, h("b", {}, "Σ"));
    if (column.id === "name") {
      return h("div", { class: "foot-title" }, h("b", {}, isSelection ? `total of ${rows.length} selected layers` : `total of ${rows.length} layers`),
        ["mean", "least", "greatest"].map((line) => h("span", { class: "dim" }, line)));
    }
    const summary = summarize(model, rows, column);
    if (summary.kind === "text") {
      const tip = summary.values.slice(0, 30).map(([value, count]) => `${count} × ${value || numbers.kUnknown}`).join("\n");
      return h("div", { "data-aggregate": column.id, "data-tip": tip }, summary.values.slice(0, 4).map(([value, count]) =>
        h("span", {}, `${count}× ${value || numbers.kUnknown}`)));
    }
    if (summary.known === 0) return h("div", { class: "number", "data-aggregate": column.id }, numbers.kUnknown);
    const show = column.show!;
    return h("div", { class: "number", "data-aggregate": column.id, "data-tip": `${column.title}: ${summary.known} known values\n` +
      `${column.total ? `total ${summary.total}\n` : ""}mean ${summary.mean}\nmin ${summary.min}\nmax ${summary.max}` },
      h("b", {}, column.total ? show(summary.total) : "\u00a0"),
      h("span", {}, show(summary.mean)), h("span", {}, show(summary.min)), h("span", {}, show(summary.max)));
  }

  // All rows shown, as an ordinary table.
  function printed(): HTMLElement {
    const shownColumns = columns();
    const rows = grid.rows.slice(0, kPrinted);
    return h("div", {}, h("p", {}, `${rows.length} of ${model.layers.length} layers${store.state.filter === "" ? "" : `, filter: ${store.state.filter}`}`),
      simpleTable(shownColumns.map((column) => column.title), rows.map((row) => shownColumns.map((column) => (column.number ? cellText(model, column, row) : breakable(cellText(model, column, row))))),
        shownColumns.flatMap((column, i) => (column.number ? [i] : []))));
  }

  fill();
  const root = h("div", { class: "view layers" }, bar, grid.root);
  return {
    root,
    printed,
    shown: () => {
      search.value = store.state.filter;
      fill();
      if (store.state.focus !== null) grid.reveal(store.state.focus);
      else if (store.state.selected.size > 0) grid.reveal(Math.min(...store.state.selected));
    },
    changed: (state: Readonly<State>, before: Readonly<State>) => {
      const hidden = state.focus !== null && idle[state.focus] && !grid.rows.includes(state.focus);
      if (state.filter !== before.filter || state.facets !== before.facets || hidden) {
        if (search.value !== state.filter) search.value = state.filter;
        fill();
      } else if (state.selected !== before.selected) {
        grid.refresh();
        drawFoot();
      }
      if (state.focus !== null && state.focus !== before.focus) grid.reveal(state.focus);
    },
    keys: (event) => {
      if (event.key === "/") {
        search.focus();
        search.select();
        return true;
      }
      return false;
    },
  };
}
