// SPDX-License-Identifier: Apache-2.0
//
// TopK along one axis: values and indices in their order; among equals the lower index comes first, NaN is
// the greatest, as in the reference. Three ways, by the length of a line and by k:
//   - block:  a line of up to 4,096 elements is sorted in shared memory by one block;
//   - select: several blocks share a longer line and find its k-th element byte by byte, from the highest on
//             (radix select): each counts, among the elements that agree so far, the values of the next byte,
//             and the byte that the k-th element has follows from the counts. Ties go on with the bytes of
//             the index, so that exactly k elements are left, which a block sorts. The line is read once for
//             each byte, from L2 where it fits;
//   - sort:   for more than 4,096 wanted elements the lines are sorted as a whole (line_sort.h).
// k may be a number that only the run brings.
#include "backend/cuda/codegen/element_kernel.h"
#include "backend/cuda/codegen/line_sort.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kTopkRunner = "TopK";
enum Way : int64_t { kBlock, kSelect, kSort };

std::vector<Tactic> list_topk(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<TopK>(&node.op);
  if (!op) return {};
  Tactic t = linear_tactic(query, kTopkRunner, "cuda_topk");
  const Shape& x = input_shape(query, 0);
  const size_t axis = axis_of(op->axis, x.size());
  const int64_t most = upper_bound(x[axis], query.ranges);
  if (const Support s = computed(t.inputs[0].dtype); !s.ok)
    t.support = s;
  else if (!node.epilogue.empty())
    t.support = Support::no("TopK applies no epilogue");
  if (!t.support.ok) return {t};
  if (most <= LineSort::kShort) return {with_variant(t, "cuda_topk_block", {{"way", kBlock}})};
  std::vector<Tactic> tactics;
  const ValueId result = node.outputs[0] != kNoValue ? node.outputs[0] : node.outputs[1];
  if (upper_bound(query.graph.value(result).shape[axis], query.ranges) <= LineSort::kShort)
    tactics.push_back(with_variant(t, "cuda_topk_select", {{"way", kSelect}}));
  tactics.push_back(with_variant(t, "cuda_topk_sort", {{"way", kSort}}));
  return tactics;
}

class TopKWriter {
 public:
  TopKWriter(const LayerQuery& query, const Tactic& tactic, int multiprocessors)
      : query_(query),
        tactic_(tactic),
        op_(std::get<TopK>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        bits_(key_bits(type_)),
        multiprocessors_(multiprocessors),
        found_(found_names(query)) {
    const Shape& x = input_shape(query, 0);
    const size_t axis = axis_of(op_.axis, x.size());
    n_ = x[axis];
    inner_ = product(x, axis + 1, x.size());
    lines_ = product(x, 0, axis) * inner_;
    most_ = upper_bound(n_, query.ranges);
    const auto& outputs = query.layer().outputs;
    k_ = query.graph.value(outputs[0] != kNoValue ? outputs[0] : outputs[1]).shape[axis];
  }

  LayerSource block() const {
    KernelBuilder b = start("topk_block");
    const LineSort sort = line_sort();
    k(b);
    begin_results(b, lines_);
    emit_short_sort(b, sort);
    b.kernel().grid[0] = blocks(lines_);
    b.line("for (idx p = threadIdx.x; p < k && p < n; p += " + std::to_string(b.kernel().threads) +
           ") {\nconst idx i = (idx)places[p];");
    store(b);
    b.line("}");
    return {.kernels = {b.finish()}, .scratch_bytes = reserved(), .found = found_};
  }

  LayerSource sort() const {
    LayerSource layer{.found = found_, .numbered = n_};
    Dim bytes = reserved();
    const LineSort whole = line_sort();
    const Dim places = append_sort(layer.kernels, whole, bytes);
    KernelBuilder b = start("topk_store");
    k(b);
    const std::string most = b.number(k_most());
    b.kernel().grid[0] = blocks(ceil_div(lines_ * k_most(), Dim(256)));
    b.line("const idx n = " + b.number(n_) + ", e = (idx)blockIdx.x * 256 + threadIdx.x;\nif (e >= " +
           b.number(lines_) + " * " + most + ") return;\nconst idx line = e / " + most + ", p = e % " + most +
           ";\nif (p >= k || p >= n) return;\nconst idx i = (idx)" + b.scratch(places, "u32") +
           "[line * n + p];");
    store(b);
    layer.kernels.push_back(b.finish());
    layer.scratch_bytes = bytes;
    return layer;
  }

  LayerSource select() {
    LayerSource layer{.found = found_, .numbered = n_};
    plan_select();
    layer.kernels.push_back(clear());
    for (int pass = 0; pass < passes(); ++pass) layer.kernels.push_back(count(pass));
    layer.kernels.push_back(collect());
    layer.kernels.push_back(sort_chosen());
    layer.scratch_bytes = bytes_;
    return layer;
  }

 private:
  // The k that the run finds lies in front.
  Dim reserved() const { return found_.empty() ? 0 : 16; }
  // Somebody must write it, also where there are no lines.
  Dim blocks(const Dim& needed) const { return found_.empty() ? needed : max(needed, Dim(1)); }
  Dim k_most() const { return found_.empty() ? k_ : n_; }

  KernelBuilder start(const std::string& entry) const {
    KernelBuilder b = start_kernel(query_, tactic_, entry, type_);
    add_counting(b);
    add_order_keys(b);
    return b;
  }

  // `k`, and where the layer finds it, the note of it.
  void k(KernelBuilder& b) const {
    if (found_.empty()) return b.line("const idx k = " + b.number(k_) + ";");
    const std::string n = b.number(n_);
    b.line("const long long wanted = widen(*" + b.input(1, tactic_.inputs[1].dtype) +
           ");\nconst idx k = wanted < 0 ? 0 : wanted > " + n + " ? " + n +
           " : (idx)wanted;\nif (blockIdx.x == 0 && threadIdx.x == 0) *" + b.scratch(0, "long long") +
           " = k;");
  }

  // Blocks of lines that are not there end here.
  static void begin_results(KernelBuilder& b, const Dim& lines) {
    b.line("if (blockIdx.x >= " + b.number(lines) + ") return;");
  }

  // The element `i` of `line`.
  std::string element(KernelBuilder& b) const {
    const std::string in = b.input(0, type_), inner = b.number(inner_);
    if (inner_.is_constant(1)) return in + "[line * n + i]";
    return in + "[(line / " + inner + " * n + i) * " + inner + " + line % " + inner + "]";
  }

  LineSort line_sort() const {
    LineSort sort{.lines = lines_, .length = n_, .most = most_, .bits = bits_};
    sort.key = [this](KernelBuilder& b) { return order_key(element(b), bits_, op_.largest); };
    sort.start = [this](const std::string& entry) {
      KernelBuilder b = start_kernel(query_, tactic_, entry, type_);
      add_order_keys(b);
      return b;
    };
    return sort;
  }

  // Element `i` of `line` is the one at `p`.
  void store(KernelBuilder& b) const {
    const std::string inner = b.number(inner_);
    b.line("const idx to = (line / " + inner + " * k + p) * " + inner + " + line % " + inner + ";");
    const auto& outputs = query_.layer().outputs;
    if (outputs[0] != kNoValue) b.line(b.output(0, type_) + "[to] = " + element(b) + ";");
    if (outputs.size() > 1 && outputs[1] != kNoValue) b.line(b.output(1, DType::Int64) + "[to] = i;");
  }

  // --- select
  int key_passes() const { return (bits_ + 7) / 8; }
  int passes() const { return key_passes() + index_passes_; }

  void plan_select() {
    int bits = 1;
    while (most_ >> bits != 0) ++bits;
    index_passes_ = (bits + 7) / 8;
    const SymbolValues opt = query_.opt_values();
    const int64_t lines = std::max<int64_t>(1, upper_extent(lines_, opt));
    splits_ = std::clamp<int64_t>(2 * multiprocessors_ / lines, 1, std::max<int64_t>(1, most_ / 4096));
    bytes_ = reserved();
    const auto take = [&](const Dim& size) {
      const Dim at = bytes_;
      bytes_ = bytes_ + aligned_bytes(size);
      return at;
    };
    states_ = take(lines_ * Dim(16 * (passes() + 1)));
    chosen_keys_ = take(lines_ * k_most() * Dim(bits_ > 32 ? 8 : 4));
    chosen_ = take(lines_ * k_most() * Dim(4));
    taken_ = take(lines_ * Dim(4));
    counts_ = take(lines_ * Dim(1024 * passes()));
  }

  KernelSource clear() const {
    KernelBuilder b = start("topk_clear");
    const Dim total = lines_ * Dim(256 * passes());
    b.kernel().grid[0] = blocks(ceil_div(total, Dim(256)));
    b.line("const idx e = (idx)blockIdx.x * 256 + threadIdx.x;\nif (e < " + b.number(total) + ") " +
           b.scratch(counts_, "u32") + "[e] = 0;\nif (e < " + b.number(lines_) + ") " +
           b.scratch(taken_, "u32") + "[e] = 0;");
    return b.finish();
  }

  // Of each line: the bytes of the k-th element's key and index that are known, and which of the elements
  // with these bytes it is. Pass p finds those of pass p - 1 from its counts, the same in each block.
  void begin_pass(KernelBuilder& b, int pass) const {
    const std::string splits = std::to_string(splits_), type = key_type(bits_);
    b.global("struct Known { u64 key; u32 index, rank; };");
    b.line("const idx n = " + b.number(n_) + ", line = blockIdx.x / " + splits +
           ";\nconst int part = blockIdx.x % " + splits + ";");
    k(b);
    begin_results(b, lines_ * Dim(splits_));
    b.line("__shared__ Known known;\n__shared__ u32 buffer[256];\nKnown* states = (Known*)" +
           b.scratch(states_, "u32") + " + line * " + std::to_string(passes() + 1) + ";");
    if (pass == 0) {
      b.line("if (threadIdx.x == 0) known = Known{0, 0, (u32)(k < n ? k : n)};");
    } else {
      b.line("{\nconst Known before = states[" + std::to_string(pass - 1) +
             "];\nconst u32 count = " + b.scratch(counts_, "u32") + "[(line * " + std::to_string(passes()) +
             " + " + std::to_string(pass - 1) +
             ") * 256 + threadIdx.x];\nu32 all;\nconst u32 front = block_prefix<256>(count, buffer, all);\n"
             "if (front < before.rank && before.rank <= front + count) {\nKnown next = before;\n" +
             (pass <= key_passes() ? "next.key = next.key << 8 | threadIdx.x;\n"
                                   : "next.index = next.index << 8 | threadIdx.x;\n") +
             "next.rank = before.rank - front;\nknown = next;\n}\n"
             "if (before.rank == 0 && threadIdx.x == 0) known = before;\n}");
    }
    b.line("__syncthreads();\nconst Known now = known;\nif (part == 0 && threadIdx.x == 0) states[" +
           std::to_string(pass) + "] = now;");
    // A part of the line, in steps of the block.
    b.line("const idx from = (long long)n * part / " + splits + ", to = (long long)n * (part + 1) / " +
           splits + ";\nconst auto key_at = [&](idx i) -> " + type + " { return " +
           order_key(element(b), bits_, op_.largest) + "; };");
  }

  KernelSource count(int pass) const {
    KernelBuilder b = start("topk_count");
    b.kernel().grid[0] = blocks(lines_ * Dim(splits_));
    begin_pass(b, pass);
    const bool keys = pass < key_passes();
    const int shift = keys ? 8 * (key_passes() - 1 - pass) : 8 * (passes() - 1 - pass);
    const std::string ss = std::to_string(shift), above = std::to_string(shift + 8);
    const std::string agrees =
        keys ? (pass == 0 ? std::string("true") : "(u64)key >> " + above + " == now.key")
             : "(u64)key == now.key" +
                   (pass == key_passes() ? std::string() : " && (u32)i >> " + above + " == now.index");
    b.line(
        "__shared__ u32 bins[256];\nbins[threadIdx.x] = 0;\n__syncthreads();\nif (now.rank > 0)\n"
        "for (idx i = from + threadIdx.x; i < to; i += 256) {\nconst " +
        key_type(bits_) + " key = key_at(i);\nif (" + agrees + ") atomic_add(&bins[(u32)(" +
        (keys ? "key" : "(u32)i") + " >> " + ss +
        ") & 255u], 1u);\n}\n__syncthreads();\nconst u32 own = "
        "bins[threadIdx.x];\nif (own > 0) atomic_add(" +
        b.scratch(counts_, "u32") + " + (line * " + std::to_string(passes()) + " + " + std::to_string(pass) +
        ") * 256 + threadIdx.x, own);");
    return b.finish();
  }

  // All elements up to the k-th, in any order.
  KernelSource collect() const {
    KernelBuilder b = start("topk_collect");
    b.kernel().grid[0] = blocks(lines_ * Dim(splits_));
    begin_pass(b, passes());
    const std::string type = key_type(bits_), most = b.number(k_most());
    b.line("if (now.rank == 0) return;\nfor (idx i = from + threadIdx.x; i < to; i += 256) {\nconst " + type +
           " key = key_at(i);\nif ((u64)key < now.key || ((u64)key == now.key && (u32)i <= now.index)) {\n"
           "const u32 at = atomic_add(" +
           b.scratch(taken_, "u32") + " + line, 1u);\nif (at < " + most + ") {\n" +
           b.scratch(chosen_keys_, type) + "[line * " + most + " + at] = key;\n" + b.scratch(chosen_, "u32") +
           "[line * " + most + " + at] = (u32)i;\n}\n}\n}");
    return b.finish();
  }

  // By key, equal keys by index.
  KernelSource sort_chosen() const {
    KernelBuilder b = start("topk_sort_chosen");
    k(b);
    begin_results(b, lines_);
    const std::string type = key_type(bits_), most = b.number(k_most());
    LineSort sort{.lines = lines_,
                  .length = k_most(),
                  .most = std::min(upper_bound(k_most(), query_.ranges), LineSort::kShort),
                  .bits = bits_};
    sort.key = [&](KernelBuilder& kernel) {
      return "(i < k ? " + kernel.scratch(chosen_keys_, type) + "[line * " + most + " + i] : (" + type +
             ")-1)";
    };
    sort.place = [&](KernelBuilder& kernel) {
      return "(i < k ? " + kernel.scratch(chosen_, "u32") + "[line * " + most + " + i] : 0xffffffffu)";
    };
    emit_short_sort(b, sort);
    b.kernel().grid[0] = blocks(lines_);
    b.line("for (idx p = threadIdx.x; p < k && p < n; p += " + std::to_string(b.kernel().threads) +
           ") {\nconst idx i = (idx)places[p];\nconst idx n = " + b.number(n_) + ";");
    store(b);
    b.line("}");
    return b.finish();
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  const TopK& op_;
  DType type_;
  int bits_;
  int multiprocessors_;
  std::vector<std::string> found_;
  Dim n_, inner_, lines_, k_;
  int64_t most_ = 0;
  // Of select:
  int index_passes_ = 0;
  int64_t splits_ = 1;
  Dim bytes_, states_, counts_, chosen_keys_, chosen_, taken_;
};

LayerSource generate_topk(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  TopKWriter writer(query, tactic, device.properties.multiprocessors);
  switch (tactic.params.get("way")) {
    case kBlock:
      return writer.block();
    case kSelect:
      return writer.select();
    default:
      return writer.sort();
  }
}

}  // namespace

GeneratedFamily topk_family() {
  return {kTopkRunner, list_topk, generate_topk};
}

}  // namespace lathe::cuda
