// SPDX-License-Identifier: Apache-2.0
//
// Range: start + i * delta. Both may be results of the same run; the length is known when the layer is
// prepared, from shapes or from the three numbers (backend/sizes_from_values.h).
#include "backend/cpu/vector/own_tactic.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRangeRunner = "Range";

class PreparedRange final : public PreparedLayer {
 public:
  PreparedRange(DType type, int64_t count) : type_(type), count_(count) {}
  int members(int available) const override {
    return members_for(0.5 * static_cast<double>(count_), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice(count_, 64);
    const auto *start = static_cast<const std::byte*>(args.inputs[0]),
               *delta = static_cast<const std::byte*>(args.inputs[2]);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    with_codec(type_, [&]<class Codec>() {
      using Wide = typename Codec::Wide;
      if constexpr (Codec::kFloat) {  // rounded once: every element is computed from the first
        const double first = Codec::get(start, 0), step = Codec::get(delta, 0);
        for (int64_t i = part.begin; i < part.end; ++i)
          Codec::put(to, i, static_cast<Wide>(first + static_cast<double>(i) * step));
      } else {
        const auto first = static_cast<uint64_t>(Codec::get(start, 0)),
                   step = static_cast<uint64_t>(Codec::get(delta, 0));
        for (int64_t i = part.begin; i < part.end; ++i)
          Codec::put(to, i, static_cast<Wide>(first + static_cast<uint64_t>(i) * step));
      }
    });
  }

 private:
  DType type_;
  int64_t count_;
};

class RangeKernel final : public LayerKernel {
 public:
  explicit RangeKernel(DType type) : type_(type) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedRange>(type_, context.outputs[0][0]);
  }

 private:
  DType type_;
};

std::vector<Tactic> list_range(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Range>(node.op)) return {};
  Tactic t = linear_tactic(query, kRangeRunner, "range");
  if (!node.epilogue.empty()) t.support = Support::no("a range takes no epilogue");
  return {t};
}

std::unique_ptr<LayerKernel> make_range(const LayerQuery&, const Tactic& tactic, const Machine&,
                                        const PackContext&) {
  return std::make_unique<RangeKernel>(tactic.outputs[0].dtype);
}

}  // namespace

TacticFamily range_tactics() {
  return {kRangeRunner, list_range, make_range};
}

}  // namespace lathe::cpu
