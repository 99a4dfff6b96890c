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

namespace lathe::cuda {

namespace {

constexpr std::string_view kRunner = "SplitAttention";
constexpr int64_t kMostRows = 8, kFewestKeys = 64;

// Blocks that share the keys of a head, the warps of each, and the keys that a warp takes at a time.
struct Variant {
  int splits = 1;
  bool cluster = false;
  int warps = 4, keys = 32;

  static Variant of(const TacticParams& params) {
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
std::vector<Variant> variants(int64_t width, int64_t keys, bool has_clusters) {
  std::vector<Variant> all;
  // Sixteen warps leave 128 registers to a thread, and heads of 128 need 170.
  const int most = width <= 64 ? 16 : 8;
  const auto add = [&](const Variant& v) {
    if (v.warps <= most && (v.cluster || keys >= v.splits * v.keys)) all.push_back(v);
  };
  if (has_clusters)
    for (const Variant& v : {Variant{8, true, 16, 16}, Variant{8, true, 8, 16}, Variant{8, true, 4, 32},
                             Variant{4, true, 16, 16}, Variant{4, true, 4, 32}, Variant{2, true, 4, 32}})
      add(v);
  for (const Variant& v : {Variant{32, false, 4, 32}, Variant{8, false, 4, 32}, Variant{16, false, 8, 16},
                           Variant{16, false, 4, 32}, Variant{64, false, 4, 32}})
    add(v);
  return all;
}

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
    for (const Variant& v :
         variants(std::max(s.width, s.value_width), keys, device.properties.has_clusters()))
      tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

// A block's part of the keys, TILE at a time for each warp. `top` is in units of log 2.
constexpr std::string_view kParts =
    R"(const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
const idx shared_head = blockIdx.x % SHARED_HEADS, b = blockIdx.x / SHARED_HEADS;
const idx row = g % QUERIES, h = shared_head * SHARING + min((idx)g / QUERIES, (idx)SHARING - 1);
const bool is_row = g < SHARING * QUERIES;
const auto* query = QUERY + b * Q_BATCH + h * Q_HEAD + row * Q_ROW;
const auto* key = KEY + b * K_BATCH + shared_head * K_HEAD;
const auto* value = VALUE + b * V_BATCH + shared_head * V_HEAD;
MASKED
const idx chunk = (KEYS + SPLITS * TILE - 1) / (SPLITS * TILE) * TILE;
const idx begin = blockIdx.z * chunk, end = min(begin + chunk, (idx)KEYS);
float* warp_tops = (float*)shared_memory();
float* warp_sums = warp_tops + WARPS * 8;
float* parts = warp_sums + WARPS * 8;
float* received = parts + WARPS * ROWS * DV;
ARRIVE
wait_for_previous_kernel();
u32 q[CHUNKS][4];
#pragma unroll
for (int i = 0; i < CHUNKS; ++i) {
q[i][0] = q[i][1] = q[i][2] = q[i][3] = 0;
if (is_row && i * 32 + t * 8 < D) load_early(query + i * 32 + t * 8, q[i]);
}
// Rows g and g + 8 of a product of values are columns 8 g + 2 j and the next one of 64, its columns the rows.
float top = -infinity(), sum = 0, out[SIXTY_FOURS][4][4] = {};
for (idx k0 = begin + warp * TILE; k0 < end; k0 += WARPS * TILE) {
float score[EIGHTS][4] = {};
u32 v[IN_FLIGHT][4][SIXTY_FOURS][4];
// Sixteen keys: of both halves two that follow one another.
const auto fetch_values = [&](int sixteen, u32 (&to)[4][SIXTY_FOURS][4]) {
#pragma unroll
for (int n = 0; n < 4; ++n) {
const auto* from = value + min(k0 + sixteen * 16 + n / 2 * 8 + t * 2 + n % 2, end - 1) * V_ROW;
#pragma unroll
for (int i = 0; i < SIXTY_FOURS; ++i) {
to[n][i][0] = to[n][i][1] = to[n][i][2] = to[n][i][3] = 0;
if (i * 64 + g * 8 < DV) load_early(from + i * 64 + g * 8, to[n][i]);
}
}
};
#pragma unroll
for (int j0 = 0; j0 < EIGHTS; j0 += TOGETHER) {
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
if (j0 + TOGETHER == EIGHTS)
#pragma unroll
for (int n = 0; n < IN_FLIGHT; ++n) fetch_values(n, v[n]);
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
for (int j = 0; j < EIGHTS; ++j)
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
for (int j = 0; j < EIGHTS; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
sum += score[j][c] = power_of_two(score[j][c] - base);
}
if (k0 != begin + warp * TILE) {
const float factors[2] = {shuffle(shrink, t * 8), shuffle(shrink, t * 8 + 4)};
#pragma unroll
for (int i = 0; i < SIXTY_FOURS; ++i)
#pragma unroll
for (int j = 0; j < 16; ++j) out[i][j / 4][j % 4] *= factors[j % 2];
}
// Keys behind the end have the probability 0.
#pragma unroll
for (int sixteen = 0; sixteen < EIGHTS / 2; ++sixteen) {
u32 (&w)[4][SIXTY_FOURS][4] = v[sixteen < IN_FLIGHT ? sixteen : 0];
if (sixteen >= IN_FLIGHT) fetch_values(sixteen, w);
const u32 p[2] = {PAIR(score[2 * sixteen][0], score[2 * sixteen][1]),
PAIR(score[2 * sixteen + 1][0], score[2 * sixteen + 1][1])};
#pragma unroll
for (int i = 0; i < SIXTY_FOURS; ++i)
#pragma unroll
for (int j = 0; j < 4; ++j) {
const u32 columns[4] = {byte_permute(w[0][i][j], w[1][i][j], 0x5410), byte_permute(w[0][i][j], w[1][i][j], 0x7632),
byte_permute(w[2][i][j], w[3][i][j], 0x5410), byte_permute(w[2][i][j], w[3][i][j], 0x7632)};
MULTIPLY(out[i][j], columns, p[0], p[1]);
}
}
}
sum += shuffle_xor(sum, 1);
sum += shuffle_xor(sum, 2);
// The warps' parts become one.
if (t == 0) {
warp_tops[warp * 8 + g] = top;
warp_sums[warp * 8 + g] = sum;
}
#pragma unroll
for (int i = 0; i < SIXTY_FOURS; ++i)
#pragma unroll
for (int e = 0; e < 2; ++e) {
if (t * 2 + e >= ROWS || i * 64 + g * 8 >= DV) continue;
float* to = parts + (warp * ROWS + t * 2 + e) * DV + i * 64 + g * 8;
#pragma unroll
for (int j = 0; j < 4; j += 2) {
const float four[4] = {out[i][j][e], out[i][j][2 + e], out[i][j + 1][e], out[i][j + 1][2 + e]};
store(to + j * 2, four);
}
}
__syncthreads();
// The largest score of a row, and its sum.
const auto merge_row = [&](int r, float (&both)[2]) {
both[0] = -infinity();
both[1] = 0;
#pragma unroll
for (int w = 0; w < WARPS; ++w) both[0] = fmaxf(both[0], warp_tops[w * 8 + r]);
const float from = both[0] == -infinity() ? 0.f : both[0];
#pragma unroll
for (int w = 0; w < WARPS; ++w) both[1] += power_of_two(warp_tops[w * 8 + r] - from) * warp_sums[w * 8 + r];
};
// Four columns of a row: vector i of the part.
const auto merge_vector = [&](int i, float (&x)[4]) {
const int r = i / (DV / 4);
float all = -infinity();
#pragma unroll
for (int w = 0; w < WARPS; ++w) all = fmaxf(all, warp_tops[w * 8 + r]);
const float from = all == -infinity() ? 0.f : all;
x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll
for (int w = 0; w < WARPS; ++w) {
const float f = power_of_two(warp_tops[w * 8 + r] - from);
float part[4];
load(parts + w * ROWS * DV + i * 4, part);
#pragma unroll
for (int c = 0; c < 4; ++c) x[c] += f * part[c];
}
};)";

// To the block of the cluster that has the slice, and every row's numbers to all.
constexpr std::string_view kPush = R"(float* numbers = received + SPLITS * SLICE * 4;
cluster_wait();
for (int i = threadIdx.x; i < VECTORS; i += WARPS * 32) {
float x[4];
merge_vector(i, x);
store_shared_of(i / SLICE, received + (blockIdx.z * SLICE + i % SLICE) * 4, x);
}
for (int i = threadIdx.x; i < ROWS * SPLITS; i += WARPS * 32) {
float both[2];
merge_row(i / SPLITS, both);
store_shared_of(i % SPLITS, numbers + (blockIdx.z * ROWS + i / SPLITS) * 2, both);
}
cluster_arrive();
cluster_wait();
const int first = blockIdx.z * SLICE;
#define PART(s, i) received + (s * SLICE + i - first) * 4
#define TOP(s, r) numbers[(s * ROWS + r) * 2]
#define SUM(s, r) numbers[(s * ROWS + r) * 2 + 1]
for (int i = first + threadIdx.x; i < min(first + SLICE, VECTORS); i += WARPS * 32) {)";

constexpr std::string_view kStore =
    R"(float* to = SCRATCH + ((size_t)blockIdx.x * SPLITS + blockIdx.z) * RECORD;
for (int i = threadIdx.x; i < VECTORS; i += WARPS * 32) {
float x[4];
merge_vector(i, x);
store(to + i * 4, x);
}
for (int r = threadIdx.x; r < ROWS; r += WARPS * 32) {
float both[2];
merge_row(r, both);
store(to + ROWS * DV + r * 2, both);
})";

// Vector i from the parts of all blocks.
constexpr std::string_view kTogether = R"(const int r = i / (DV / 4), column = i % (DV / 4) * 4;
float all = -infinity(), total = 0, v[4] = {}, x[SPLITS][4];
#pragma unroll
for (int s = 0; s < SPLITS; ++s) {
load(PART(s, i), x[s]);
all = fmaxf(all, TOP(s, r));
}
const float from = all == -infinity() ? 0.f : all;
#pragma unroll
for (int s = 0; s < SPLITS; ++s) {
const float f = power_of_two(TOP(s, r) - from);
total += f * SUM(s, r);
#pragma unroll
for (int c = 0; c < 4; ++c) v[c] += f * x[s][c];
}
const float factor = total == 0 ? 0.f : 1.f / total;
#pragma unroll
for (int c = 0; c < 4; ++c) v[c] *= factor;
const idx head = shared_head * SHARING + r / QUERIES, at = b * Y_BATCH + head * Y_HEAD + r % QUERIES * Y_ROW + column;
if (r < SHARING * QUERIES) FINISH
})";

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
    b.hardware("DEV u32 byte_permute(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }\n");
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
    const size_t masked = kParts.find("MASKED\n");
    b.line(filled_in(kParts.substr(0, masked), names));
    define_masked(b, query_, tactic_, op_, n);
    b.line(filled_in(kParts.substr(masked + 7), names));
    if (!variant_.cluster) {
      b.line(filled_in(kStore, {{"SCRATCH", b.scratch(0, "float")}}));
      return b.finish();
    }
    tail_.emit(b, width());
    b.line(kPush);
    b.line(filled_in(kTogether, together_names(b)));
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
    b.line("for (int i = threadIdx.x; i < VECTORS; i += 128) {");
    b.line(filled_in(kTogether, together_names(b)));
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
