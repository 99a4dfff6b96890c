// SPDX-License-Identifier: Apache-2.0
//
// Unique: slices along an axis (or single elements) are sorted in a stable order (line_sort.h), so that equal
// ones are neighbours and the first of them in the input comes first. Where a slice differs from the one in
// front a group begins, and groups are numbered (pieces.h); in the order of appearance they are numbered once
// more, by their first slices. Single elements are sorted by their own bits; slices of several elements by
// how many others come in front of them, which compares each with each, so there may be 8,192 of them at
// most.
//
// NaN is equal to NaN and behind everything, as in the reference.
#include "backend/cuda/codegen/element_kernel.h"
#include "backend/cuda/codegen/line_sort.h"
#include "backend/cuda/select/pieces.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kUniqueRunner = "Unique";
constexpr int64_t kMostCompared = 8192;
enum UniqueOutput : size_t { kValues, kFirst, kInverse, kCounts };

// x as (outer, slices, inner).
struct Layout {
  Dim outer = 1, slices = 1, inner = 1;
  bool single() const { return outer.is_constant(1) && inner.is_constant(1); }
};

Layout layout_of(const LayerQuery& query) {
  const auto& op = std::get<Unique>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  if (!op.axis) return {1, element_count(x), 1};
  const size_t axis = axis_of(op.axis->front(), x.size());
  return {product(x, 0, axis), x[axis], product(x, axis + 1, x.size())};
}

std::vector<Tactic> list_unique(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<Unique>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kUniqueRunner, "cuda_unique");
  const Layout layout = layout_of(query);
  const int64_t most = upper_bound(layout.slices, query.ranges);
  if (const Support s = computed(t.inputs[0].dtype); !s.ok)
    t.support = s;
  else if (!query.layer().epilogue.empty())
    t.support = Support::no("Unique applies no epilogue");
  else if (!layout.single() && most > kMostCompared)
    t.support = Support::no("more than " + std::to_string(kMostCompared) + " slices of several elements");
  return {t};
}

class UniqueWriter {
 public:
  UniqueWriter(const LayerQuery& query, const Tactic& tactic)
      : query_(query),
        tactic_(tactic),
        type_(tactic.inputs[0].dtype),
        layout_(layout_of(query)),
        pieces_(layout_.slices),
        sorted_(std::get<Unique>(query.layer().op).sorted) {}

  LayerSource write() {
    LayerSource layer{.found = found_names(query_), .numbered = layout_.slices};
    const auto take = [&](const Dim& size) {
      const Dim at = bytes_;
      bytes_ = bytes_ + aligned_bytes(size);
      return at;
    };
    const Dim list = layout_.slices * Dim(4);
    counts_ = take(pieces_.bytes());
    ranks_ = take(list);
    begins_ = take(list);
    groups_ = take(list);
    marks_ = take(list);
    renumbered_ = take(list);
    if (!layout_.single()) layer.kernels.push_back(rank());
    LineSort sort{.length = layout_.slices, .most = upper_bound(layout_.slices, query_.ranges)};
    sort.bits = layout_.single() ? key_bits(type_) : 16;
    sort.key = [&](KernelBuilder& b) { return key(b, "i"); };
    sort.start = [&](const std::string& entry) {
      KernelBuilder b = start_kernel(query_, tactic_, entry, type_);
      add_order_keys(b);
      return b;
    };
    places_ = append_sort(layer.kernels, sort, bytes_);
    layer.kernels.push_back(numbers(false));
    layer.kernels.push_back(numbers(true));
    if (!sorted_) {
      layer.kernels.push_back(appearances(false));
      layer.kernels.push_back(appearances(true));
    }
    layer.kernels.push_back(store());
    layer.scratch_bytes = bytes_;
    return layer;
  }

 private:
  KernelBuilder start(const std::string& entry) const {
    KernelBuilder b = start_kernel(query_, tactic_, entry, type_);
    add_counting(b);
    add_order_keys(b);
    return b;
  }
  bool wants(UniqueOutput output) const {
    const auto& outputs = query_.layer().outputs;
    return output < outputs.size() && outputs[output] != kNoValue;
  }
  std::string key(KernelBuilder& b, const std::string& slice) const {
    return layout_.single() ? "ascending_key(" + b.input(0, type_) + "[" + slice + "])"
                            : b.scratch(ranks_, "u32") + "[" + slice + "]";
  }

  // How many slices come in front of each: a block per slice.
  KernelSource rank() const {
    KernelBuilder b = start("unique_rank");
    b.kernel().grid[0] = layout_.slices;
    const std::string slices = b.number(layout_.slices), inner = b.number(layout_.inner),
                      length = b.number(layout_.outer * layout_.inner);
    b.line(
        "__shared__ u32 buffer[256];\nu32 before = 0, all;\nconst auto key_at = [&](idx slice, idx e) { "
        "return "
        "ascending_key(" +
        b.input(0, type_) + "[(e / " + inner + " * " + slices + " + slice) * " + inner + " + e % " + inner +
        "]); };\nconst idx mine = blockIdx.x;\nfor (idx other = threadIdx.x; other < " + slices +
        "; other += 256)\nfor (idx e = 0; e < " + length +
        "; ++e) {\nconst auto x = key_at(other, e), y = key_at(mine, e);\nif (x == y) continue;\nbefore += x "
        "< "
        "y;\nbreak;\n}\nblock_prefix<256>(before, buffer, all);\nif (threadIdx.x == 0) " +
        b.scratch(ranks_, "u32") + "[mine] = all;");
    return b.finish();
  }

  // Where groups begin in the sorted order, and which group each slice is of.
  KernelSource numbers(bool second) const {
    KernelBuilder b = start(second ? "unique_number" : "unique_count");
    b.line("const u32* places = " + b.scratch(places_, "u32") + ";");
    const std::string has = "i == 0 || " + key(b, "places[i]") + " != " + key(b, "places[i - 1]");
    if (!second) {
      pieces_.count(b, has, counts_);
      return b.finish();
    }
    pieces_.number(b, has, counts_,
                   "const u32 group = (u32)at + set - 1;\n" + b.scratch(groups_, "u32") +
                       "[places[i]] = group;\n" + b.scratch(marks_, "u32") +
                       "[places[i]] = set ? group + 1 : 0;\nif (set) " + b.scratch(begins_, "u32") +
                       "[group] = (u32)i;",
                   "*" + b.scratch(0, "long long") + " = total;");
    return b.finish();
  }

  // Groups by their first slices.
  KernelSource appearances(bool second) const {
    KernelBuilder b = start(second ? "unique_appear" : "unique_appear_count");
    const std::string mark = b.scratch(marks_, "u32") + "[i]", has = mark + " != 0";
    if (second)
      pieces_.number(b, has, counts_,
                     "if (set) " + b.scratch(renumbered_, "u32") + "[" + mark + " - 1] = (u32)at;", "");
    else
      pieces_.count(b, has, counts_);
    return b.finish();
  }

  // A thread per element of x: as one of a slice's elements it may write the slice's group, as one of a
  // group's it writes the result.
  KernelSource store() const {
    KernelBuilder b = start("unique_store");
    const Dim elements = layout_.outer * layout_.slices * layout_.inner;
    b.kernel().grid[0] = ceil_div(max(elements, layout_.slices), Dim(256));
    const std::string inner = b.number(layout_.inner), slices = b.number(layout_.slices),
                      places = b.scratch(places_, "u32"), begins = b.scratch(begins_, "u32");
    b.line("const idx at = (idx)blockIdx.x * 256 + threadIdx.x;\nconst idx groups = (idx)*" +
           b.scratch(0, "long long") + ";\nconst auto number = [&](u32 group) -> idx { return " +
           (sorted_ ? std::string("(idx)group") : "(idx)" + b.scratch(renumbered_, "u32") + "[group]") +
           "; };");
    if (wants(kInverse))
      b.line("if (at < " + slices + ") " + b.output(kInverse, DType::Int64) + "[at] = number(" +
             b.scratch(groups_, "u32") + "[at]);");
    b.line("if (at < groups) {\nconst idx to = number((u32)at), begin = (idx)" + begins +
           "[at];\nconst idx end = at + 1 < groups ? (idx)" + begins + "[at + 1] : " + slices + ";");
    if (wants(kFirst)) b.line(b.output(kFirst, DType::Int64) + "[to] = (long long)" + places + "[begin];");
    if (wants(kCounts)) b.line(b.output(kCounts, DType::Int64) + "[to] = end - begin;");
    b.line("}");
    if (wants(kValues))
      b.line("const idx group = at / " + inner + " % " + slices + ", outer = at / " + inner + " / " + slices +
             ";\nif (at < " + b.number(elements) + " && group < groups)\n" + b.output(kValues, type_) +
             "[(outer * groups + number((u32)group)) * " + inner + " + at % " + inner +
             "] = " + b.input(0, type_) + "[(outer * " + slices + " + (idx)" + places + "[" + begins +
             "[group]]) * " + inner + " + at % " + inner + "];");
    return b.finish();
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  DType type_;
  Layout layout_;
  Pieces pieces_;
  bool sorted_;
  // In scratch memory, behind the number of groups.
  Dim bytes_ = 16, counts_, ranks_, begins_, groups_, marks_, renumbered_, places_;
};

LayerSource generate_unique(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return UniqueWriter(query, tactic).write();
}

}  // namespace

GeneratedFamily unique_family() {
  return {kUniqueRunner, list_unique, generate_unique};
}

}  // namespace lathe::cuda
