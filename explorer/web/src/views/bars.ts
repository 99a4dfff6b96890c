// SPDX-License-Identifier: Apache-2.0
//
// Horizontal bars as a list: label, bar, value. Used wherever times are compared; a click selects what the bar stands for.
import { h } from "../ui/dom";

export interface Bar { label: string; value: number; text: string; key: string; tip?: string; parts?: { value: number; key: string; tip: string }[]; click?: () => void }

export function barList(bars: readonly Bar[], label: string): HTMLElement {
  const most = bars.reduce((max, bar) => Math.max(max, bar.value), 0) || 1;
  return h("div", { class: "bars", role: "group", "aria-label": label }, bars.map((bar) => {
    const parts = bar.parts ?? [{ value: bar.value, key: bar.key, tip: bar.tip ?? "" }];
    return h(bar.click ? "button" : "div", {
      class: "bar-row", "data-tip": bar.parts ? null : bar.tip ?? null, type: bar.click ? "button" : null, click: bar.click,
    },
      h("span", { class: "bar-label", title: bar.label }, bar.label),
      h("span", { class: "bar-track" }, parts.map((part) =>
        h("i", { class: `bar k-${part.key}`, style: `width:${(100 * part.value) / most}%`, "data-tip": part.tip || null }))),
      h("span", { class: "bar-value" }, bar.text));
  }));
}
