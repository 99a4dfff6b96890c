// SPDX-License-Identifier: Apache-2.0
//
// Entry: data from the page, or a message that says what is wrong with it.
import { DataError, parseAnalysis } from "./data/load";
import { makeEngineModel } from "./data/engine_model";
import { unpack } from "./data/unpack";
import { h } from "./ui/dom";
import { Store } from "./ui/store";
import { makeShell } from "./views/shell";

async function start(): Promise<void> {
  try {
    const analysis = parseAnalysis(await unpack(document.getElementById("analysis")?.textContent ?? ""));
    const shell = makeShell(new Store(analysis, analysis.engines.map(makeEngineModel)));
    document.getElementById("loading")?.remove();
    document.body.append(shell);
    requestAnimationFrame(() => setTimeout(() => performance.mark("shown")));
  } catch (error) {
    const known = error instanceof DataError;
    document.getElementById("loading")?.remove();
    document.body.append(h("div", { class: "fatal", role: "alert" }, h("h1", {}, "This report cannot be shown"),
      h("p", {}, known ? error.message : `The page failed on this data: ${String(error)}`),
      h("p", {}, "Write it again with ", h("code", {}, "lathe explore FILES -o report.html"),
        ". If it came by mail, the file may have been cut or changed on its way.")));
    if (!known) throw error;
  }
}

// The data stands after the code.
document.addEventListener("DOMContentLoaded", () => void start());
