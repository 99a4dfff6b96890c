// SPDX-License-Identifier: Apache-2.0
//
// The reference evaluation of a layer with the types and formats of any tactic.
#pragma once

#include "backend/cpu/kernel.h"
#include "backend/reference_layer.h"

namespace lathe::cpu {

class PreparedReference final : public PreparedLayer {
 public:
  explicit PreparedReference(ReferenceLayer layer) : layer_(std::move(layer)) {}
  int members(int) const override { return 1; }
  bool takes_memory() const override { return true; }
  void run(const LayerArgs& args, const Worker&) const override { run(args, nullptr); }
  void run(const LayerArgs& args, const BodyRunner* bodies) const;
  // Where a result of these extents may be written before the evaluation returns it; null: nowhere.
  std::byte* place(const LayerArgs& args, size_t index, DType dtype, const Extents& extents) const;
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    layer_.resolve(result_extents_, values);
  }

 private:
  Tensor operand(size_t index, const void* address) const;

  const ReferenceLayer layer_;
  mutable std::vector<Extents> result_extents_;  // written by run(), read by resolve(), both on member 0
};

// The same of an operator with bodies, whose nodes run on kernels where they have one (control_flow.cpp).
std::unique_ptr<LayerKernel> make_control_flow(const LayerQuery& query, const Tactic& tactic,
                                               const Machine& machine, const PackContext& pack);

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic);

}  // namespace lathe::cpu
