// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a layer for tactics whose library cannot fuse it: the library writes its result (into
// scratch or into the output), then one generated pointwise kernel applies the program.
//
//   // list():
//   if (Support s = Epilogue::list(query, result_type, tactic.inputs); !s.ok) tactic.support = s;
//   // make():
//   Epilogue epilogue(query, tactic, computed_type, device, pack);
//   // prepare():
//   std::unique_ptr<PreparedEpilogue> prepared = epilogue.prepare(context);
//   // enqueue(): `values` is what the layer computed, in computed_type (same extents as output 0); may be
//   the output prepared->enqueue(args, values, stream);
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/kernel.h"

namespace lathe::cuda {

class PreparedEpilogue {
 public:
  virtual ~PreparedEpilogue() = default;
  virtual void enqueue(const LayerArgs& args, const void* values, CUstream stream) const = 0;
};

class Epilogue {
 public:
  // Appends the types of the layer's epilogue operands to `inputs` for a result of type `output`: constants
  // Undefined when they are packed, else in their own type and linear; other float operands in the type of
  // the result; operands with the result's rank in its format. A refusal says what is in the way.
  static Support list(const LayerQuery& query, const TensorType& output, std::vector<TensorType>& inputs);

  // The kernel behind a library's that computes in the type of the result.
  static std::vector<KernelSource> sources(const LayerQuery& query, const Tactic& tactic);

  // With an empty program it only converts from `computed` to the tactic's output.
  Epilogue(const LayerQuery& query, const Tactic& tactic, const TensorType& computed, const Device& device,
           const PackContext& pack);
  ~Epilogue();
  std::unique_ptr<PreparedEpilogue> prepare(const ShapeContext& context) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::cuda
