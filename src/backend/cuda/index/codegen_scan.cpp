// SPDX-License-Identifier: Apache-2.0
//
// CumSum and CumProd along one axis. Three ways:
//   - lanes: a thread walks a line from end to end, with other lines beside it in memory;
//   - rows:  a block takes a line 1,024 elements at a time. Where lines are few, several blocks share one:
//            a first kernel adds up what each of them has, and the second begins each part with the sum of
//            those in front, in their order;
//   - any:   lanes along an axis that only the run brings. One outside of the rank gives zeros.
// Sums and products are FP32 (integers: 64 bits, which wrap), always in the same order, so that each run
// gives the same bytes. Everything is read and written once, by several blocks of a line read twice.
#include "backend/cuda/codegen/element_kernel.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kScanRunner = "Scan";
constexpr int kScanThreads = 256, kEach = 4, kScanTile = kScanThreads * kEach;

// A line is an axis of `n` elements, `inner` apart.
struct Lines {
  Dim outer, n, inner;
};

constexpr int kAnyAxis = -1;  // in place of a number of splits

// Nothing when the axis is known only at run time.
std::optional<Lines> lines_of(const LayerQuery& query) {
  const Value& axis = query.graph.value(query.layer().inputs[1]);
  if (!axis.is_constant() || axis.constant.size() != 1) return std::nullopt;
  const Shape& x = input_shape(query, 0);
  const size_t at = axis_of(axis.constant.to_int64s()[0], x.size());
  return Lines{product(x, 0, at), x[at], product(x, at + 1, x.size())};
}

struct Direction {
  bool is_product, exclusive, reverse;
};
Direction direction_of(const Op& op) {
  if (const auto* sum = std::get_if<CumSum>(&op)) return {false, sum->exclusive, sum->reverse};
  const auto& times = std::get<CumProd>(op);
  return {true, times.exclusive, times.reverse};
}

void list_typed_scan(const LayerQuery& query, const Tactic& base, const Lines& lines, int multiprocessors,
                     std::vector<Tactic>& tactics) {
  const SymbolValues opt = query.opt_values();
  const int64_t n = upper_extent(lines.n, opt), count = upper_extent(lines.outer * lines.inner, opt);
  const auto rows = [&](int64_t splits) {
    tactics.push_back(with_variant(base, "cuda_scan_rows_" + std::to_string(splits), {{"splits", splits}}));
  };
  const auto lanes = [&] { tactics.push_back(with_variant(base, "cuda_scan_lanes", {{"splits", 0}})); };
  const int64_t splits = std::clamp<int64_t>(2 * multiprocessors / std::max<int64_t>(count, 1), 1,
                                             std::min<int64_t>(256, n / (4 * kScanTile) + 1));
  const bool beside = !lines.inner.is_constant(1);
  if (n <= 64 || (beside && count >= 2048)) lanes();
  if (splits > 1) rows(splits);
  rows(1);
}

std::vector<Tactic> list_scan(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  if (!std::holds_alternative<CumSum>(node.op) && !std::holds_alternative<CumProd>(node.op)) return {};
  std::vector<Tactic> tactics;
  const auto lines = lines_of(query);
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kScanRunner, "cuda_scan", {type, kLinear}, {type, kLinear});
    if (lines) t.inputs[1] = {};
    if (const Support s = computed(type); !s.ok) t.support = s;
    if (!lines && input_shape(query, 1).size() > 1) t.support = Support::no("the axis is no number");
    if (t.support.ok && !lines)
      tactics.push_back(with_variant(t, "cuda_scan_any", {{"splits", kAnyAxis}}));
    else if (t.support.ok)
      list_typed_scan(query, t, *lines, device.properties.multiprocessors, tactics);
    else
      tactics.push_back(std::move(t));
  }
  return tactics;
}

// What a kernel of the layer knows: its operator, and where element j of the walk along a line lies.
class ScanWriter {
 public:
  ScanWriter(const LayerQuery& query, const Tactic& tactic, Lines lines)
      : query_(query),
        tactic_(tactic),
        lines_(std::move(lines)),
        direction_(direction_of(query.layer().op)) {}

  KernelSource lanes() const {
    KernelBuilder b = start("scan_lanes");
    Tail(query_, tactic_).emit(b, 1);
    b.kernel().threads = 128;
    b.kernel().grid[0] = ceil_div(lines_.outer * lines_.inner, Dim(128));
    b.line("const idx line = (idx)blockIdx.x * 128 + threadIdx.x;\nif (line >= " +
           b.number(lines_.outer * lines_.inner) + ") return;");
    line(b, b.number(lines_.n), b.number(lines_.inner));
    walk(b);
    return b.finish();
  }

  KernelSource any_axis() const {
    KernelBuilder b = start("scan_any");
    Tail(query_, tactic_).emit(b, 1);
    const Shape& x = input_shape(query_, 0);
    b.kernel().threads = 128;
    b.kernel().grid[0] = ceil_div(element_count(x), Dim(128));
    b.line("const idx line = (idx)blockIdx.x * 128 + threadIdx.x;\nlong long axis = widen(*" +
           b.input(1, tactic_.inputs[1].dtype) + ");\nif (axis < 0) axis += " + std::to_string(x.size()) +
           ";\nconst bool is_axis = axis >= 0 && axis < " + std::to_string(x.size()) +
           ";\nidx length = 1, inner = 1;");
    for (size_t d = 0; d < x.size(); ++d)
      b.line("if (axis == " + std::to_string(d) + ") length = " + b.number(x[d]) +
             ";\nif (is_axis && axis < " + std::to_string(d) + ") inner *= " + b.number(x[d]) + ";");
    b.line("if (line >= " + b.number(element_count(x)) + " / length) return;");
    line(b, "length", "inner");
    b.line("if (!is_axis) {\nNumber v[1] = {0};\nfinish1(line, v);\nreturn;\n}");
    walk(b);
    return b.finish();
  }

  // From end to end of a line.
  void walk(KernelBuilder& b) const {
    b.line(
        "Number total = kNothing;\n#pragma unroll 4\nfor (idx j = 0; j < n; ++j) {\nconst idx at = "
        "place(j);\nconst Number next = combine(total, (Number)widen(in[at])), v0 = " +
        std::string(direction_.exclusive ? "total" : "next") +
        ";\nNumber v[1] = {v0};\nfinish1(at, v);\ntotal = next;\n}");
  }

  // The sums of the parts of each line.
  KernelSource parts(int splits) const {
    KernelBuilder b = start("scan_parts");
    begin_part(b, splits);
    b.line(
        "Number total = kNothing;\nfor (idx tile = first; tile < last; tile += 1024) {\nNumber x[4], all;\n"
        "take(tile, last, x);\nblock_scan(combine(combine(x[0], x[1]), combine(x[2], x[3])), buffer, all);\n"
        "total = combine(total, all);\n}\nif (threadIdx.x == 0) " +
        b.scratch(0, number()) + "[blockIdx.x] = total;");
    return b.finish();
  }

  KernelSource rows(int splits) const {
    KernelBuilder b = start("scan_rows");
    Tail(query_, tactic_).emit(b, 1);
    begin_part(b, splits);
    b.line("Number carry = kNothing;");
    if (splits > 1)
      b.line("for (int p = 0; p < part; ++p) carry = combine(carry, " + b.scratch(0, number()) + "[line * " +
             std::to_string(splits) + " + p]);");
    b.line(
        "for (idx tile = first; tile < last; tile += 1024) {\nNumber x[4], all;\ntake(tile, last, x);\n"
        "Number before = block_scan(combine(combine(x[0], x[1]), combine(x[2], x[3])), buffer, all);\n"
        "before = combine(carry, before);\ncarry = combine(carry, all);\n#pragma unroll\n"
        "for (int e = 0; e < 4; ++e) {\nconst idx j = tile + threadIdx.x * 4 + e;\nconst Number next = "
        "combine(before, x[e]);\nNumber v[1] = {" +
        std::string(direction_.exclusive ? "before" : "next") +
        "};\nif (j < last) finish1(place(j), v);\nbefore = next;\n}\n}");
    return b.finish();
  }

 private:
  std::string number() const { return std::string(compute_name(tactic_.inputs[0].dtype)); }

  KernelBuilder start(const std::string& entry) const {
    KernelBuilder b = start_kernel(query_, tactic_, entry, tactic_.outputs[0].dtype);
    b.global("typedef " + number() +
             " Number;\nconstexpr Number kNothing = " + (direction_.is_product ? "1" : "0") + ";");
    // Unsigned: what is too large wraps.
    const std::string wide = is_float(tactic_.inputs[0].dtype) ? "Number" : "unsigned long long";
    b.global("DEV Number combine(Number a, Number b) { return (Number)((" + wide + ")a " +
             (direction_.is_product ? "*" : "+") + " (" + wide + ")b); }");
    return b;
  }

  void line(KernelBuilder& b, const std::string& length, const std::string& inner) const {
    b.line("const idx n = " + length + ", begin = line / " + inner + " * n * " + inner + " + line % " +
           inner + ";\nconst auto* in = " + b.input(0, tactic_.inputs[0].dtype) +
           ";\nconst auto place = [&](idx j) { return begin + " + (direction_.reverse ? "(n - 1 - j)" : "j") +
           " * " + inner + "; };");
  }

  // A block's line and part of it, [first, last) of the walk, and how its elements are read and scanned.
  void begin_part(KernelBuilder& b, int splits) const {
    b.global(
        "// The sum over the threads in front, and over all.\n"
        "DEV Number block_scan(Number x, Number* buffer, Number& all) {\nconst int t = threadIdx.x;\n"
        "buffer[t] = x;\n__syncthreads();\nfor (int step = 1; step < 256; step <<= 1) {\n"
        "const Number before = t >= step ? buffer[t - step] : kNothing;\n__syncthreads();\n"
        "buffer[t] = combine(before, buffer[t]);\n__syncthreads();\n}\nall = buffer[255];\n"
        "const Number mine = t > 0 ? buffer[t - 1] : kNothing;\n__syncthreads();\nreturn mine;\n}");
    b.kernel().threads = kScanThreads;
    b.kernel().grid[0] = lines_.outer * lines_.inner * Dim(splits);
    const std::string ss = std::to_string(splits);
    const Dim length = ceil_div(ceil_div(lines_.n, Dim(splits)), Dim(kScanTile)) * Dim(kScanTile);
    b.line("__shared__ Number buffer[256];\nconst idx line = blockIdx.x / " + ss +
           ";\nconst int part = blockIdx.x % " + ss + ";");
    line(b, b.number(lines_.n), b.number(lines_.inner));
    b.line("const idx first = part * " + b.number(length) + ", last = min(first + " + b.number(length) +
           ", n);\nconst auto take = [&](idx tile, idx last, Number (&x)[4]) {\n#pragma unroll\n"
           "for (int e = 0; e < 4; ++e) {\nconst idx j = tile + threadIdx.x * 4 + e;\n"
           "x[e] = j < last ? (Number)widen(in[place(j)]) : kNothing;\n}\n};");
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  Lines lines_;
  Direction direction_;
};

LayerSource generate_scan(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Lines lines = lines_of(query).value_or(Lines{});
  const ScanWriter writer(query, tactic, lines);
  const int splits = tactic.params.get_int("splits");
  if (splits == kAnyAxis) return {{writer.any_axis()}};
  if (splits == 0) return {{writer.lanes()}};
  if (splits == 1) return {{writer.rows(1)}};
  return {.kernels = {writer.parts(splits), writer.rows(splits)},
          .scratch_bytes = lines.outer * lines.inner * Dim(8 * splits)};
}

}  // namespace

GeneratedFamily scan_family() {
  return {kScanRunner, list_scan, generate_scan};
}

}  // namespace lathe::cuda
