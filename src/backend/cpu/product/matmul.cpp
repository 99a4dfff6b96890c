// SPDX-License-Identifier: Apache-2.0
//
// FP32 matrix products of ours: constant right operands packed into panels once, others packed panel by panel
// on the way.
//
// Operations: 2 M N K; bytes: the weights once per block of rows, rows and results once. Below 15 rows or so
// weights come from memory and bound the time; above, the multiply-add rate does.
// A member takes (block of rows, panel) pairs. For a pair the K loop runs in chunks, so that a chunk of the
// panel stays in L2 while all tiles of rows pass over it; the block's results (at most 140 x 32) stay in L1
// or L2 until the epilogue has been applied.
// A 1x1 convolution in channels-last is such a product: pixels are rows, and its weights are the transposed
// right operand. Rows that lie a multiple of 1 KB apart fall into the same few cache sets (87 instead of 113
// GFLOP/s at K = 768): they are first copied to a padded stride by the whole team. BF16 and FP16 rows are
// widened there.
#include <cstring>

#include "backend/cpu/device/expected.h"
#include "backend/cpu/tile/choose_gemm.h"
#include "backend/cpu/tile/pack_matrices.h"
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kMatmulRunner = "MatMul";
constexpr int64_t kMatMulBlockRows = 140;
constexpr int64_t kMatMulChunk = 512;  // of K

struct MatMulSize {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  std::vector<int64_t> a_offset, b_offset;  // per batch, in matrices' elements
};

class PreparedMatMul final : public PreparedLayer {
 public:
  MatMulSize size;
  DType type = DType::Float32;  // of a
  DType b_type = DType::Float32;
  bool transpose_b = false;
  const float* bias = nullptr;    // one value per column of the panels; null: none
  const float* packed = nullptr;  // constant b: panels of all its matrices; null: packed on the way
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override {
    return static_cast<size_t>(shared_floats() + member_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    const double operations =
        2.0 * static_cast<double>(size.batch * size.m * size.n) * static_cast<double>(size.k);
    const double weights = packed ? 4.0 * static_cast<double>(size.n * size.k) : 0;
    const int wanted = members_for(operations / 80 + weights / 20, available);
    return wanted > 1 && copies_rows() ? available : wanted;  // the copy is shared out to the whole team
  }
  bool meets(int count) const override { return count > 1 && copies_rows(); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* shared = reinterpret_cast<float*>(args.scratch);
    float* own = shared + shared_floats() + worker.index * member_floats();
    int64_t last_panel = -1;  // what lies in the member's panel
    if (!copies_rows()) return run_panels(args, shared, worker, own, last_panel);
    worker.share(worker.count, [&](const Worker& part) { copy_rows(args, shared, part); });
    worker.share(worker.count, [&](const Worker& part) { run_panels(args, shared, part, own, last_panel); });
  }

 private:
  void run_panels(const LayerArgs& args, const float* shared, const Worker& worker, float* own,
                  int64_t& last_panel) const {
    const int64_t per_matrix = blocks() * panels();
    const Worker::Range part = worker.slice(size.batch * per_matrix);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t batch = i / per_matrix;
      // With b packed on the way, all blocks of rows use a panel before the next one is packed.
      const int64_t block = packed ? i % per_matrix / panels() : i % blocks();
      const int64_t panel = packed ? i % panels() : i % per_matrix / blocks();
      const float* b =
          packed ? packed + (size.b_offset[static_cast<size_t>(batch)] + panel) * panel_floats() : own;
      if (!packed && last_panel != batch * panels() + panel) {
        pack_dynamic(args, batch, panel, own);
        last_panel = batch * panels() + panel;
      }
      run_block(args, shared, batch, block, panel, b, own + (packed ? 0 : panel_floats()));
    }
  }

  int64_t panel_width() const { return gemm_table(isa).panel; }
  int64_t panels() const { return (size.n + panel_width() - 1) / panel_width(); }
  int64_t panel_floats() const { return size.k * panel_width(); }
  int64_t blocks() const { return (size.m + kMatMulBlockRows - 1) / kMatMulBlockRows; }
  bool copies_rows() const { return type != DType::Float32 || (size.m > 4 && size.k * 4 % 1024 == 0); }
  int64_t padded_k() const { return round_up(size.k, 16) + 16; }
  int64_t matrices_of_a() const {
    return *std::max_element(size.a_offset.begin(), size.a_offset.end()) /
               std::max<int64_t>(1, size.m * size.k) +
           1;
  }
  int64_t shared_floats() const { return copies_rows() ? matrices_of_a() * size.m * padded_k() : 0; }
  int64_t member_floats() const {
    return round_up((packed ? 0 : panel_floats()) + kMatMulBlockRows * panel_width() +
                        (!packed && b_type != DType::Float32 ? size.k * size.n : 0),
                    16);
  }

  void copy_rows(const LayerArgs& args, float* to, const Worker& worker) const {
    const PointwiseTable& table = pointwise_table(isa);
    const Worker::Range part = worker.slice(matrices_of_a() * size.m);
    for (int64_t r = part.begin; r < part.end; ++r) {
      float* row = to + r * padded_k();
      const auto* halves = static_cast<const uint16_t*>(args.inputs[0]) + r * size.k;
      if (type == DType::Float32)
        std::memcpy(row, static_cast<const float*>(args.inputs[0]) + r * size.k,
                    static_cast<size_t>(size.k) * 4);
      else
        (type == DType::BFloat16 ? table.load_bf16 : table.load_f16)(halves, row, size.k);
    }
  }
  void pack_dynamic(const LayerArgs& args, int64_t batch, int64_t panel, float* out) const {
    const int64_t offset = size.b_offset[static_cast<size_t>(batch)];
    const auto* b = static_cast<const float*>(args.inputs[1]) + offset;
    if (b_type != DType::Float32) {  // the whole matrix: its elements are not at a panel's place otherwise
      float* wide = out + panel_floats() + kMatMulBlockRows * panel_width();
      const PointwiseTable& table = pointwise_table(isa);
      const auto* halves = static_cast<const uint16_t*>(args.inputs[1]) + offset;
      (b_type == DType::BFloat16 ? table.load_bf16 : table.load_f16)(halves, wide, size.k * size.n);
      b = wide;
    }
    pack_panel(b, transpose_b, size.k, size.n, panel * panel_width(), panel_width(), out);
  }

  void run_block(const LayerArgs& args, const float* shared, int64_t batch, int64_t block, int64_t panel,
                 const float* b, float* results) const {
    const GemmTable& table = gemm_table(isa);
    const int64_t first = size.m * block / blocks(), rows = size.m * (block + 1) / blocks() - first;
    const int64_t column = panel * panel_width(), cols = std::min(panel_width(), size.n - column);
    const int64_t out = (batch * size.m + first) * size.n + column;
    const int64_t a_offset = size.a_offset[static_cast<size_t>(batch)];
    const bool copied = copies_rows();
    const int64_t lda = copied ? padded_k() : size.k;
    const float* a = copied ? shared + (a_offset / std::max<int64_t>(1, size.k) + first) * lda
                            : static_cast<const float*>(args.inputs[0]) + a_offset + first * lda;
    const bool direct = epilogue->is_identity() && cols == panel_width();
    float* c = direct ? static_cast<float*>(args.outputs[0]) + out : results;
    const int64_t ldc = direct ? size.n : panel_width();
    const int64_t tiles = (rows + table.tile_rows - 1) / table.tile_rows;
    for (int64_t k = 0; k < size.k || k == 0; k += kMatMulChunk) {
      const int64_t count = std::min(kMatMulChunk, size.k - k);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = rows * t / tiles, height = rows * (t + 1) / tiles - r;
        table.multiply(height, a + r * lda + k, lda, b + k * panel_width(), count, c + r * ldc, ldc,
                       k > 0             ? c + r * ldc
                       : bias != nullptr ? bias + column
                                         : nullptr,
                       k > 0 ? ldc : 0);
      }
    }
    if (!direct) epilogue->apply(args, results, panel_width(), out, rows, size.n, cols);
  }
};

// Matrices of an operand (rank >= 2) in batch order, as element offsets.
std::vector<int64_t> batch_offsets(const Extents& operand, const Extents& batch, int64_t matrix) {
  const Extents own(operand.begin(), operand.end() - 2);
  Extents strides(batch.size(), 0);
  if (!own.empty() && element_count(own) > 0) strides = operand_strides(own, kLinear, batch, kLinear);
  std::vector<int64_t> offsets;
  Extents index(batch.size(), 0);
  for (int64_t i = 0; i < element_count(batch); ++i) {
    int64_t offset = 0, rest = i;
    for (size_t d = batch.size(); d-- > 0; rest /= batch[d]) offset += rest % batch[d] * strides[d];
    offsets.push_back(offset * matrix);
  }
  return offsets;
}

class MatMulKernel final : public LayerKernel {
 public:
  MatMulKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine, const PackContext& pack)
      : op_(std::get<MatMul>(query.layer().op)),
        tactic_(tactic),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {
    if (tactic.inputs[1].dtype != DType::Undefined) return;
    const Tensor& weights = query.graph.value(query.layer().inputs[1]).constant;
    packed_ = pack.packed("weights", packed_bytes(weights.extents()), [&] { return pack_weights(weights); });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedMatMul>();
    const Extents &a = context.inputs[0], &b = context.inputs[1], &c = context.outputs[0];
    const size_t rank = c.size();
    MatMulSize& s = p->size;
    s.m = c[rank - 2];
    s.n = c[rank - 1];
    s.k = a.back();
    Extents batch(c.begin(), c.end() - 2);
    if (element_count(Extents(b.begin(), b.end() - 2)) ==
        1) {  // one matrix for all: rows of all batches together
      s.m *= element_count(batch);
      s.a_offset = s.b_offset = {0};
    } else {
      s.batch = element_count(batch);
      const int64_t panel = gemm_table(isa_).panel;
      s.a_offset = batch_offsets(a, batch, s.m * s.k);
      s.b_offset = batch_offsets(b, batch, packed_.empty() ? s.k * s.n : (s.n + panel - 1) / panel);
    }
    p->type = tactic_.inputs[0].dtype;
    p->b_type = tactic_.inputs[1].dtype;
    p->transpose_b = op_.transpose_b;
    if (!packed_.empty()) p->packed = reinterpret_cast<const float*>(packed_.data());
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  int64_t packed_bytes(const Extents& e) const {
    const int64_t rows = e[e.size() - 2], columns = e[e.size() - 1];
    const int64_t n = op_.transpose_b ? rows : columns, k = op_.transpose_b ? columns : rows;
    const int64_t matrices = element_count(Extents(e.begin(), e.end() - 2));
    return dtype_bytes(DType::Float32, matrices * k * round_up(n, gemm_table(isa_).panel));
  }
  // All matrices of the constant, panel by panel.
  std::vector<std::byte> pack_weights(const Tensor& weights) const {
    const Extents& e = weights.extents();
    const int64_t rows = e[e.size() - 2], columns = e[e.size() - 1];
    const int64_t matrices = element_count(Extents(e.begin(), e.end() - 2));
    return pack_matrices(weights, op_.transpose_b, matrices, op_.transpose_b ? columns : rows,
                         op_.transpose_b ? rows : columns, gemm_table(isa_).panel);
  }

  MatMul op_;
  Tactic tactic_;
  Isa isa_;
  Epilogue epilogue_;
  std::span<const std::byte> packed_;
};

Support supports_matmul(const LayerQuery& query, const MatMul& op, DType type) {
  const Node& node = query.layer();
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  if (!is_vector_float(type)) return no_vector_kernel(type);
  if (op.transpose_a) return Support::no("the left operand is transposed");
  if (a.shape.size() < 2 || b.shape.size() < 2) return Support::no("an operand is a vector");
  // A constant that is not packed is read in its own type.
  if (a.is_constant() && a.dtype != type)
    return Support::no("the left operand is a constant of another type");
  if (b.is_constant() && b.constant.size() == 0) return Support::no("the right operand is empty");
  return {};
}

std::vector<Tactic> list_matmul(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<MatMul>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType linear{type, kLinear};
    const bool constant = query.graph.value(node.inputs[1]).is_constant();
    Tactic t =
        typed_tactic(query, kMatmulRunner, "gemm_f32_" + std::string(isa_suffix(machine)), linear, linear);
    t.inputs[1] = constant ? TensorType{} : linear;
    if (const Support s = supports_matmul(query, *op, type); !s.ok) t.support = s;
    t.expected_us = expected_product_us(query, t, machine, 0.78, 0.88);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// --- 1x1 convolution --------------------------------------------------------------------------------------
class PixelConvKernel final : public LayerKernel {
 public:
  PixelConvKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                  const PackContext& pack)
      : tactic_(tactic), isa_(machine.isa()), epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    has_bias_ = node.has_op_input(2);
    const Tensor& w = query.graph.value(node.inputs[1]).constant;
    const int64_t n = w.extents()[0], k = w.extents()[1], panel = gemm_table(isa_).panel;
    const int64_t columns = round_up(n, panel);
    packed_ = pack.packed("weights", dtype_bytes(DType::Float32, columns * (k + 1)), [&] {
      std::vector<std::byte> bytes = pack_matrices(w, true, 1, k, n, panel, columns);
      if (has_bias_) {
        const std::vector<double> values = query.graph.value(node.inputs[2]).constant.to_doubles();
        auto* bias = reinterpret_cast<float*>(bytes.data()) + columns * k;
        for (size_t i = 0; i < values.size(); ++i) bias[i] = static_cast<float>(values[i]);
      }
      return bytes;
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedMatMul>();
    MatMulSize& s = p->size;
    s.n = context.outputs[0][1];
    s.k = context.inputs[0][1];
    s.m = s.n == 0 ? 0 : element_count(context.outputs[0]) / s.n;
    s.a_offset = s.b_offset = {0};
    p->type = tactic_.inputs[0].dtype;
    p->packed = reinterpret_cast<const float*>(packed_.data());
    if (has_bias_) p->bias = p->packed + round_up(s.n, gemm_table(isa_).panel) * s.k;
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Tactic tactic_;
  Isa isa_;
  Epilogue epilogue_;
  bool has_bias_ = false;
  std::span<const std::byte> packed_;
};

std::vector<Tactic> list_matmul_pixel_conv(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || !is_pixel_conv(*op) || !all_are(op->strides, 1)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType pixels{type, kChannelsLast};
    Tactic t = typed_tactic(query, "PixelConvolution",
                            "conv_1x1_gemm_f32_" + std::string(isa_suffix(machine)), pixels, pixels);
    for (size_t i = 1; i < node.op_input_count(); ++i) {
      t.inputs[i] = {};
      if (node.inputs[i] != kNoValue && !query.graph.value(node.inputs[i]).is_constant())
        t.support = Support::no(i == 1 ? "the weights are not constant" : "the bias is not constant");
    }
    if (!is_vector_float(type)) t.support = no_vector_kernel(type);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

template <class Kernel>
std::unique_ptr<LayerKernel> make_product(const LayerQuery& query, const Tactic& tactic,
                                          const Machine& machine, const PackContext& pack) {
  return std::make_unique<Kernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily matmul_tactics() {
  return {kMatmulRunner, list_matmul, make_product<MatMulKernel>};
}
TacticFamily pixel_conv_tactics() {
  return {"PixelConvolution", list_matmul_pixel_conv, make_product<PixelConvKernel>};
}

}  // namespace lathe::cpu
