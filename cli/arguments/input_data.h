// SPDX-License-Identifier: Apache-2.0
//
// Values for inputs: from files (raw, .npy, .npz), or pseudo-random ones that are the same in every run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace lathe::cli {

// What random values of an integer input must be so that the model is given something it can work with.
struct ValueRange {
  int64_t low = -128, high = 127;
  bool operator==(const ValueRange&) const = default;
};
// Indices (token ids) lie within the tables that they select from; masks are ones; else trtexec's -128 ..
// 127.
ValueRange integer_range(const Graph& graph, ValueId input);

// The generator of trtexec, restarted for each tensor: C++'s minimal standard LCG, seed 1. Floats are in [-1,
// 1).
Tensor random_tensor(DType dtype, const Extents& extents, const ValueRange& range);

// Throws Input when the file is missing or does not fit. Raw files: the binding's bytes (or exactly twice as
// many, of which the first half counts).
// Pictures become what `preprocess` says (image/image.h); empty: "imagenet" for floats, "pixels" for
// integers.
Tensor load_input(const std::string& file, std::string_view input, DType dtype, const Extents& extents,
                  std::string_view preprocess = {});

}  // namespace lathe::cli
