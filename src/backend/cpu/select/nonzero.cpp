// SPDX-License-Identifier: Apache-2.0
//
// NonZero: rows are counted by their members, then each writes what it found behind what those before it
// found.
//
// Bytes: the input read twice (the second time from the cache, if it fits), the positions written once.
#include <atomic>

#include "backend/cpu/select/new_symbols.h"
#include "backend/cpu/vector/own_tactic.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kNonzeroRunner = "NonZero";

class PreparedNonZero final : public PreparedLayer {
 public:
  PreparedNonZero(const NewSymbols& symbols, DType type, Extents extents)
      : symbols_(symbols), type_(type), extents_(std::move(extents)) {
    length_ = extents_.empty() ? 1 : extents_.back();
    rows_ = length_ == 0 ? 0 : element_count(extents_) / length_;
    chunks_ = std::min<int64_t>(rows_, 256);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(chunks_) * sizeof(int64_t); }
  bool meets(int count) const override { return count > 1; }
  int members(int available) const override {
    return all_or_one(1.5 * static_cast<double>(rows_ * length_), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    auto* counts = reinterpret_cast<int64_t*>(args.scratch);
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    with_codec(type_, [&]<class Codec>() {
      worker.share(worker.count, [&](const Worker& w) {
        const Worker::Range part = w.slice(chunks_);
        for (int64_t c = part.begin; c < part.end; ++c) counts[c] = count<Codec>(x, c);
      });
      worker.share(worker.count, [&](const Worker& w) {
        int64_t total = 0;
        for (int64_t c = 0; c < chunks_; ++c) total += counts[c];
        found_.store(total, std::memory_order_relaxed);
        const Worker::Range part = w.slice(chunks_);
        int64_t at = 0;
        for (int64_t c = 0; c < part.begin; ++c) at += counts[c];
        for (int64_t c = part.begin; c < part.end; ++c) {
          write<Codec>(x, c, at, total, static_cast<int64_t*>(args.outputs[0]));
          at += counts[c];
        }
      });
    });
  }
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    symbols_.resolve(0, {static_cast<int64_t>(extents_.size()), found_.load(std::memory_order_relaxed)},
                     values);
  }

 private:
  int64_t row_of_chunk(int64_t chunk) const { return chunk * rows_ / chunks_; }
  template <class Codec>
  int64_t count(const std::byte* x, int64_t chunk) const {
    int64_t n = 0;
    for (int64_t i = row_of_chunk(chunk) * length_; i < row_of_chunk(chunk + 1) * length_; ++i)
      n += Codec::get(x, i) != 0 ? 1 : 0;
    return n;
  }
  // Columns `at` ... of the (rank, total) positions.
  template <class Codec>
  void write(const std::byte* x, int64_t chunk, int64_t at, int64_t total, int64_t* to) const {
    const size_t rank = extents_.size();
    if (rank == 0) return;
    for (int64_t r = row_of_chunk(chunk); r < row_of_chunk(chunk + 1); ++r) {
      const int64_t first = at;
      int64_t* last_dim = to + static_cast<int64_t>(rank - 1) * total;
      for (int64_t i = 0; i < length_; ++i)
        if (Codec::get(x, r * length_ + i) != 0) last_dim[at++] = i;
      int64_t rest = r;
      for (size_t d = rank - 1; d-- > 0; rest /= extents_[d])
        std::fill(to + static_cast<int64_t>(d) * total + first, to + static_cast<int64_t>(d) * total + at,
                  rest % extents_[d]);
    }
  }

  const NewSymbols& symbols_;
  DType type_;
  Extents extents_;
  int64_t rows_ = 0, length_ = 1, chunks_ = 0;
  mutable std::atomic<int64_t> found_{0};  // of the last run; read by resolve()
};

class NonZeroKernel final : public LayerKernel {
 public:
  NonZeroKernel(const LayerQuery& query, const Tactic& tactic)
      : type_(tactic.inputs[0].dtype), symbols_(query) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedNonZero>(symbols_, type_, context.inputs[0]);
  }

 private:
  DType type_;
  NewSymbols symbols_;
};

std::vector<Tactic> list_nonzero(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<NonZero>(node.op)) return {};
  Tactic t = linear_tactic(query, kNonzeroRunner, "nonzero_rows");
  if (!node.epilogue.empty())
    t.support = Support::no("a selection applies no epilogue");
  else if (dtype_info(t.inputs[0].dtype).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  return {t};
}

std::unique_ptr<LayerKernel> make_nonzero(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                          const PackContext&) {
  return std::make_unique<NonZeroKernel>(query, tactic);
}

}  // namespace

TacticFamily nonzero_tactics() {
  return {kNonzeroRunner, list_nonzero, make_nonzero};
}

}  // namespace lathe::cpu
