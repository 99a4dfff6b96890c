// SPDX-License-Identifier: Apache-2.0
//
// The list of views.
import type { ViewId } from "../data/link";
import { makeFindings } from "./findings";
import { makeLayers } from "./layers";
import { makeSummary } from "./summary";
import type { MakeView } from "./view";

export const kTitles: Readonly<Record<ViewId, string>> = {
  summary: "Summary", layers: "Layers", timeline: "Timeline", graph: "Graph", charts: "Charts", roofline: "Roofline",
  memory: "Memory", findings: "Findings", compare: "Compare",
};

export const kMakers: Readonly<Partial<Record<ViewId, MakeView>>> = {
  summary: makeSummary, layers: makeLayers, findings: makeFindings,
};
