// SPDX-License-Identifier: Apache-2.0
//
// The list of views.
import type { ViewId } from "../data/link";
import { makeCharts } from "./charts";
import { makeCompare } from "./compare";
import { makeFindings } from "./findings";
import { makeGraph } from "./graph";
import { makeLayers } from "./layers";
import { makeMemory } from "./memory";
import { makeModel } from "./model";
import { makeRoofline } from "./roofline";
import { makeSummary } from "./summary";
import { makeTimeline } from "./timeline";
import type { MakeView } from "./view";

export const kTitles: Readonly<Record<ViewId, string>> = {
  summary: "Summary", layers: "Layers", timeline: "Timeline", graph: "Graph", charts: "Charts", roofline: "Roofline",
  memory: "Memory", findings: "Findings", compare: "Compare", model: "Model",
};

export const kMakers: Readonly<Record<ViewId, MakeView>> = {
  summary: makeSummary, layers: makeLayers, timeline: makeTimeline, graph: makeGraph, charts: makeCharts, roofline: makeRoofline,
  memory: makeMemory, findings: makeFindings, compare: makeCompare, model: makeModel,
};
