// SPDX-License-Identifier: Apache-2.0
//
// The types of analysis.json, generated from docs/schema/analysis.schema.json (`npm run check`), under the names that
// the page uses.
export type {
  LatheExplorerAnalysisJson as Analysis,
  Engine, Layer, Tensor, TensorUse, Finding, Comparison, Pair, MatchedRow, WaterfallItem, FusionChange, Group, Series, Note, OnnxModel, Tuning,
} from "../../generated/analysis";
