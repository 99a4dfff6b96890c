// SPDX-License-Identifier: Apache-2.0
//
// Findings, most worthwhile first: what, why it is believed, what it may bring, what to try. The command can be copied.
import { layersUsable } from "../data/engine_model";
import * as numbers from "../data/numbers";
import type { Finding } from "../data/schema";
import { breakable, copyButton, h } from "../ui/dom";
import type { Store } from "../ui/store";
import type { View } from "./view";

const kLayersShown = 8;

// Breaks between its words, not inside of "--shapes".
export function commandText(command: string): HTMLElement {
  return h("code", {}, command.split(" ").flatMap((word, i) => (i === 0 ? [h("span", { class: "word" }, word)] : [" ", h("span", { class: "word" }, word)])));
}

export function findingCard(store: Store, finding: Finding): HTMLElement {
  const { model } = store;
  const shown = finding.layers.slice(0, kLayersShown);
  return h("article", { class: `finding severity-${finding.severity}`, "data-finding": finding.id },
    h("header", {},
      h("span", { class: "badge" }, finding.severity),
      h("h3", {}, finding.title),
      h("span", { class: "gain", "data-tip": finding.gain_basis || null },
        finding.gain_ms === null ? (layersUsable(model.engine) ? "gain not known" : "gain not estimated") : `≈ ${numbers.milliseconds(finding.gain_ms)} ms`)),
    h("ul", {}, finding.evidence.map((line) => h("li", {}, breakable(line)))),
    finding.action !== "" && h("p", {}, h("b", {}, "Try: "), finding.action),
    finding.command !== "" && h("div", { class: "command" }, commandText(finding.command), copyButton(() => finding.command)),
    h("footer", {},
      h("span", {}, `confidence ${finding.confidence}`, finding.gain_basis !== "" && finding.gain_ms !== null ? `; gain: ${finding.gain_basis}` : ""),
      shown.length > 0 && h("span", { class: "chips" }, shown.map((index) =>
        h("button", { type: "button", class: "chip", "data-layer-tip": index, click: () => store.focus(index) }, model.shortNames[index]!)),
        h("button", { type: "button", class: "chip all", click: () => store.update({ view: "layers", selected: new Set(finding.layers), focus: null }) },
          finding.layers.length === 1 ? "in the table" : `all ${finding.layers.length} in the table`))));
}

export function makeFindings(store: Store): View {
  const { findings } = store.model.engine;
  const total = findings.reduce((sum, finding) => sum + (finding.gain_ms ?? 0), 0);
  return {
    root: h("div", { class: "view findings" },
      h("p", { class: "lead" }, findings.length === 0 ? "No rule found anything to do." :
        `${findings.length} ${findings.length === 1 ? "finding" : "findings"}. ${layersUsable(store.model.engine) ? `The estimates add up to ${numbers.milliseconds(total)} ms, but several may speak of the same time.` : "No gain is estimated from times that are not usable; the order still says where to look first."}`),
      findings.map((finding) => findingCard(store, finding))),
  };
}
