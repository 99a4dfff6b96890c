// SPDX-License-Identifier: Apache-2.0
//
// Attention of a few query rows over many keys: what a decoder does at each step. Heads alone would keep few
// multiprocessors busy, so the keys are shared out as well: a block has a part of the keys of one head of
// keys and values, and all rows that read them (of several heads of queries where these share keys). Keys
// and values are read once, so the floor is their bytes over the bandwidth.
//
// Each warp takes 16 or 32 keys at a time, with its own largest score and sum (online softmax). Scores are
// products of tensor cores with up to eight rows; which element of a head stands where in the sum is free,
// so lanes read queries and keys in 16 bytes from where they lie, as in codegen_few_rows.cpp. The sum of
// values is one, too, of the transposed values with the probabilities, which are in the right lanes already:
// a lane has four keys of eight columns, and puts neighbours in key side by side. (Multiply-adds in FP32 took
// longer than the loads.) The parts of a head are put together by the blocks of a cluster, each of which has
// a slice of the result and is sent all parts of it, or, where there are more, by a second kernel.
//
// At a thousand keys the bytes need a microsecond and everything is latency: so there are enough warps for
// one turn each, its queries, keys and values are loaded at once, and a cluster has one barrier to wait for
// (blocks push their parts into the others' shared memory; pulling needs a second one, so that nobody leaves
// before all have read).
#include "backend/cuda/attention/attention_text.h"
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"
#include "lathe_device_text/split_attention.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kSplitAttentionRunner = "SplitAttention";
constexpr int64_t kMostQueryRows = 8, kFewestKeys = 64;

// Blocks that share the keys of a head, the warps of each, and the keys that a warp takes at a time.
struct SplitAttentionVariant {
  int splits = 1;
  bool cluster = false;
  int warps = 4, keys = 32;

  static SplitAttentionVariant of(const TacticParams& params) {
    return {params.get_int("splits"), params.get("cluster", 0) != 0, params.get_int("warps"),
            params.get_int("keys")};
  }
  TacticParams params() const {
    return {{"splits", splits}, {"cluster", cluster}, {"warps", warps}, {"keys", keys}};
  }
  std::string name() const {
    return "cuda_attention_split_" + std::string(cluster ? "k" : "s") + std::to_string(splits) + "_w" +
           std::to_string(warps) + "x" + std::to_string(keys);
  }
};

// Best guess first: one turn for each warp, and a cluster rather than a second kernel.
std::vector<SplitAttentionVariant> split_attention_variants(int64_t width, int64_t keys, bool has_clusters) {
  std::vector<SplitAttentionVariant> all;
  // Sixteen warps leave 128 registers to a thread, and heads of 128 need 170.
  const int most = width <= 64 ? 16 : 8;
  const auto add = [&](const SplitAttentionVariant& v) {
    if (v.warps <= most && (v.cluster || keys >= v.splits * v.keys)) all.push_back(v);
  };
  if (has_clusters)
    for (const SplitAttentionVariant& v :
         {SplitAttentionVariant{8, true, 16, 16}, SplitAttentionVariant{8, true, 8, 16},
          SplitAttentionVariant{8, true, 4, 32}, SplitAttentionVariant{4, true, 16, 16},
          SplitAttentionVariant{4, true, 4, 32}, SplitAttentionVariant{2, true, 4, 32}})
      add(v);
  for (const SplitAttentionVariant& v :
       {SplitAttentionVariant{32, false, 4, 32}, SplitAttentionVariant{8, false, 4, 32},
        SplitAttentionVariant{16, false, 8, 16}, SplitAttentionVariant{16, false, 4, 32},
        SplitAttentionVariant{64, false, 4, 32}})
    add(v);
  return all;
}

// Rows that read one head of keys and values; 0: known only at run time.
int64_t rows_of(const LayerQuery& query, const AttentionSizes& s) {
  if (!s.heads.is_constant() || !s.shared_heads.is_constant() || s.shared_heads.value() < 1) return 0;
  return s.heads.value() / s.shared_heads.value() * upper_bound(s.queries, query.ranges);
}

std::vector<Tactic> list_split_attention(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Attention>(&node.op);
  if (!op) return {};
  const AttentionSizes s = attention_sizes(query, *op);
  const int64_t rows = rows_of(query, s), keys = upper_bound(s.keys, query.ranges);
  // Nothing for the many layers of other networks.
  if (rows < 1 || rows > kMostQueryRows || keys < kFewestKeys) return {};
  std::vector<Tactic> tactics;
  for (const auto& [type, to] : stored_types(query, false)) {
    if (!is_half(type)) continue;
    Tactic base =
        typed_tactic(query, kSplitAttentionRunner, "cuda_attention_split", {type, kLinear}, {to, kLinear});
    list_attention_operands(query, type, s, base);
    if (base.support.ok && (s.width % 8 != 0 || s.value_width % 8 != 0))
      base.support = Support::no("heads of no multiple of 8 elements");
    if (base.support.ok && upper_bound(s.batch * s.shared_heads, query.ranges) > 65535)
      base.support = Support::no("more than 65535 heads");
    if (!base.support.ok) {
      tactics.push_back(std::move(base));
      continue;
    }
    for (const SplitAttentionVariant& v :
         split_attention_variants(std::max(s.width, s.value_width), keys, device.properties.has_clusters()))
      tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

// The writer of the layer's kernels: names and numbers of one layer.
class SplitWriter {
 public:
  SplitWriter(const LayerQuery& query, const Tactic& tactic)
      : query_(query),
        tactic_(tactic),
        op_(std::get<Attention>(query.layer().op)),
        sizes_(attention_sizes(query, op_)),
        variant_(SplitAttentionVariant::of(tactic.params)),
        rows_(rows_of(query, sizes_)),
        tail_(query, tactic) {}

  LayerSource source() const {
    LayerSource layer;
    layer.kernels.push_back(parts());
    if (!variant_.cluster) {
      layer.kernels.push_back(together());
      layer.scratch_bytes = sizes_.batch * sizes_.shared_heads * Dim(variant_.splits * record() * 4);
    }
    return layer;
  }

 private:
  // Floats of a block's part: sums of values, and the largest score and the sum of each row.
  int64_t record() const { return rows_ * sizes_.value_width + 16; }
  // Vectors of four columns of the result, of all rows and of a block of the cluster.
  int64_t vectors() const { return rows_ * sizes_.value_width / 4; }
  int64_t slice() const { return (vectors() + variant_.splits - 1) / variant_.splits; }
  // Floats that a block of a cluster is sent.
  int64_t received() const {
    return variant_.cluster ? variant_.splits * (slice() * 4 + (rows_ * 2 + 3) / 4 * 4) : 0;
  }

  std::string constants() const {
    const int64_t eights = variant_.keys / 8;
    std::string text = "constexpr int D = " + std::to_string(sizes_.width);
    for (const auto& [name, value] : std::vector<std::pair<const char*, int64_t>>{
             {"DV", sizes_.value_width},
             {"ROWS", rows_},
             {"CHUNKS", (sizes_.width + 31) / 32},
             {"TILE", variant_.keys},
             {"EIGHTS", eights},
             {"SIXTY_FOURS", (sizes_.value_width + 63) / 64},
             {"IN_FLIGHT", sizes_.value_width > 128 ? 1 : eights / 2},             // times sixteen keys
             {"TOGETHER", std::min<int64_t>(eights, sizes_.width > 128 ? 2 : 4)},  // times eight keys
             {"VECTORS", vectors()},
             {"SLICE", slice()},
             {"RECEIVED", received()},
             {"RECORD", record()},
             {"WARPS", variant_.warps},
             {"SPLITS", variant_.splits},
             {"SHARING", sizes_.heads.value() / sizes_.shared_heads.value()},
             {"SHARED_HEADS", sizes_.shared_heads.value()}})
      text += ", " + std::string(name) + " = " + std::to_string(value);
    return text + ";";
  }

  KernelSource parts() const {
    const DType type = tactic_.inputs[0].dtype;
    KernelBuilder b = start_kernel(query_, tactic_, "attention_split", type);
    b.hardware(early_loads());
    b.waits_itself();
    if (variant_.cluster) b.hardware(hopper_primitives());
    b.global(constants());
    const std::string storage(storage_name(type));
    b.global("#define MULTIPLY multiply_" + storage + "\n#define PAIR f32_to_" + storage + "x2");
    b.kernel().threads = variant_.warps * 32;
    b.kernel().grid = {sizes_.batch * sizes_.shared_heads, 1, Dim(variant_.splits)};
    if (variant_.cluster) b.kernel().cluster = variant_.splits;
    const int64_t each = 16 + rows_ * sizes_.value_width;
    b.kernel().shared_bytes = static_cast<int>(4 * (variant_.warps * each + received()));
    AttentionNames n = attention_names(b, query_, op_);
    std::vector<std::pair<std::string_view, std::string>> names = {
        {"Q_BATCH", n.batch[0]},
        {"K_BATCH", n.batch[1]},
        {"V_BATCH", n.batch[2]},
        {"Q_HEAD", n.head[0]},
        {"K_HEAD", n.head[1]},
        {"V_HEAD", n.head[2]},
        {"Q_ROW", n.row[0]},
        {"K_ROW", n.row[1]},
        {"V_ROW", n.row[2]},
        {"QUERIES", n.queries},
        {"KEYS", n.keys},
        {"SCALE", float_literal(op_.scale * 1.4426950408889634)},
        {"ARRIVE", variant_.cluster ? "cluster_arrive();" : ""}};
    for (const auto& [name, i] : {std::pair{"QUERY", 0}, {"KEY", 1}, {"VALUE", 2}})
      names.emplace_back(name, b.input(static_cast<size_t>(i), type));
    b.line(filled_in(device_text::split_attention::kOperands, names));
    define_masked(b, query_, tactic_, op_, n);
    b.line(filled_in(device_text::split_attention::kParts, names));
    if (!variant_.cluster) {
      b.line(filled_in(device_text::split_attention::kStore, {{"SCRATCH", b.scratch(0, "float")}}));
      return b.finish();
    }
    tail_.emit(b, width());
    b.line(device_text::split_attention::kPush);
    b.line(filled_in(device_text::split_attention::kTogether,
                     together_names(b, "first", "min(first + SLICE, VECTORS)", "WARPS * 32")));
    return b.finish();
  }

  KernelSource together() const {
    KernelBuilder b = start_kernel(query_, tactic_, "attention_together", tactic_.inputs[0].dtype);
    b.global(constants());
    b.kernel().threads = 128;
    b.kernel().grid = {sizes_.batch * sizes_.shared_heads, 1, 1};
    tail_.emit(b, width());
    b.line("const float* parts = " + b.scratch(0, "float") + " + (size_t)blockIdx.x * SPLITS * RECORD;");
    b.line(
        "#define PART(s, i) parts + s * RECORD + i * 4\n#define TOP(s, r) parts[s * RECORD + ROWS * DV + r * "
        "2]\n#define SUM(s, r) parts[s * RECORD + ROWS * DV + r * 2 + 1]");
    b.line("const idx shared_head = blockIdx.x % SHARED_HEADS, b = blockIdx.x / SHARED_HEADS;");
    b.line(filled_in(device_text::split_attention::kTogether, together_names(b, "0", "VECTORS", "128")));
    return b.finish();
  }

  int width() const { return tail_.vector(4) == 4 ? 4 : 1; }

  std::vector<std::pair<std::string_view, std::string>> together_names(KernelBuilder& b, std::string first,
                                                                       std::string end,
                                                                       std::string stride) const {
    const AttentionNames n = attention_names(b, query_, op_);
    return {{"FIRST", std::move(first)},
            {"END", std::move(end)},
            {"STRIDE", std::move(stride)},
            {"Y_BATCH", n.batch[3]},
            {"Y_HEAD", n.head[3]},
            {"Y_ROW", n.row[3]},
            {"QUERIES", n.queries},
            {"FINISH", width() == 4
                           ? "finish4(at, v);"
                           : "for (int c = 0; c < 4; ++c) { float one[1] = {v[c]}; finish1(at + c, one); }"}};
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  const Attention& op_;
  const AttentionSizes sizes_;
  const SplitAttentionVariant variant_;
  const int64_t rows_;
  const Tail tail_;
};

LayerSource generate_split_attention(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return SplitWriter(query, tactic).source();
}

}  // namespace

GeneratedFamily split_attention_family() {
  return {kSplitAttentionRunner, list_split_attention, generate_split_attention};
}

}  // namespace lathe::cuda
