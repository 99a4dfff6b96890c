// SPDX-License-Identifier: Apache-2.0
//
// TopK by partial selection, on every type of whole bytes.
//
// Each line is read once. What is not better than the k-th best so far costs one comparison, or in FP32,
// where elements are neighbours, one for a block of them. Of others a few best ones are kept in order; for a
// larger k candidates are kept in room for 2k and cut down to k when it is full. So n elements cost n
// comparisons and a few times k log k more, where sorting costs n log n. Lines are shared out over the team.
#include <cstring>

#include "backend/cpu/select/new_symbols.h"
#include "backend/cpu/select/order_key.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kTopkRunner = "TopK";
constexpr int64_t kTopKBlock = 64;
constexpr int64_t kFewBest = 32;  // so many are kept in order by insertion

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
  Isa isa = Isa::Avx2;

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
  // Whether none of a block of floats that are neighbours is better than the element at `bar`. NaN compares
  // false: blocks with it are looked at.
  bool passes_over(const float* block, float bar) const {
    const float best = reduce_table(isa).row(block, Stored::F32, kTopKBlock, largest ? Fold::Max : Fold::Min);
    return largest ? best <= bar : best >= bar;
  }
  // The best of n candidates in order and one that comes behind them; returns how many there are, at most k.
  static int64_t insert(TopKCandidate* best, int64_t n, int64_t k, TopKCandidate candidate) {
    int64_t at = std::min(n, k - 1);
    for (; at > 0 && candidate.key > best[at - 1].key; --at) best[at] = best[at - 1];
    best[at] = candidate;
    return std::min(n + 1, k);
  }
  template <class Codec>
  void select(const std::byte* x, int64_t first, int64_t k, TopKCandidate* found) const {
    const uint64_t turn = largest ? 0 : UINT64_MAX;
    int64_t n = 0;
    uint64_t bar = 0;  // what a candidate must exceed, once there are k
    bool barred = false;
    const bool in_blocks = type == DType::Float32 && inner == 1;
    const auto* floats = reinterpret_cast<const float*>(x) + first;
    float bar_value = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (in_blocks && barred && i % kTopKBlock == 0)
        while (i + kTopKBlock <= count && passes_over(floats + i, bar_value)) i += kTopKBlock;
      if (i == count) break;
      const uint64_t key = key_of(Codec::get(x, first + i * inner)) ^ turn;
      if (barred && key <= bar) continue;
      if (k <= kFewBest) {
        n = insert(found, n, k, {key, i});
        barred = n == k;
        bar = found[n - 1].key;
        if (in_blocks) bar_value = floats[found[n - 1].index];
        continue;
      }
      found[n++] = {key, i};
      if (n < room() && (barred || n < k + 64)) continue;
      std::nth_element(found, found + k - 1, found + n);
      bar = found[k - 1].key;
      if (in_blocks) bar_value = floats[found[k - 1].index];
      barred = true;
      n = k;
    }
    if (k <= kFewBest) return;
    if (n > k) std::nth_element(found, found + k, found + n);
    std::sort(found, found + k);
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
  TopKKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<TopK>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        isa_(machine.isa()),
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
    p->isa = isa_;
    return p;
  }

 private:
  std::string name_;
  TopK op_;
  DType type_;
  Isa isa_;
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

std::unique_ptr<LayerKernel> make_topk(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                       const PackContext&) {
  return std::make_unique<TopKKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily topk_tactics() {
  return {kTopkRunner, list_topk, make_topk};
}

}  // namespace lathe::cpu
