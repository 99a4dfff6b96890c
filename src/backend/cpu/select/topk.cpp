// SPDX-License-Identifier: Apache-2.0
//
// TopK by partial selection, on every type of whole bytes.
//
// Each line is read once. What is not better than the k-th best so far costs one comparison; candidates are
// kept in room for 2k and cut down to k when it is full. So n elements cost n comparisons and a few times k
// log k more, where sorting costs n log n. Lines are shared out over the team.
#include <cstring>

#include "backend/cpu/select/new_symbols.h"
#include "backend/cpu/select/order_key.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kTopkRunner = "TopK";

struct TopKCandidate {
  uint64_t key;
  int64_t index;
  bool operator<(const TopKCandidate& other) const {  // better
    return key != other.key ? key > other.key : index < other.index;
  }
};

class PreparedTopK final : public PreparedLayer {
 public:
  std::string name;
  const NewSymbols* symbols = nullptr;
  DType type = DType::Float32;
  bool largest = true;
  int64_t outer = 1, count = 0, inner = 1, most = 0;  // most: the k that there is room for
  size_t axis = 0;
  Extents extents;
  int threads = 1;

  int64_t room() const { return 2 * most + 64; }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(room() * threads) * sizeof(TopKCandidate);
  }
  int members(int available) const override {
    return members_for(1.5 * static_cast<double>(outer * count * inner), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const int64_t k = wanted(args);
    if (k == 0) return;
    auto* candidates = reinterpret_cast<TopKCandidate*>(args.scratch) + worker.index * room();
    with_codec(type, [&]<class Codec>() {
      const Worker::Range part = worker.slice(outer * inner);
      for (int64_t line = part.begin; line < part.end; ++line) {
        const int64_t first = line / inner * count * inner + line % inner;
        select<Codec>(static_cast<const std::byte*>(args.inputs[0]), first, k, candidates);
        write<Codec>(args, first, line / inner * k * inner + line % inner, k, candidates);
      }
    });
  }
  void resolve(const LayerArgs& args, SymbolValues& values) const override {
    Extents found = extents;
    found[axis] = wanted(args);
    symbols->resolve(0, found, values);
    symbols->resolve(1, found, values);
  }

 private:
  int64_t wanted(const LayerArgs& args) const {
    const int64_t k = *static_cast<const int64_t*>(args.inputs[1]);
    if (k < 0 || k > std::min(count, most))
      throw_input_error(name + " (TopK): k = " + std::to_string(k) + " is not between 0 and the " +
                        std::to_string(count) + " elements of axis " + std::to_string(axis));
    return k;
  }
  template <class Codec>
  void select(const std::byte* x, int64_t first, int64_t k, TopKCandidate* found) const {
    const uint64_t turn = largest ? 0 : UINT64_MAX;
    int64_t n = 0;
    uint64_t bar = 0;  // what a candidate must exceed, once there are k
    bool barred = false;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = key_of(Codec::get(x, first + i * inner)) ^ turn;
      if (barred && key <= bar) continue;
      found[n++] = {key, i};
      if (n < room() && (barred || n < k + 64)) continue;
      std::nth_element(found, found + k - 1, found + n);
      bar = found[k - 1].key;
      barred = true;
      n = k;
    }
    std::partial_sort(found, found + k, found + n);
  }
  template <class Codec>
  void write(const LayerArgs& args, int64_t first, int64_t out, int64_t k, const TopKCandidate* found) const {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* values = static_cast<std::byte*>(args.outputs[0]);
    auto* indices = static_cast<int64_t*>(args.outputs[1]);
    for (int64_t i = 0; i < k; ++i) {
      if (values) Codec::put(values, out + i * inner, Codec::get(x, first + found[i].index * inner));
      if (indices) indices[out + i * inner] = found[i].index;
    }
  }
};

class TopKKernel final : public LayerKernel {
 public:
  TopKKernel(const LayerQuery& query, const Tactic& tactic)
      : name_(query.layer().name),
        op_(std::get<TopK>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        symbols_(query) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedTopK>();
    const Extents& x = context.inputs[0];
    p->axis = static_cast<size_t>(normalize_axis(op_.axis, static_cast<int64_t>(x.size()), "TopK"));
    p->name = name_;
    p->symbols = &symbols_;
    p->type = type_;
    p->largest = op_.largest;
    for (size_t d = 0; d < x.size(); ++d) (d < p->axis ? p->outer : d > p->axis ? p->inner : p->most) *= x[d];
    p->count = x[p->axis];
    const Extents& out = context.outputs[0].empty() ? context.outputs[1] : context.outputs[0];
    p->most = out[p->axis];
    p->extents = x;
    p->threads = context.threads;
    return p;
  }

 private:
  std::string name_;
  TopK op_;
  DType type_;
  NewSymbols symbols_;
};

std::vector<Tactic> list_topk(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<TopK>(node.op)) return {};
  Tactic t = linear_tactic(query, kTopkRunner, "top_k_partial");
  if (!node.epilogue.empty())
    t.support = Support::no("a selection applies no epilogue");
  else if (t.inputs[1].dtype != DType::Int64)
    t.support = Support::no("k must be int64");
  return {t};
}

std::unique_ptr<LayerKernel> make_topk(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                       const PackContext&) {
  return std::make_unique<TopKKernel>(query, tactic);
}

}  // namespace

TacticFamily topk_tactics() {
  return {kTopkRunner, list_topk, make_topk};
}

}  // namespace lathe::cpu
