// SPDX-License-Identifier: Apache-2.0
//
// What the classifiers and regressors of ai.onnx.ml have in common: transformations of scores, and labels.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

// Inputs of these operators may be of any numeric type; they compute in FP32.
ValueId as_float(NodeImport& node, size_t input);
// A matrix (N, C) of a vector (C) or a matrix.
ValueId as_rows(NodeImport& node, ValueId x);

// The attribute post_transform: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.
std::string post_transform(const NodeImport& node);
// Applied to each row of scores (N, K).
ValueId transform_scores(NodeImport& node, ValueId scores, const std::string& name);
// The same for one score (N, 1) of the second of two classes: both transformed scores (N, 2). `mixed`: the
// score is above or below zero instead of a probability.
ValueId transform_binary(NodeImport& node, ValueId score, bool mixed, const std::string& name);

// The class labels; of strings their numbers.
Ints class_labels(NodeImport& node);
// The results of a classifier whose first one is labels: strings where class_labels() gave their numbers.
Values with_string_labels(NodeImport& node, Values results);
template <ImportFunction import>
Values classify(NodeImport& node) {
  return with_string_labels(node, import(node));
}
// The labels at `index` (N).
ValueId labels_at(NodeImport& node, ValueId index, const Ints& labels);
// The labels where `condition` (N, 1) holds and where it does not.
ValueId label_choice(NodeImport& node, ValueId condition, int64_t yes, int64_t no);

// A list of numbers as a constant of `extents`.
ValueId float_constant(NodeImport& node, const std::vector<float>& values, Extents extents,
                       std::string_view name);

}  // namespace lathe::onnx
