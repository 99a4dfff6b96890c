// SPDX-License-Identifier: Apache-2.0
//
// BitCast where it is no view of its operand (backend/view.h): to bool, whose true is 1, and in bodies.
//
// Bytes: read once, written once.
#include <cstring>

#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kBitCastRunner = "BitCast";

class PreparedBitCast final : public PreparedLayer {
 public:
  PreparedBitCast(int64_t bytes, bool to_bool) : bytes_(bytes), to_bool_(to_bool) {}
  int members(int available) const override {
    return members_for((to_bool_ ? 0.5 : 0.1) * static_cast<double>(bytes_), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* from = static_cast<const std::byte*>(args.inputs[0]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    const Worker::Range part = worker.slice(bytes_, 64);
    if (!to_bool_ && part.end > part.begin)
      std::memcpy(to + part.begin, from + part.begin, static_cast<size_t>(part.end - part.begin));
    for (int64_t i = part.begin; to_bool_ && i < part.end; ++i) to[i] = std::byte{from[i] != std::byte{0}};
  }

 private:
  int64_t bytes_;
  bool to_bool_;
};

class BitCastKernel final : public LayerKernel {
 public:
  explicit BitCastKernel(DType type) : type_(type) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedBitCast>(dtype_bytes(type_, element_count(context.outputs[0])),
                                             type_ == DType::Bool);
  }

 private:
  DType type_;
};

std::vector<Tactic> list_bit_cast(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<BitCast>(node.op)) return {};
  Tactic t = linear_tactic(query, kBitCastRunner, "bit_cast_copy");
  const Value &x = query.graph.value(node.inputs[0]), &y = query.graph.value(node.outputs[0]);
  if (!node.epilogue.empty())
    t.support = Support::no("a copy applies no epilogue");
  else if (x.quantization || y.quantization)
    t.support = Support::no("numbers of a grid have other bits");
  return {t};
}

std::unique_ptr<LayerKernel> make_bit_cast(const LayerQuery&, const Tactic& tactic, const Machine&,
                                           const PackContext&) {
  return std::make_unique<BitCastKernel>(tactic.outputs[0].dtype);
}

}  // namespace

TacticFamily bit_cast_tactics() {
  return {kBitCastRunner, list_bit_cast, make_bit_cast};
}

}  // namespace lathe::cpu
