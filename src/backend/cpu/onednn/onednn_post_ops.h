// SPDX-License-Identifier: Apache-2.0
//
// A layer's epilogue as oneDNN post-ops: a chain in which every step takes the value so far. What does not
// fit stays with the layer's own epilogue (pointwise_eval.h), applied to the part when the primitive has
// finished.
#pragma once

#include <dnnl.hpp>
#include <optional>
#include <vector>

#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// A part of the result: where it lies, for operands that are as large as the result or have one value per
// channel.
struct ResultPart {
  dnnl::memory::desc desc;   // of the part
  int64_t offset_bytes = 0;  // of the part in the result's storage
  int64_t channel = 0;       // first channel of the part
  int64_t matrix = 0;        // which of a stack (axis 0 of the result) it belongs to
  size_t channel_axis = 1;   // in `desc`, which may have fewer dims than the result
};

class PostOpChain {
 public:
  // nullopt: the epilogue is no such chain. `channel_axis` is the result's axis of per-channel operands (1
  // for convolution, the last for matmul). `stacked`: a part never spans axis 0, so that constants may differ
  // along it.
  static std::optional<PostOpChain> from_epilogue(const LayerQuery& query, const TensorType& result,
                                                  size_t channel_axis, bool stacked = false);

  bool empty() const { return steps_.empty(); }
  // False with functions for which oneDNN's kernels take the other operand of a comparison (Relu, Clip, Max,
  // Min, and what bounds the argument of an exponential).
  bool keeps_nan() const;
  // Packs constant operands. The store keeps them, because a loaded engine has no large constants.
  void pack_constants(const LayerQuery& query, const PackContext& pack);

  dnnl::post_ops post_ops(const ResultPart& part) const;
  // Adds the operands to a call.
  void add_operands(OnednnCall& call, const ResultPart& part) const;

 private:
  enum class Shape : uint8_t { Full, Channel, Scalar };
  struct Step {
    dnnl::algorithm algorithm = dnnl::algorithm::undef;
    float alpha = 0, beta = 0;
    bool binary = false;
    // Binary only:
    size_t input = 0;  // of the node
    bool constant = false;
    std::optional<float> literal;  // the operand is this number, which is no input of the node
    Shape shape = Shape::Full;
    int64_t matrix_elements = 0;  // between the values for two matrices of a stack; 0: the same for all
    DType dtype = DType::Float32;
    std::span<const std::byte> packed;
  };
  static std::optional<Step> unary_step(const PointwiseStep& step);
  static std::optional<Step> binary_step(const PointwiseStep& step, bool value_first);
  // Several steps of oneDNN's for one of ours: false when it is not one of these.
  bool append_round_to(const PointwiseStep& step);
  // False when oneDNN would compute something else (see there).
  bool append_function(const Step& step);
  void append_literal(dnnl::algorithm algorithm, float number);
  bool describe_operand(const LayerQuery& query, Step& step, const TensorType& result) const;
  dnnl::memory::desc operand_desc(const Step& step, const ResultPart& part) const;

  size_t channel_axis_ = 1;
  bool stacked_ = false;
  std::vector<Step> steps_;
};

}  // namespace lathe::cpu
