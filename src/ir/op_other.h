// SPDX-License-Identifier: Apache-2.0
//
// Operators of linear algebra, trees, text and detection, plugins, and control flow with its bodies.
// op.h says what holds for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/body.h"
#include "ir/dtype.h"
#include "ir/op_fields.h"
#include "ir/plugin.h"

namespace lathe {

// --- other ------------------------------------------------------------------------------------------------
struct CumProd {  // inputs: x, axis (scalar)
  static constexpr std::string_view kName = "CumProd";
  bool exclusive = false, reverse = false;
  LATHE_FIELDS(v("exclusive", s.exclusive); v("reverse", s.reverse);)
  bool operator==(const CumProd&) const = default;
};
struct Det {  // input: x (..., N, N); output (...)
  static constexpr std::string_view kName = "Det";
  LATHE_FIELDS()
  bool operator==(const Det&) const = default;
};
struct Inverse {  // input: x (..., N, N); output: the inverse of each matrix, infinities where it has none
  static constexpr std::string_view kName = "Inverse";
  LATHE_FIELDS()
  bool operator==(const Inverse&) const = default;
};
// Decision trees: each row of x goes from the root of each tree to a leaf, and the leaf's weights count for
// some of the targets. inputs: x (N, F), features (int32, nodes), thresholds (nodes, type of x), modes
// (uint8, nodes), children (int32, 2 nodes), roots (int32, trees), leaf_begins (int32, leaves + 1),
// leaf_targets (int32, weights), leaf_weights (weights, type of x); output (N, targets). A node compares
// x[feature] with its threshold and goes to its first child when that holds, or when x is NaN and its mode
// says so. Children have larger numbers than their parent; leaf i is -1 - i, as a child or as a root. A
// target that no leaf counts for is 0.
enum class TreeAggregate : uint8_t { Sum, Average, Min, Max };
struct TreeEnsemble {
  static constexpr std::string_view kName = "TreeEnsemble";
  // A mode is one of these, plus kMissingIsTrue.
  enum Compare : uint8_t {
    kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMissingIsTrue = 8
  };
  // Numbers of the inputs.
  static constexpr size_t kFeatures = 1, kThresholds = 2, kModes = 3, kChildren = 4, kRoots = 5,
                          kLeafBegins = 6, kLeafTargets = 7, kLeafWeights = 8, kInputs = 9;
  int64_t targets = 1;
  TreeAggregate aggregate = TreeAggregate::Sum;
  LATHE_FIELDS(v("targets", s.targets); v("aggregate", s.aggregate);)
  bool operator==(const TreeEnsemble&) const = default;
};
struct BitCast {  // input: x; output: its bits as `to`, which has as many
  static constexpr std::string_view kName = "BitCast";
  DType to = DType::Float32;
  LATHE_FIELDS(v("to", s.to);)
  bool operator==(const BitCast&) const = default;
};
// input: x; outputs: y, first indices, inverse indices, counts (int64); counted over slices of `axis`, else
// over the elements.
struct Unique {
  static constexpr std::string_view kName = "Unique";
  std::optional<Ints> axis;  // one entry when set
  bool sorted = true;
  LATHE_FIELDS(v("axis", s.axis); v("sorted", s.sorted);)
  bool operator==(const Unique&) const = default;
};
enum class TfIdfMode : uint8_t { TF, IDF, TFIDF };
// input: x (C) or (N, C), integers; output: float32 (..., columns). The pool holds n-grams of 1, then of 2
// ... items; ngram_counts says where each length begins, ngram_indexes which column an n-gram counts for.
struct TfIdfVectorizer {
  static constexpr std::string_view kName = "TfIdfVectorizer";
  TfIdfMode mode = TfIdfMode::TF;
  int64_t min_gram = 1, max_gram = 1, max_skip = 0;
  Ints ngram_counts, ngram_indexes, pool;
  std::vector<float> weights;
  LATHE_FIELDS(v("mode", s.mode); v("min_gram", s.min_gram); v("max_gram", s.max_gram); v("max_skip", s.max_skip);
               v("ngram_counts", s.ngram_counts); v("ngram_indexes", s.ngram_indexes); v("pool", s.pool);
               v("weights", s.weights);)
  bool operator==(const TfIdfVectorizer&) const = default;
};

// inputs: boxes (B, N, 4) or (B, N, 1 or C, 4) as corners x1, y1, x2, y2, scores (B, N, C); outputs: counts
// (B, 1) int32, boxes (B, keep, 4), scores (B, keep), classes (B, keep) int32. Candidates are the pairs of
// box and class whose score is above the threshold; the best come first, one that overlaps a chosen one of
// its class goes. What is not filled is 0, a class `pad_class`.
struct DetectionNms {
  static constexpr std::string_view kName = "DetectionNms";
  int64_t keep = 100;       // detections per item
  int64_t top_k = -1;       // candidates per class; -1: all
  int64_t background = -1;  // a class that is left out
  int64_t pad_class = 0;
  float score_threshold = 0, iou_threshold = 0.5F;
  bool any_class = false;   // boxes of one class hide those of another
  bool pixels = false;      // corners are pixels that belong to the box: its width is x2 - x1 + 1
  bool clip = false;        // the boxes that are returned to 0 .. 1
  LATHE_FIELDS(v("keep", s.keep); v("top_k", s.top_k); v("background", s.background); v("pad_class", s.pad_class);
               v("score_threshold", s.score_threshold); v("iou_threshold", s.iou_threshold);
               v("any_class", s.any_class); v("pixels", s.pixels); v("clip", s.clip);)
  bool operator==(const DetectionNms&) const = default;
};
// A custom operator: inputs and outputs are what its plugin says. `fields` are its attributes
// (plugin_fields_text).
struct Plugin {
  static constexpr std::string_view kName = "Plugin";
  std::string plugin, version, name_space, fields;
  std::shared_ptr<const PluginCode> code;  // null until it is bound; no part of what the operator says
  PluginIdentity identity() const { return {plugin, version, name_space}; }
  LATHE_FIELDS(v("plugin", s.plugin); v("version", s.version); v("name_space", s.name_space); v("fields", s.fields);)
  bool operator==(const Plugin& other) const {
    return identity() == other.identity() && fields == other.fields;
  }
};

// --- control flow -----------------------------------------------------------------------------------------
// inputs: condition (bool, one element), captured values; outputs: those of the branch that the condition
// selects. Both branches take the captured values and give as many outputs of the same types.
struct If {
  static constexpr std::string_view kName = "If";
  Body then_branch, else_branch;
  LATHE_FIELDS(v("then_branch", s.then_branch); v("else_branch", s.else_branch);)
  bool operator==(const If&) const = default;
};
// inputs: [trip count] (int64, one element), [condition] (bool, one element), `carried` values, captured
// values. The body takes the iteration (int64 scalar), the condition (bool scalar), the carried and the
// captured values; it gives the next condition, the carried values and what is scanned. Outputs: the carried
// values as the last iteration left them, what was scanned, stacked along a new axis 0.
struct Loop {
  static constexpr std::string_view kName = "Loop";
  Body body;
  int64_t carried = 0;
  LATHE_FIELDS(v("body", s.body); v("carried", s.carried);)
  bool operator==(const Loop&) const = default;
};
// inputs: `states` values, as many scanned ones as `input_axes` has entries, captured values. The body takes
// the states, a slice of each scanned value without its axis, and the captured values; it gives the states
// and slices of the other outputs. Outputs: the states after the last slice, and the slices stacked along
// `output_axes`. A reversed input is read from its end, a reversed output filled so.
struct Scan {
  static constexpr std::string_view kName = "Scan";
  Body body;
  int64_t states = 0;
  // One entry per scanned value; reversed: 0 or 1.
  Ints input_axes, output_axes, input_reversed, output_reversed;
  LATHE_FIELDS(v("body", s.body); v("states", s.states); v("input_axes", s.input_axes); v("output_axes", s.output_axes);
               v("input_reversed", s.input_reversed); v("output_reversed", s.output_reversed);)
  bool operator==(const Scan&) const = default;
};

}  // namespace lathe
