// SPDX-License-Identifier: Apache-2.0
//
// The frame: title, tabs, theme, keys, the address; makes each view when it is first shown.
import { formatLink, kViews, parseLink, type ViewId } from "../data/link";
import * as numbers from "../data/numbers";
import { share } from "../data/engine_model";
import { h } from "../ui/dom";
import type { State, Store } from "../ui/store";
import { installTooltip } from "../ui/tooltip";
import { contextLine, measurementBanner } from "./banner";
import { makeDetail } from "./detail";
import { kTitles, kMakers } from "./views";
import type { View } from "./view";

const kThemes = ["auto", "light", "dark"] as const;

export function makeShell(store: Store): HTMLElement {
  const made = new Map<ViewId, View>();
  const stage = h("main", { tabindex: -1 });
  const detail = makeDetail(store, () => store.focus(null));
  const available = kViews.filter((view) => (view !== "compare" || store.analysis.comparison !== null) &&
    (view !== "model" || store.models.some((model) => model.engine.onnx)));

  const tabs = new Map(available.map((view, i) => [view, h("a", {
    href: `#${view}`, role: "tab", "data-view": view, "data-tip": `Key ${view === "model" ? "m" : i + 1}`,
    click: (event: MouseEvent) => {
      event.preventDefault();
      store.update({ view });
    },
  }, kTitles[view])]));

  const engineChoice = h("select", { "aria-label": "Engine" }, store.models.map((model, i) => h("option", { value: i }, model.engine.name)));
  engineChoice.addEventListener("change", () => store.update({ engine: Number(engineChoice.value) }));

  const help = h("dialog", { class: "help" }, h("h2", {}, "Keys"), h("dl", { class: "facts" }, [
    ["1 … 9, m", "views, the model"], ["/", "filter or search"], ["↑ ↓ PgUp PgDn Home End", "move in a table; with Shift extend"],
    ["Space, Ctrl+A", "select one more row, all rows"], ["n, p", "next, previous layer"], ["+ − ← → 0", "zoom, pan, fit in timeline and graph"],
    ["Enter", "open or fold the chosen layer's block in the graph"], ["t", "theme"], ["Esc", "close a menu, or the details"], ["?", "this help"],
  ].flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])), h("form", { method: "dialog" }, h("button", {}, "Close")));

  let theme = 0;
  const themeButton = h("button", { type: "button", "data-tip": "Theme (t)", click: () => nextTheme() }, "auto");
  function nextTheme(): void {
    theme = (theme + 1) % kThemes.length;
    const name = kThemes[theme]!;
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    themeButton.textContent = name;
    made.get(store.state.view)?.shown?.();
  }

  const context = h("div", { class: "run-context" });
  const header = h("header", { class: "top" },
    h("span", { class: "brand" }, "Lathe explorer"),
    store.models.length > 1 ? engineChoice : h("span", { class: "engine-name", title: store.model.engine.name }, store.model.engine.name),
    h("nav", { role: "tablist", "aria-label": "Views" }, [...tabs.values()]),
    h("span", { class: "spring" }), themeButton,
    h("button", { type: "button", "data-tip": "Print this view, or save it as PDF", click: () => print() }, "Print"),
    h("button", { type: "button", "aria-label": "Keys", "data-tip": "Keys (?)", click: () => help.showModal() }, "?"));

  function viewOf(id: ViewId): View {
    let view = made.get(id);
    if (!view) {
      view = kMakers[id](store);
      made.set(id, view);
    }
    return view;
  }

  function drawContext(): void {
    const { engine } = store.model;
    const banner = measurementBanner(store.analysis.engines, engine);
    context.replaceChildren(contextLine(engine), ...(banner ? [banner] : []));
  }

  function drawView(): void {
    const view = viewOf(store.state.view);
    stage.replaceChildren(view.root);
    view.shown?.();
    for (const [id, tab] of tabs) tab.setAttribute("aria-selected", String(id === store.state.view));
    document.title = `${store.model.engine.name} · ${kTitles[store.state.view]} · Lathe explorer`;
  }

  function link(): string {
    const { view, focus, engine, filter } = store.state;
    return formatLink({ view, layer: focus === null ? null : store.model.layers[focus]!.name, engine, filter });
  }

  function fromAddress(): void {
    const wanted = parseLink(location.hash);
    const engine = wanted.engine < store.models.length ? wanted.engine : 0;
    const layer = wanted.layer === null ? undefined : store.models[engine]!.indexOfName.get(wanted.layer);
    store.update({
      // Who gives two engines wants them compared.
      view: location.hash === "" && store.analysis.comparison ? "compare" : available.includes(wanted.view) ? wanted.view : "summary", engine, filter: wanted.filter,
      focus: layer ?? null, selected: new Set(layer === undefined ? [] : [layer]),
    });
  }

  store.listen((state: Readonly<State>, before: Readonly<State>) => {
    if (state.engine !== before.engine) {
      made.clear();
      drawContext();
      engineChoice.value = String(state.engine);
    }
    if (state.focus !== before.focus || state.selected !== before.selected || state.engine !== before.engine) detail.draw();
    if (state.view !== before.view || state.engine !== before.engine) drawView();
    else made.get(state.view)?.changed?.(state, before);
    const address = link();
    if (address !== location.hash) {
      if (state.view !== before.view) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
  });
  addEventListener("popstate", fromAddress);
  addEventListener("hashchange", () => { if (location.hash !== link()) fromAddress(); });

  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.key === "Escape") {
      const menu = document.querySelector<HTMLDetailsElement>("details.menu[open]");
      if (menu) {
        menu.open = false;
        menu.querySelector("summary")?.focus();
      } else if (target instanceof HTMLInputElement) target.blur();
      else if (!help.open) store.focus(null);
      return;
    }
    if (/^(input|select|textarea)$/i.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (made.get(store.state.view)?.keys?.(event)) event.preventDefault();
    else if (/^[1-9]$/.test(event.key) && available[Number(event.key) - 1]) store.update({ view: available[Number(event.key) - 1]! });
    else if (event.key === "m" && available.includes("model")) store.update({ view: "model" });
    else if (event.key === "?") help.showModal();
    else if (event.key === "t") nextTheme();
    else if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
  });

  function step(by: number): void {
    const { focus } = store.state;
    const next = focus === null ? (by > 0 ? 0 : store.model.layers.length - 1) : focus + by;
    if (next >= 0 && next < store.model.layers.length) store.focus(next);
  }

  let paper: HTMLElement | undefined;
  addEventListener("beforeprint", () => {
    paper = made.get(store.state.view)?.printed?.();
    if (paper) stage.append(h("div", { class: "paper" }, h("h2", {}, `${store.model.engine.name}: ${kTitles[store.state.view]}`), paper));
  });
  addEventListener("afterprint", () => paper?.parentElement?.remove());

  installTooltip((index) => {
    const { model } = store;
    const layer = model.layers[index];
    return layer ? `${layer.name}\n${layer.type} ${layer.precision}  ${numbers.milliseconds(layer.time?.average_ms)} ms  ${numbers.percent(share(model, index), 2)} %` : "";
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu[open]")) {
      if (!menu.contains(event.target as Node)) menu.open = false;
    }
  });

  const body = h("div", { class: "app" }, header, context, h("div", { class: "stage" }, stage, detail.root), help);
  drawContext();
  queueMicrotask(() => {
    fromAddress();
    detail.draw();
    if (!stage.firstChild) drawView();
  });
  return body;
}
