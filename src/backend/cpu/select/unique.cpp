// SPDX-License-Identifier: Apache-2.0
//
// Unique: slices are sorted by a whole number that stands for their first element, then by the others, then
// by their place; what is equal lies together then. Members sort a piece each and merge them in pairs; one of
// them goes over the groups.
//
// Operations: n log2 n comparisons of 16-byte records, which lie together, instead of elements wherever they
// are; bytes: 32 for each slice in the records, which is what bounds a long list.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "backend/cpu/select/new_symbols.h"
#include "backend/cpu/select/order_key.h"
#include "backend/cpu/vector/own_tactic.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kUniqueRunner = "Unique";
enum Output : size_t { kValues, kFirst, kInverse, kCounts, kOutputs };

struct Record {
  uint64_t key;
  int64_t slice;
};

struct Group {
  int64_t first, count;
};

// x as (outer, slices, inner).
struct Slices {
  int64_t outer = 1, count = 1, inner = 1;
  int64_t length() const { return outer * inner; }
  int64_t place(int64_t slice, int64_t element) const {
    return (element / inner * count + slice) * inner + element % inner;
  }
};

class PreparedUnique final : public PreparedLayer {
 public:
  const NewSymbols* symbols = nullptr;
  bool sorted = true;
  DType type = DType::Float32;
  Slices slices;
  Extents extents;                      // of x; a list of its elements when there is no axis
  size_t axis = 0, outputs = kOutputs;  // that the layer has
  int threads = 1;

  size_t scratch_bytes() const override {
    return static_cast<size_t>(slices.count) * (2 * sizeof(Record) + sizeof(Group) + 2 * sizeof(int64_t));
  }
  bool meets(int n) const override { return n > 1; }
  int members(int available) const override {
    return all_or_one(60 * static_cast<double>(slices.count), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    auto* records = reinterpret_cast<Record*>(args.scratch);
    Record* merged = records + slices.count;
    with_codec(type, [&]<class Codec>() {
      const auto* x = static_cast<const std::byte*>(args.inputs[0]);
      const auto is_less = [&](const Record& a, const Record& b) { return compare<Codec>(x, a, b) < 0; };
      const auto pieces = static_cast<int64_t>(std::bit_ceil(static_cast<unsigned>(worker.count)));
      const auto begin_of = [&](int64_t piece) { return piece * slices.count / pieces; };
      worker.share(worker.count, [&](const Worker& w) {
        const Worker::Range part = w.slice(pieces);
        for (int64_t p = part.begin; p < part.end; ++p) {
          for (int64_t i = begin_of(p); i < begin_of(p + 1); ++i)
            records[i] = {slices.length() == 0 ? 0 : key_of(Codec::get(x, slices.place(i, 0))), i};
          std::sort(records + begin_of(p), records + begin_of(p + 1), is_less);
        }
      });
      for (int64_t step = 1; step < pieces; step *= 2) {
        worker.share(worker.count, [&](const Worker& w) {
          const Worker::Range part = w.slice(pieces / (2 * step));
          for (int64_t p = part.begin; p < part.end; ++p) {
            const int64_t first = begin_of(2 * p * step), middle = begin_of((2 * p + 1) * step),
                          end = begin_of((2 * p + 2) * step);
            std::merge(records + first, records + middle, records + middle, records + end, merged + first,
                       is_less);
          }
        });
        std::swap(records, merged);
      }
      worker.share(1, [&](const Worker& w) {
        const Worker::Range part = w.slice(1);  // of several portions one has it
        if (part.begin < part.end) write_groups<Codec>(args, records);
      });
    });
  }
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    const int64_t found = found_.load(std::memory_order_relaxed);
    Extents result = extents;
    result[axis] = found;
    for (size_t i = 0; i < outputs; ++i)
      symbols->resolve(i, i == kValues ? result : Extents{i == kInverse ? slices.count : found}, values);
  }

 private:
  // Less than, equal to or greater than 0 as a comes before b; of equal slices the earlier one does.
  template <class Codec>
  int compare(const std::byte* x, const Record& a, const Record& b, bool by_place = true) const {
    if (a.key != b.key) return a.key < b.key ? -1 : 1;
    for (int64_t i = 1; i < slices.length(); ++i) {
      const uint64_t u = key_of(Codec::get(x, slices.place(a.slice, i))),
                     v = key_of(Codec::get(x, slices.place(b.slice, i)));
      if (u != v) return u < v ? -1 : 1;
    }
    if (!by_place || a.slice == b.slice) return 0;
    return a.slice < b.slice ? -1 : 1;
  }
  template <class Codec>
  void write_groups(const LayerArgs& args, const Record* records) const {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    const int64_t n = slices.count;
    auto* groups = reinterpret_cast<Group*>(args.scratch + 2 * n * static_cast<int64_t>(sizeof(Record)));
    auto* group_of = reinterpret_cast<int64_t*>(groups + n);
    int64_t* order = group_of + n;
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || compare<Codec>(x, records[i - 1], records[i], false) != 0)
        groups[found++] = {records[i].slice, 0};
      ++groups[found - 1].count;
      group_of[records[i].slice] = found - 1;
    }
    found_.store(found, std::memory_order_relaxed);
    if (!sorted) in_order_of_appearance(groups, group_of, order, found);
    auto* first = static_cast<int64_t*>(output(args, kFirst));
    auto* inverse = static_cast<int64_t*>(output(args, kInverse));
    auto* counts = static_cast<int64_t*>(output(args, kCounts));
    for (int64_t g = 0; g < found; ++g) {
      if (first) first[g] = groups[g].first;
      if (counts) counts[g] = groups[g].count;
    }
    if (inverse) std::copy_n(group_of, n, inverse);
    auto* y = static_cast<std::byte*>(output(args, kValues));
    const Slices packed{slices.outer, found, slices.inner};
    for (int64_t g = 0; y && g < found; ++g)
      for (int64_t i = 0; i < slices.length(); ++i)
        Codec::put(y, packed.place(g, i), Codec::get(x, slices.place(groups[g].first, i)));
  }
  // Slices are visited from the first to the last: a group is met at its first one.
  void in_order_of_appearance(Group* groups, int64_t* group_of, int64_t* order, int64_t found) const {
    std::sort(groups, groups + found, [](const Group& a, const Group& b) { return a.first < b.first; });
    for (int64_t g = 0; g < found; ++g) order[group_of[groups[g].first]] = g;
    for (int64_t i = 0; i < slices.count; ++i) group_of[i] = order[group_of[i]];
  }
  static void* output(const LayerArgs& args, size_t index) {
    return index < args.outputs.size() ? args.outputs[index] : nullptr;
  }

  mutable std::atomic<int64_t> found_{0};  // of the last run; read by resolve()
};

class UniqueKernel final : public LayerKernel {
 public:
  UniqueKernel(const LayerQuery& query, const Tactic& tactic)
      : op_(std::get<Unique>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        outputs_(query.layer().outputs.size()),
        symbols_(query) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedUnique>();
    const Extents& x = context.inputs[0];
    p->symbols = &symbols_;
    p->sorted = op_.sorted;
    p->type = type_;
    p->extents = {element_count(x)};
    p->outputs = outputs_;
    p->threads = context.threads;
    if (op_.axis) {
      p->extents = x;
      p->axis = static_cast<size_t>(
          normalize_axis(op_.axis->front(), static_cast<int64_t>(x.size()), "the axis of Unique"));
    }
    for (size_t d = 0; d < p->extents.size(); ++d)
      (d < p->axis ? p->slices.outer : d > p->axis ? p->slices.inner : p->slices.count) *= p->extents[d];
    return p;
  }

 private:
  Unique op_;
  DType type_;
  size_t outputs_;
  NewSymbols symbols_;
};

std::vector<Tactic> list_unique(const LayerQuery& query, const Machine&) {
  if (!std::holds_alternative<Unique>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kUniqueRunner, "unique_sorted");
  if (!query.layer().epilogue.empty())
    t.support = Support::no("a selection applies no epilogue");
  else if (dtype_info(t.inputs[0].dtype).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  else if (t.inputs[0].dtype != t.outputs[0].dtype && t.outputs[0].dtype != DType::Undefined)
    t.support = Support::no("elements have two types");
  return {t};
}

std::unique_ptr<LayerKernel> make_unique(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                         const PackContext&) {
  return std::make_unique<UniqueKernel>(query, tactic);
}

}  // namespace

TacticFamily unique_tactics() {
  return {kUniqueRunner, list_unique, make_unique};
}

}  // namespace lathe::cpu
