// SPDX-License-Identifier: Apache-2.0
//
// Products of a few rows with constant weights, of 16, 8 or 4 bits: what a decoder does at each step. Nearly
// all that moves is the weights, once, so the floor is their bytes over the bandwidth of the memory, and the
// kernel is made around their way: each lane loads 16 bytes at a time that are its own part of an operand of
// the tensor cores, several such loads ahead, the first before the previous kernel has ended. Nothing passes
// through shared memory but sums.
//
// The tensor cores (mma.sync, 16 x 8 x 16) see the product transposed: sixteen columns of weights are the
// rows of the left operand, up to eight rows of x the columns of the right one. Which k stands where in it is
// free as long as both sides agree: of 32 that follow one another, lane t of four takes eight, so that it
// reads x in 16 bytes, too. The warps of a block share out k, 64 at a time, and add up their sums in the end.
//
// Weights of few bits become 16-bit floats without a conversion: q in the low bits of 1024 (FP16) or 128
// (BF16, up to four bits) is 1024 + q exactly, and 1024 + zero is taken off. A block's sums take its scale in
// FP32. So results are those of float weights but for the order of additions.
//
// Bytes: n k bits / 8, with blocks of 32 also 2 (FP16) or 4 a block; x once for each block of columns, from
// L2. Instructions of a lane for each weight of four bits: 1.4 to make halves, 0.13 products.
//
// Measured on an H100, one row, in a chain (reading alone reaches 3.2 TB/s): 2048 x 2048 in FP16 2.5 us (of
// which its bytes need 2.6: part of them came before the start), 2048 x 5632 8.0 (cuBLASLt 7.1, the floor);
// in INT4 with blocks of 32 3.2 (floor 2.0, 63 %), 5632 x 2048 3.9 (53 %; 4.9 with a third of its weights
// fetched behind the wait), 2048 x 32000 15.1 (76 %).
#include <cmath>
#include <cstring>

#include "backend/cuda/codegen/fused_tail.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/codegen/implicit_gemm.h"
#include "backend/few_bit_weights.h"
#include "backend/offered.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/thread_pool.h"
#include "lathe_device_text/few_rows.h"

namespace lathe::cuda {

GeneratedFamily few_rows_family();

namespace {

constexpr std::string_view kFewRowsRunner = "FewRows";
constexpr int kColumnTile = 16, kDepthStep = 64;  // columns of a warp, and k of its step
constexpr int64_t kMostRows = 32;                 // of x at the optimum

struct FewRowsVariant {
  // Of a block: rows and columns of the result, and warps that share k.
  int rows = 8, columns = 16, warps = 8;
  bool few_bits = false;
  FewBitPacking packing;

  int bits() const { return few_bits ? static_cast<int>(packing.bits) : 16; }
  int loads() const { return bits() / 4; }  // of 16 bytes in a step
  int threads() const { return 32 * columns / kColumnTile * warps; }
  std::string name() const {
    return "cuda_few_rows_" + (few_bits ? packing.name() + "_" : "") + std::to_string(rows) + "x" +
           std::to_string(columns) + "_w" + std::to_string(warps);
  }
  TacticParams params() const {
    TacticParams p = few_bits ? packing.params() : TacticParams();
    if (few_bits) p.set("few_bits", 1);
    p.set("rows", rows);
    p.set("columns", columns);
    p.set("warps", warps);
    return p;
  }
  static FewRowsVariant of(const LayerQuery& query, const TacticParams& params) {
    FewRowsVariant v{params.get_int("rows"),
                     params.get_int("columns"),
                     params.get_int("warps"),
                     params.get("few_bits", 0) != 0,
                     {}};
    if (v.few_bits) v.packing = few_bit_packing(query, params);
    return v;
  }
};

int64_t steps_of(int64_t k) {
  return (k + kDepthStep - 1) / kDepthStep;
}

// --- packing

// Where eight k's of a lane stand in a step: [half of 32][lane of four][eight].
int64_t lane_k(int64_t step, int64_t half, int64_t t) {
  return step * kDepthStep + half * 32 + t * 8;
}

// `words(column, k)`: eight weights from k on as `bits() / 4` words of 32 bits; zeros beyond the last column
// or k.
template <class Words>
std::vector<std::byte> pack(const FewRowsVariant& v, int64_t columns, int64_t depth, const Words& words) {
  const int64_t tiles = (columns + kColumnTile - 1) / kColumnTile, steps = steps_of(depth);
  const int64_t each = v.bits() / 4;  // words of a column's eight weights
  std::vector<uint32_t> out(static_cast<size_t>(tiles * steps * v.loads() * 32 * 4));
  const auto pack_tile = [&](int64_t tile) {
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t lane = 0; lane < 32; ++lane)
        for (int64_t half = 0; half < 2; ++half)
          for (int64_t upper = 0; upper < 2; ++upper) {
            const int64_t column = tile * kColumnTile + lane / 4 + 8 * upper,
                          k = lane_k(step, half, lane % 4);
            if (column >= columns || k >= depth) continue;
            for (int64_t w = 0; w < each; ++w) {
              // Words of both columns alternate, in the order in which the products take them.
              const int64_t number = (half * each + w) * 2 + upper, load = number / 4;
              out[static_cast<size_t>((((tile * steps + step) * v.loads() + load) * 32 + lane) * 4 +
                                      number % 4)] = words(column, k, w);
            }
          }
  };
  ThreadPool pool;
  pool.parallel_for(tiles, 4, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) pack_tile(tile);
  });
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> pack_halves(const FewRowsVariant& v, const Op& op, const Tensor& weights, DType type) {
  const bool by_column = std::get<MatMul>(op).transpose_b;
  const size_t rank = weights.extents().size();
  const int64_t rows = weights.extents()[rank - 2], row = weights.extents()[rank - 1],
                columns = by_column ? rows : row, depth = by_column ? row : rows;
  const std::vector<std::byte> halves = convert_floats(weights, type);
  std::vector<std::byte> out;
  for (int64_t first = 0; first < weights.size(); first += rows * row) {
    const auto at = [&](int64_t column, int64_t k) -> uint32_t {
      if (k >= depth) return 0;
      uint16_t h = 0;
      std::memcpy(&h, halves.data() + 2 * (first + (by_column ? column * depth + k : k * columns + column)),
                  2);
      return h;
    };
    const std::vector<std::byte> matrix = pack(v, columns, depth, [&](int64_t column, int64_t k, int64_t w) {
      return at(column, k + 2 * w) | at(column, k + 2 * w + 1) << 16;
    });
    out.insert(out.end(), matrix.begin(), matrix.end());
  }
  return out;
}

// Of eight bits: four that follow one another. Of four bits: weights 0, 2, 4, 6 and behind them 1, 3, 5, 7,
// so that a mask leaves two that belong side by side.
std::vector<std::byte> pack_few_bits(const FewRowsVariant& v, const FewBitWeights& weights) {
  const auto at = [&](int64_t column, int64_t k) -> uint32_t {
    return k < weights.depth() ? static_cast<uint32_t>(weights.quantum(column, k)) : 0;
  };
  return pack(v, weights.columns(), weights.depth(), [&](int64_t column, int64_t k, int64_t w) {
    uint32_t word = 0;
    if (v.bits() == 8)
      for (int64_t i = 0; i < 4; ++i) word |= at(column, k + 4 * w + i) << (8 * i);
    else
      for (int64_t i = 0; i < 8; ++i) word |= at(column, k + i) << (4 * (i / 2 + i % 2 * 4));
    return word;
  });
}

// [tile of columns][block][column g, column g + 8]: as a lane reads them.
template <class T>
std::vector<std::byte> pack_numbers(const FewBitGrid& grid, int64_t blocks,
                                    T (*number)(const FewBitGrid& grid, int64_t column, int64_t block)) {
  const int64_t tiles = (grid.columns() + kColumnTile - 1) / kColumnTile;
  std::vector<T> out(static_cast<size_t>(tiles * blocks * kColumnTile));
  for (int64_t column = 0; column < grid.columns(); ++column)
    for (int64_t block = 0; block < blocks; ++block)
      out[static_cast<size_t>((column / kColumnTile * blocks + block) * kColumnTile + column % 8 * 2 +
                              column % kColumnTile / 8)] = number(grid, column, block);
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

void add_blocks(const LayerQuery& query, const FewRowsVariant& v, DType type, LayerSource& source) {
  const Node& node = query.layer();
  const Value w = query.graph.value(node.inputs[1]);
  const auto [columns, depth] = weight_extents(query);
  const int64_t tiles = (columns + kColumnTile - 1) / kColumnTile;
  PackedBlock& words = source.blocks["w"];
  words.bytes =
      element_count(w.shape).value() / (columns * depth) * tiles * steps_of(depth) * v.loads() * 512;
  if (!v.few_bits) {
    words.make = [=, op = node.op, constant = w.constant] { return pack_halves(v, op, constant, type); };
    return;
  }
  const bool by_k = is_by_k(node);
  words.make = [=] { return pack_few_bits(v, FewBitWeights(w, by_k, v.packing)); };
  const int64_t blocks = v.packing.block > 0 ? depth / v.packing.block : 1,
                numbers = tiles * blocks * kColumnTile;
  const auto add = [&]<class T>(const char* name, T (*number)(const FewBitGrid&, int64_t, int64_t)) {
    source.blocks[name] = {static_cast<int64_t>(sizeof(T)) * numbers,
                           [=] { return pack_numbers(FewBitGrid(w, by_k, v.packing), blocks, number); }};
  };
  if (v.packing.half_scales)
    add(
        "scale", +[](const FewBitGrid& g, int64_t c, int64_t b) { return float_to_fp16(g.scale(c, b)); });
  else
    add(
        "scale", +[](const FewBitGrid& g, int64_t c, int64_t b) { return g.scale(c, b); });
  if (v.packing.stores_zeros)
    add(
        "zero",
        +[](const FewBitGrid& g, int64_t c, int64_t b) { return static_cast<uint8_t>(g.zero(c, b)); });
}

// --- the kernel

// pair<I>(w, zero): weights 2 I and 2 I + 1 of the eight that the words of a column hold, as 16-bit floats.
std::string pair_text(const FewRowsVariant& v, DType type) {
  if (v.bits() == 16) return "#define PAIR(w, i, zero) w[2 * (i)]\n";
  if (v.bits() == 4)
    return std::string("#define PAIR(w, i, zero) ") +
           (type == DType::Float16
                ? "subtract_f16x2((w[0] >> 4 * (i) & 0x000f000fu) | 0x64006400u, zero)\n"
                : "subtract_bf16x2((w[0] >> 4 * (i) & 0x000f000fu) | 0x43004300u, zero)\n");
  if (type == DType::Float16)
    return "#define PAIR(w, i, zero) subtract_f16x2(byte_permute(w[2 * ((i) / 2)], 0x64646464u, (i) % 2 ? "
           "0x4342u : 0x4140u), zero)\n";
  // Differences of up to 255 are BF16 numbers, but 128 + q is none: by way of FP32.
  return "DEV u32 bytes_to_bf16(u32 w, int i, float zero) {\nreturn f32_to_bf16x2(from_byte((unsigned "
         "char)(w "
         ">> 16 * i), "
         "zero), from_byte((unsigned char)(w >> (16 * i + 8)), zero));\n}\n#define PAIR(w, i, zero) "
         "bytes_to_bf16(w[2 * ((i) / 2)], (i) % 2, zero)\n";
}

// Type and value of what is taken off: pairs of 16-bit floats, or an FP32 number.
struct ZeroText {
  std::string type, middle, of_byte;
};
ZeroText zero_text(const FewRowsVariant& v, DType type) {
  const int middle = v.bits() == 4 ? 8 : 128;
  if (v.bits() == 8 && type == DType::BFloat16) return {"float", float_literal(middle), "(float)(BYTE)"};
  // The pair 1024 + zero, or 128 + zero.
  const std::string one = type == DType::Float16 ? "0x64006400u" : "0x43004300u";
  return {"u32", "(" + one + " | " + std::to_string(middle) + " * 0x10001u)",
          "(" + one + " | (BYTE) * 0x10001u)"};
}

// How scales and zero points of a warp's columns g and g + 8 are read, those of the 32 k's from `k` on where
// there are blocks, and what becomes of the sums.
struct NumbersText {
  int words = 1;           // of 32 bits that stand for them, `numbers`
  std::string fetch;       // into them
  std::string once, each;  // in front of all products, and of those of 32 k's
  std::string part = "sum", close, at_end;
};
NumbersText numbers_text(KernelBuilder& b, const FewRowsVariant& v, DType type, int64_t depth) {
  NumbersText text;
  if (!v.few_bits) return text;
  const bool halves = v.packing.half_scales, zeros = v.packing.stores_zeros, blocks = v.packing.block > 0;
  const int64_t count = blocks ? depth / v.packing.block : 1;
  const int scale_words = halves ? 1 : 2;
  text.words = scale_words + zeros;
  text.fetch =
      "const idx at = ((blockIdx.x * TILES + tile) * (idx)" + std::to_string(count) +
      (blocks ? " + min(k / " + std::to_string(v.packing.block) + ", " + std::to_string(count - 1) + ")"
              : "") +
      ") * 16 + g * 2;\n";
  const std::string scales = b.packed("scale", halves ? "f16" : "float") + " + at";
  text.fetch += "numbers[0] = *(const u32*)(" + scales + ");\n";
  if (!halves) text.fetch += "numbers[1] = *(const u32*)(" + scales + " + 1);\n";
  if (zeros)
    text.fetch += "numbers[" + std::to_string(scale_words) + "] = *(const u16*)(" +
                  b.packed("zero", "unsigned char") + " + at);\n";

  const ZeroText zero = zero_text(v, type);
  const auto of_byte = [&](const std::string& byte) {
    std::string one = zero.of_byte;
    return one.replace(one.find("BYTE"), 4, byte);
  };
  const std::string word = "numbers[" + std::to_string(scale_words) + "]";
  const std::string zero_pair = "const " + zero.type + " zero[2] = {" +
                                (zeros ? of_byte(word + " & 255u") + ", " + of_byte(word + " >> 8")
                                       : zero.middle + ", " + zero.middle) +
                                "};\n";
  const std::string scale_pair = std::string("const float scale[2] = {") +
                                 (halves ? "f16_to_f32((u16)numbers[0]), f16_to_f32((u16)(numbers[0] >> 16))"
                                         : "__uint_as_float(numbers[0]), __uint_as_float(numbers[1])") +
                                 "};\n";
  const std::string sums =
      "#pragma unroll\nfor (int r = 0; r < GROUPS; ++r)\n#pragma unroll\nfor (int e = 0; e < 4; ++e) ";
  if (blocks) {
    text.each = "const u32(&numbers)[NUMBERS] = block_numbers[a][h];\n" + zero_pair + scale_pair +
                "float one[GROUPS][4] = {};";
    text.part = "one";
    text.close = sums + "sum[r][e] += one[r][e] * scale[e / 2];";
  } else {
    text.once = "u32 numbers[NUMBERS] = {};\nif (there) {\n" + text.fetch + "}\n" + zero_pair;
    text.at_end = scale_pair + sums + "sum[r][e] *= scale[e / 2];";
    text.fetch.clear();
  }
  return text;
}

// Whether an operand has a matrix of its own for each of the batches.
bool moves(const ImplicitGemm& p, size_t operand) {
  return !p.batch_walk.extents.empty() && !p.batch_walk.strides[operand][0].is_constant(0);
}

KernelSource few_rows_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                             const FewRowsVariant& v) {
  KernelBuilder b = start_kernel(query, tactic, "few_rows", tactic.outputs[0].dtype);
  b.hardware(early_loads());
  b.hardware(device_text::few_rows::kHardware);
  b.waits_itself();
  b.overlaps({.takes_order = true, .may_wait_late = true});
  const int64_t depth = weight_extents(query).depth;
  const int tiles = v.columns / kColumnTile, width = result_vector(query, tactic, p, 4, 1);
  // What is under way: 32 registers of x, in turns of equal length; or all that a warp has, where that is
  // little more: what is fetched behind the wait comes a microsecond later.
  const int64_t each = (steps_of(depth) + v.warps - 1) / v.warps, most = 32 / v.rows,
                turns = v.few_bits && v.bits() == 4 && 2 * each <= 3 * most ? 1 : (each + most - 1) / most,
                ahead = (each + turns - 1) / turns;
  b.kernel().threads = v.threads();
  b.kernel().grid = {ceil_div(p.n, Dim(v.columns)), ceil_div(p.m, Dim(v.rows)), p.batches};
  b.kernel().shared_bytes = v.warps * v.rows * v.columns * 4;
  const auto constant = [](const char* name, int64_t value) {
    return ", " + std::string(name) + " = " + std::to_string(value);
  };
  const NumbersText numbers = numbers_text(b, v, p.type, depth);
  b.global("constexpr int ROWS = " + std::to_string(v.rows) + ", GROUPS = ROWS / 8" +
           constant("TILES", tiles) + constant("WARPS", v.warps) + constant("LOADS", v.loads()) +
           constant("STEPS", steps_of(depth)) + constant("AHEAD", ahead) + constant("K", depth) +
           constant("V", width) + constant("VECTORS", v.columns / width) +
           constant("NUMBERS", numbers.words) + ";\n" + pair_text(v, p.type) + "#define MULTIPLY multiply_" +
           (p.type == DType::Float16 ? "f16" : "bf16"));
  b.line("const idx batch = blockIdx.z;");
  GemmWriter writer(b, query, tactic, p, v.threads(), v.rows, v.columns, kDepthStep, 1);
  writer.result_in_place(width);
  const std::string x = b.input(0, p.type) + (moves(p, 0) ? " + batch * " + b.number(p.m * p.k) : ""),
                    matrix = moves(p, 1) ? "batch * " + b.number(ceil_div(p.n, Dim(kColumnTile))) + " +" : "";
  const std::vector<std::pair<std::string_view, std::string>> names = {
      {"FETCH_NUMBERS", numbers.fetch},
      {"OPEN_BLOCK", numbers.each},
      {"SUMS", numbers.part},
      {"CLOSE_BLOCK", numbers.close},
      {"ONCE", numbers.once},
      {"PACKED_WORDS", b.packed("w", "u32")},
      {"LEFT", x},
      {"RESULT + at", b.output(0, tactic.outputs[0].dtype) + " + at"},
      {"MATRIX_TILE", matrix},
      {"RESULT_ROWS", b.number(p.m)},
      {"RESULT_COLUMNS", b.number(p.n)}};
  b.line(filled_in(device_text::few_rows::kMultiply, names));
  b.line(numbers.at_end);
  b.line(filled_in(device_text::few_rows::kTogether, names));
  return b.finish();
}

LayerSource generate_few_rows(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const FewRowsVariant v = FewRowsVariant::of(query, tactic.params);
  ImplicitGemm p;
  const Support support = describe_gemm(query, tactic, p);
  check(support.ok, "a refused product is generated: " + support.reason);
  LayerSource source;
  source.kernels.push_back(few_rows_kernel(query, tactic, p, v));
  add_blocks(query, v, p.type, source);
  return source;
}

// --- what is offered

// A rough time in microseconds: the weights' way from memory, shared out over multiprocessors, each of which
// has 4 KiB of a warp under way for 0.8 us; x from L2 for every block.
double estimate_few_rows(const FewRowsVariant& v, const GemmSizes& s, const DeviceProperties& gpu) {
  const double blocks = std::ceil(s.n / v.columns) * std::ceil(s.m / v.rows), units = gpu.multiprocessors;
  const double resident =
      std::max(1.0, std::min(std::floor(1536.0 / v.threads()), std::ceil(blocks / units)));
  const double share = std::ceil(blocks / units) * units / blocks, weights = s.n * s.k * v.bits() / 8;
  const double memory = gpu.model().memories.back().bytes_per_ns * 900,
               under_way = std::min(units, blocks) * resident * v.threads() / 32.0 * 4096 / 0.8;
  const double x = blocks * std::min<double>(v.rows, s.m) * s.k * 2 / (2 * memory);
  return 2.0 + std::max(weights * share / std::min(memory, under_way), x) + 0.03 * v.warps;
}

std::vector<FewRowsVariant> few_rows_variants(const FewRowsVariant& like, const GemmSizes& sizes,
                                              const DeviceProperties& gpu) {
  std::vector<std::pair<double, FewRowsVariant>> timed;
  for (const int columns : {16, 32, 64})
    for (const int warps : {2, 4, 8, 16}) {
      FewRowsVariant v = like;
      v.rows = sizes.m <= 8 ? 8 : sizes.m <= 16 ? 16 : 32;
      v.columns = columns;
      v.warps = warps;
      if (v.threads() < 64 || v.threads() > 512) continue;
      if (warps > 2 && warps > std::ceil(sizes.k / kDepthStep)) continue;
      timed.emplace_back(estimate_few_rows(v, sizes, gpu), v);
    }
  return most_promising(std::move(timed));
}

Support supports_few_rows(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& p) {
  const Value& w = query.graph.value(query.layer().inputs[1]);
  if (!w.is_constant()) return Support::no("the weights are computed at run time");
  if (w.constant.size() == 0) return Support::no("the weights are empty");
  if (query.graph.value(query.layer().inputs[0]).is_constant())
    return Support::no("the left operand is constant");
  if (has_data_dependent_dims(query)) return Support::no("the size of the result depends on data");
  if (const Support s = describe_gemm(query, tactic, p); !s.ok) return s;
  if (p.batch_walk.extents.size() > 1)
    return Support::no("batches of both operands that follow no one order");
  if (upper_bound(p.batches, query.ranges) > 65535) return Support::no("more than 65535 batches");
  if (!divides(8, p.k)) return Support::no("k is no multiple of 8");
  if (sizes_at_opt(p, query).m > kMostRows)
    return Support::no("more than " + std::to_string(kMostRows) + " rows: others multiply those faster");
  if (upper_bound(p.m, query.ranges) > 8 * int64_t{65535}) return Support::no("more than 524280 rows");
  return {};
}

// Variants in a type, with weights as floats or packed so.
void list_variants(const LayerQuery& query, const DeviceProperties& gpu, DType type,
                   const FewRowsVariant& like, std::vector<Tactic>& tactics) {
  Tactic base = typed_tactic(query, kFewRowsRunner, "cuda_few_rows", {type, kLinear}, {type, kLinear});
  list_weights(query, type, base);
  ImplicitGemm p;
  if (base.support.ok) base.support = supports_few_rows(query, base, p);
  if (base.support.ok && like.few_bits) base.support = multiplies_few_bits(query);
  if (base.support.ok && like.packing.block % 32 != 0)
    base.support = Support::no("blocks of " + std::to_string(like.packing.block) + "; 32 k's have one scale");
  if (!base.support.ok) {
    tactics.push_back(std::move(base));
    return;
  }
  for (const FewRowsVariant& v : few_rows_variants(like, sizes_at_opt(p, query), gpu))
    tactics.push_back(with_variant(base, v.name(), v.params()));
}

std::vector<Tactic> list_with(const LayerQuery& query, const Device& device,
                              const std::optional<FewBitPacking>& packing) {
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    if (!is_half(type)) continue;
    if (packing)
      list_variants(query, device.properties, type, {.few_bits = true, .packing = *packing}, tactics);
    list_variants(query, device.properties, type, {}, tactics);
  }
  return tactics;
}

bool is_product(const LayerQuery& query) {
  return std::holds_alternative<MatMul>(query.layer().op);
}
const std::optional<Quantization>& grid_of_weights(const LayerQuery& query) {
  return query.graph.value(query.layer().inputs[1]).quantization;
}

std::vector<Tactic> list_few_rows(const LayerQuery& query, const Device& device) {
  if (!is_product(query)) return {};
  return list_with(query, device,
                   grid_of_weights(query) ? std::optional(few_bit_packing(query)) : std::nullopt);
}

// The numbers of a block's grid are not in an engine file: they are packed already.
Support accepts(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  if (!is_product(query)) return Support::no("not a product");
  if (tactic.params.get("few_bits", 0) == 0)
    return is_offered(list_with(query, device, std::nullopt), tactic);
  if (const Support s = multiplies_few_bits(query); !s.ok) return s;
  return is_offered(list_with(query, device, few_bit_packing(query, tactic.params)), tactic);
}

std::string kind_of_few_rows_packing(const Tactic& tactic) {
  if (tactic.params.get("few_bits", 0) == 0) return "halves";
  return "few bits";
}

// Up to eight rows nobody else reads the weights as fast.
bool few_rows_leads(const LayerQuery& query, const Device& device) {
  const std::vector<Tactic> tactics = list_few_rows(query, device);
  const auto it = std::find_if(tactics.begin(), tactics.end(), [](const Tactic& t) { return t.support.ok; });
  return it != tactics.end() && it->params.get("rows", 0) == 8;
}

}  // namespace

GeneratedFamily few_rows_family() {
  return {kFewRowsRunner, list_few_rows, generate_few_rows, kind_of_few_rows_packing};
}

TacticFamily few_rows_tactics() {
  TacticFamily family = generated_tactics<few_rows_family>();
  family.accepts = accepts;
  family.leads = few_rows_leads;
  return family;
}

}  // namespace lathe::cuda
