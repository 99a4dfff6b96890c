// SPDX-License-Identifier: Apache-2.0
//
// Attention of a few query rows over many keys: what a decoder does at each step. Heads alone would keep few
// multiprocessors busy, so the keys are shared out as well: a block has a part of the keys of one head of
// keys and values, and all rows that read them (of several heads of queries where these share keys). Keys
// and values are read once, so the floor is their bytes over the bandwidth.
//
// Each warp takes 32 keys at a time, with its own largest score and sum (online softmax). Scores are
// products of tensor cores with up to eight rows; which element of a head stands where in the sum is free,
// so lanes read queries and keys in 16 bytes from where they lie, as in codegen_few_rows.cpp. Probabilities
// go through shared memory; for the sum of values a lane has eight columns, in FP32. The parts of a head are
// put together by the blocks of a cluster, which read each other's shared memory, or, where there are more,
// by a second kernel.
#include "backend/cuda/attention/attention_text.h"
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kRunner = "SplitAttention";
constexpr int64_t kMostRows = 8, kFewestKeys = 64;
constexpr int kWarps = 4;

struct Variant {
  int splits = 1;
  bool cluster = false;
  static Variant of(const TacticParams& params) {
    return {params.get_int("splits"), params.get("cluster", 0) != 0};
  }
  TacticParams params() const { return {{"splits", splits}, {"cluster", cluster}}; }
  std::string name() const {
    return "cuda_attention_split_" + std::string(cluster ? "k" : "s") + std::to_string(splits);
  }
};

// Rows that read one head of keys and values; 0: known only at run time.
int64_t rows_of(const LayerQuery& query, const AttentionSizes& s) {
  if (!s.heads.is_constant() || !s.shared_heads.is_constant() || s.shared_heads.value() < 1) return 0;
  return s.heads.value() / s.shared_heads.value() * upper_bound(s.queries, query.ranges);
}

std::vector<Tactic> list(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Attention>(&node.op);
  if (!op) return {};
  const AttentionSizes s = attention_sizes(query, *op);
  const int64_t rows = rows_of(query, s), keys = upper_bound(s.keys, query.ranges);
  // Nothing for the many layers of other networks.
  if (rows < 1 || rows > kMostRows || keys < kFewestKeys) return {};
  std::vector<Tactic> tactics;
  for (const auto& [type, to] : stored_types(query, false)) {
    if (!is_half(type)) continue;
    Tactic base = typed_tactic(query, kRunner, "cuda_attention_split", {type, kLinear}, {to, kLinear});
    list_attention_operands(query, type, s, base);
    if (base.support.ok && (s.width % 8 != 0 || s.value_width % 8 != 0))
      base.support = Support::no("heads of no multiple of 8 elements");
    if (base.support.ok && upper_bound(s.batch * s.shared_heads, query.ranges) > 65535)
      base.support = Support::no("more than 65535 heads");
    if (!base.support.ok) {
      tactics.push_back(std::move(base));
      continue;
    }
    std::vector<Variant> variants;
    if (device.properties.has_clusters())
      for (const int splits : {8, 4, 2}) variants.push_back({splits, true});
    for (const int splits : {8, 16, 32, 64})
      if (keys >= splits * 32) variants.push_back({splits, false});
    for (const Variant& v : variants) tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

// A block's part of the keys, 32 at a time for each warp. `top` is in units of log 2.
constexpr std::string_view kParts =
    R"(const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
const idx shared_head = blockIdx.x % SHARED_HEADS, b = blockIdx.x / SHARED_HEADS;
const idx row = g % QUERIES, h = shared_head * SHARING + min((idx)g / QUERIES, (idx)SHARING - 1);
const bool is_row = g < SHARING * QUERIES;
const auto* query = QUERY + b * Q_BATCH + h * Q_HEAD + row * Q_ROW;
const auto* key = KEY + b * K_BATCH + shared_head * K_HEAD;
const auto* value = VALUE + b * V_BATCH + shared_head * V_HEAD;
MASKED
const idx chunk = (KEYS + SPLITS * 32 - 1) / (SPLITS * 32) * 32, begin = blockIdx.z * chunk, end = min(begin + chunk, (idx)KEYS);
float* probabilities = (float*)shared_memory() + warp * (33 * ROWS);
float* factors = probabilities + 32 * ROWS;
// Values: the keys that the lanes take at once, each by LANES lanes. Lanes that are left do what others do.
const int of = min(lane / LANES, AT_ONCE - 1), column = lane % LANES * 8;
u32 q[CHUNKS][4];
#pragma unroll
for (int i = 0; i < CHUNKS; ++i) {
q[i][0] = q[i][1] = q[i][2] = q[i][3] = 0;
if (is_row && i * 32 + t * 8 < D) load_words(query + i * 32 + t * 8, q[i]);
}
float top = -infinity(), sum = 0, out[ROWS][8] = {};
for (idx k0 = begin + warp * 32; k0 < end; k0 += WARPS * 32) {
float score[4][4] = {};
u32 v[IN_FLIGHT][4];
const auto fetch_values = [&](int first) {
#pragma unroll
for (int n = 0; n < IN_FLIGHT; ++n)
load_early(value + min(k0 + (first + n) * AT_ONCE + of, end - 1) * V_ROW + column, v[n]);
};
#pragma unroll
for (int j0 = 0; j0 < 4; j0 += TOGETHER) {
u32 k[TOGETHER][CHUNKS][4];
#pragma unroll
for (int j = 0; j < TOGETHER; ++j) {
const auto* from = key + min(k0 + (j0 + j) * 8 + g, end - 1) * K_ROW;
#pragma unroll
for (int i = 0; i < CHUNKS; ++i) {
k[j][i][0] = k[j][i][1] = k[j][i][2] = k[j][i][3] = 0;
if (i * 32 + t * 8 < D) load_early(from + i * 32 + t * 8, k[j][i]);
}
}
if (j0 + TOGETHER == 4) fetch_values(0);
__syncwarp();  // or the compiler moves loads behind products
#pragma unroll
for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
for (int i = 0; i < CHUNKS; ++i) {
const u32 first[4] = {q[i][0], 0, q[i][1], 0}, second[4] = {q[i][2], 0, q[i][3], 0};
MULTIPLY(score[j0 + j], first, k[j][i][0], k[j][i][1]);
MULTIPLY(score[j0 + j], second, k[j][i][2], k[j][i][3]);
}
}
float next = top;
#pragma unroll
for (int j = 0; j < 4; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
const idx at = k0 + j * 8 + t * 2 + c;
float& x = score[j][c];
x = is_row && at < end ? masked(x * SCALE, row, at) : -infinity();
next = fmaxf(next, x);
}
next = fmaxf(next, shuffle_xor(next, 1));
next = fmaxf(next, shuffle_xor(next, 2));
const float base = next == -infinity() ? 0.f : next, shrink = power_of_two(top - base);
top = next;
sum *= shrink;
#pragma unroll
for (int j = 0; j < 4; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
const float p = power_of_two(score[j][c] - base);
sum += p;
if (g < ROWS) probabilities[(j * 8 + t * 2 + c) * ROWS + g] = p;
}
if (t == 0 && g < ROWS) factors[g] = shrink;
__syncwarp();
#pragma unroll
for (int r = 0; r < ROWS; ++r) {
const float f = factors[r];
#pragma unroll
for (int c = 0; c < 8; ++c) out[r][c] *= f;
}
// Keys behind the end have the probability 0.
#pragma unroll
for (int first = 0; first < TURNS; first += IN_FLIGHT) {
if (first > 0) fetch_values(first);
#pragma unroll
for (int n = 0; n < IN_FLIGHT; ++n) {
const int at = (first + n) * AT_ONCE + of;
if (at >= 32) continue;
float x[8];
widen_words(v[n], x);
#pragma unroll
for (int r = 0; r < ROWS; ++r) {
const float p = probabilities[at * ROWS + r];
#pragma unroll
for (int c = 0; c < 8; ++c) out[r][c] += p * x[c];
}
}
}
__syncwarp();
}
sum += shuffle_xor(sum, 1);
sum += shuffle_xor(sum, 2);
__syncthreads();
// The warps' parts become one: [row][column], and the largest score and the sum of each row.
float* result = (float*)shared_memory();
float* tops = result + ROWS * DV;
float* sums = tops + 8;
float* warp_tops = sums + 8;
float* warp_sums = warp_tops + WARPS * 8;
float* parts = warp_sums + WARPS * 8;
if (t == 0) {
warp_tops[warp * 8 + g] = top;
warp_sums[warp * 8 + g] = sum;
}
if (lane < AT_ONCE * LANES) {
#pragma unroll
for (int r = 0; r < ROWS; ++r) store(parts + ((warp * AT_ONCE + lane / LANES) * ROWS + r) * DV + lane % LANES * 8, out[r]);
}
__syncthreads();
for (int i = threadIdx.x; i < ROWS * DV; i += WARPS * 32) {
const int r = i / DV;
float all = -infinity(), total = 0, x = 0;
#pragma unroll
for (int w = 0; w < WARPS; ++w) all = fmaxf(all, warp_tops[w * 8 + r]);
const float from = all == -infinity() ? 0.f : all;
#pragma unroll
for (int w = 0; w < WARPS; ++w) {
const float f = power_of_two(warp_tops[w * 8 + r] - from);
total += f * warp_sums[w * 8 + r];
float part = 0;
#pragma unroll 4
for (int s = 0; s < AT_ONCE; ++s) part += parts[(w * AT_ONCE + s) * ROWS * DV + i];
x += f * part;
}
result[i] = x;
if (i % DV == 0) {
tops[r] = all;
sums[r] = total;
}
})";

// Four columns of row r from the parts of all blocks, which NUMBERS(part, offset, x) reads four at a time.
constexpr std::string_view kTogether = R"(const int r = i / (DV / 4), column = i % (DV / 4) * 4;
float all = -infinity(), total = 0, v[4] = {}, tops4[SPLITS][4];
#pragma unroll
for (int s = 0; s < SPLITS; ++s) {
NUMBERS(s, ROWS * DV + r / 4 * 4, tops4[s]);
all = fmaxf(all, tops4[s][r % 4]);
}
const float from = all == -infinity() ? 0.f : all;
#pragma unroll
for (int s = 0; s < SPLITS; ++s) {
const float f = power_of_two(tops4[s][r % 4] - from);
float sums4[4], x[4];
NUMBERS(s, ROWS * DV + 8 + r / 4 * 4, sums4);
NUMBERS(s, r * DV + column, x);
total += f * sums4[r % 4];
#pragma unroll
for (int c = 0; c < 4; ++c) v[c] += f * x[c];
}
const float factor = total == 0 ? 0.f : 1.f / total;
#pragma unroll
for (int c = 0; c < 4; ++c) v[c] *= factor;
const idx head = shared_head * SHARING + r / QUERIES, at = b * Y_BATCH + head * Y_HEAD + r % QUERIES * Y_ROW + column;
if (r < SHARING * QUERIES) FINISH)";

// The writer of the layer's kernels: names and numbers of one layer.
class SplitWriter {
 public:
  SplitWriter(const LayerQuery& query, const Tactic& tactic)
      : query_(query),
        tactic_(tactic),
        op_(std::get<Attention>(query.layer().op)),
        sizes_(attention_sizes(query, op_)),
        variant_(Variant::of(tactic.params)),
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

  std::string constants() const {
    const int64_t lanes = sizes_.value_width / 8, at_once = 32 / lanes, turns = (32 + at_once - 1) / at_once;
    std::string text = "constexpr int D = " + std::to_string(sizes_.width);
    for (const auto& [name, value] : std::vector<std::pair<const char*, int64_t>>{
             {"DV", sizes_.value_width},
             {"ROWS", rows_},
             {"CHUNKS", (sizes_.width + 31) / 32},
             {"LANES", lanes},
             {"AT_ONCE", at_once},
             {"TURNS", turns},
             {"IN_FLIGHT", std::min<int64_t>(turns, 16)},
             {"TOGETHER", sizes_.width > 128 ? 2 : 4},  // times eight keys
             {"WARPS", kWarps},
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
    if (variant_.cluster) b.hardware(hopper_primitives());
    b.global(constants());
    const std::string storage(storage_name(type));
    b.global("#define MULTIPLY multiply_" + storage +
             "\nDEV void widen_words(const u32 (&w)[4], float (&x)[8]) {\n" + storage +
             " t[8];\nmemcpy(t, w, 16);\n#pragma unroll\nfor (int i = 0; i < 8; ++i) x[i] = widen(t[i]);\n}");
    b.kernel().threads = kWarps * 32;
    b.kernel().grid = {sizes_.batch * sizes_.shared_heads, 1, Dim(variant_.splits)};
    if (variant_.cluster) b.kernel().cluster = variant_.splits;
    const int64_t dv = sizes_.value_width, at_once = 32 / (dv / 8),
                  end = rows_ * dv + 16 + kWarps * 16 + kWarps * at_once * rows_ * dv;
    b.kernel().shared_bytes = static_cast<int>(4 * std::max(end, kWarps * 33 * rows_));
    AttentionNames n = attention_names(b, query_, op_);
    std::vector<std::pair<std::string_view, std::string>> names = {
        {"Q_BATCH", n.batch[0]}, {"K_BATCH", n.batch[1]},
        {"V_BATCH", n.batch[2]}, {"Q_HEAD", n.head[0]},
        {"K_HEAD", n.head[1]},   {"V_HEAD", n.head[2]},
        {"Q_ROW", n.row[0]},     {"K_ROW", n.row[1]},
        {"V_ROW", n.row[2]},     {"QUERIES", n.queries},
        {"KEYS", n.keys},        {"SCALE", float_literal(op_.scale * 1.4426950408889634)}};
    for (const auto& [name, i] : {std::pair{"QUERY", 0}, {"KEY", 1}, {"VALUE", 2}})
      names.emplace_back(name, b.input(static_cast<size_t>(i), type));
    const size_t masked = kParts.find("MASKED\n");
    b.line(filled_in(kParts.substr(0, masked), names));
    define_masked(b, query_, tactic_, op_, n);
    b.line(filled_in(kParts.substr(masked + 7), names));
    if (!variant_.cluster) {
      b.line("__syncthreads();\nfloat* to = " + b.scratch(0, "float") +
             " + ((size_t)blockIdx.x * SPLITS + blockIdx.z) * " + std::to_string(record()) +
             ";\nfor (int i = threadIdx.x; i < " + std::to_string(record()) +
             "; i += WARPS * 32) to[i] = result[i];");
      return b.finish();
    }
    tail_.emit(b, width());
    b.line(
        "#define NUMBERS(part, offset, x) load_shared_of(part, result + offset, "
        "x)\ncluster_arrive();\ncluster_wait();");
    b.line(
        "for (int i = blockIdx.z * (WARPS * 32) + threadIdx.x; i < ROWS * DV / 4; i += SPLITS * WARPS * 32) "
        "{");
    b.line(filled_in(kTogether, together_names(b)));
    // Others may still read what this block holds.
    b.line("}\n__syncwarp();\ncluster_arrive();\ncluster_wait();");
    return b.finish();
  }

  KernelSource together() const {
    KernelBuilder b = start_kernel(query_, tactic_, "attention_together", tactic_.inputs[0].dtype);
    b.global(constants());
    b.kernel().threads = 128;
    b.kernel().grid = {sizes_.batch * sizes_.shared_heads, 1, 1};
    tail_.emit(b, width());
    b.line("const float* parts = " + b.scratch(0, "float") + " + (size_t)blockIdx.x * SPLITS * " +
           std::to_string(record()) + ";\n#define NUMBERS(part, offset, x) load(parts + (part) * " +
           std::to_string(record()) + " + offset, x)");
    b.line("const idx shared_head = blockIdx.x % SHARED_HEADS, b = blockIdx.x / SHARED_HEADS;");
    b.line("for (int i = threadIdx.x; i < ROWS * DV / 4; i += 128) {");
    b.line(filled_in(kTogether, together_names(b)));
    b.line("}");
    return b.finish();
  }

  int width() const { return tail_.vector(4) == 4 ? 4 : 1; }

  std::vector<std::pair<std::string_view, std::string>> together_names(KernelBuilder& b) const {
    const AttentionNames n = attention_names(b, query_, op_);
    return {{"Y_BATCH", n.batch[3]},
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
  const Variant variant_;
  const int64_t rows_;
  const Tail tail_;
};

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return SplitWriter(query, tactic).source();
}

}  // namespace

GeneratedFamily split_attention_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
