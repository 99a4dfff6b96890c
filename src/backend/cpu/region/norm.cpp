// SPDX-License-Identifier: Apache-2.0
//
// Layer norm, RMS norm and softmax on FP32, BF16 and FP16 rows; computation in FP32. Rows are shared out over
// the team.
#include "backend/cpu/region/row_kernels.h"
#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

int64_t product(const Extents& e, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t d = from; d < to; ++d) n *= e[d];
  return n;
}

const std::byte* at(const void* base, int64_t elements, DType type) {
  return static_cast<const std::byte*>(base) + dtype_bytes(type, elements);
}
std::byte* at(void* base, int64_t elements, DType type) {
  return static_cast<std::byte*>(base) + dtype_bytes(type, elements);
}

struct RowTypes {
  DType from, to;
};
std::vector<Tactic> list_rows(const LayerQuery& query, const Machine& machine, std::string_view runner,
                              std::string_view name, const std::vector<RowTypes>& types) {
  std::vector<Tactic> tactics;
  for (const auto& [from, to] : types) {
    Tactic t = typed_tactic(query, runner, std::string(name) + "_" + std::string(isa_suffix(machine)),
                            {from, kLinear}, {to, kLinear});
    if (t.support.ok && !is_vector_float(from)) t.support = no_vector_kernel(from);
    for (size_t i = 1; i < query.layer().outputs.size(); ++i)
      if (query.layer().has_output(i) && i != LayerNorm::kPlainResult)
        t.support = Support::no("mean and deviation outputs are not produced");
    if (from == to && !reads_twice(query, 0)) t.in_place_inputs = {0};
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::vector<RowTypes> same_types(const LayerQuery& query) {
  std::vector<RowTypes> types;
  for (const DType type : layer_types(query)) types.push_back({type, type});
  return types;
}

// --- layer norm -------------------------------------------------------------------------------------------
class PreparedLayerNorm final : public PreparedLayer {
 public:
  LayerNorm op;
  DType type = DType::Float32, result = DType::Float32;
  DType scale_type = DType::Undefined, bias_type = DType::Undefined;
  bool rounds = false;            // to BF16, and nothing else comes after
  bool has_plain_result = false;  // in `type`
  int64_t rows = 0, n = 0;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  // Per member: a row, scale and bias.
  int64_t member_floats() const { return (n + 15) / 16 * 16 * 3; }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats()) * 4 * static_cast<size_t>(threads);
  }
  int members(int available) const override {
    return members_for(0.25 * static_cast<double>(rows * n), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const RowsTable& table = rows_table(isa);
    const PointwiseTable& convert = pointwise_table(isa);
    const int64_t padded = (n + 15) / 16 * 16;
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    LayerNormRow p{.epsilon = op.epsilon, .rms = op.rms};
    if (scale_type != DType::Undefined)
      p.scale = widen(convert, scale_type, args.inputs[1], n, buffer + padded);
    if (bias_type != DType::Undefined)
      p.bias = widen(convert, bias_type, args.inputs[2], n, buffer + 2 * padded);
    const Worker::Range part = worker.slice(rows);
    for (int64_t r = part.begin; r < part.end; ++r) {
      const float* x = widen(convert, type, at(args.inputs[0], r * n, type), n, buffer);
      if (rounds) {
        table.layer_norm_bf16(x, static_cast<uint16_t*>(args.outputs[0]) + r * n, n, p);
        continue;
      }
      float* y = result == DType::Float32 ? static_cast<float*>(args.outputs[0]) + r * n : buffer;
      table.layer_norm(x, y, n, p);
      if (has_plain_result)
        store_row(convert, type, y, n, at(args.outputs[LayerNorm::kPlainResult], r * n, type));
      epilogue->apply(args, y, n, r * n, 1, n, n);
    }
  }
};

class LayerNormKernel final : public LayerKernel {
 public:
  LayerNormKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<LayerNorm>(query.layer().op)),
        tactic_(tactic),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine),
        op_inputs_(query.layer().op_input_count()),
        has_plain_result_(query.layer().has_output(LayerNorm::kPlainResult)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedLayerNorm>();
    const Extents& x = context.inputs[0];
    const auto axis =
        static_cast<size_t>(op_.axis < 0 ? op_.axis + static_cast<int64_t>(x.size()) : op_.axis);
    p->op = op_;
    p->type = tactic_.inputs[0].dtype;
    p->result = tactic_.outputs[0].dtype;
    p->has_plain_result = has_plain_result_;
    p->rounds = p->result == DType::BFloat16 && epilogue_.empty() && !p->has_plain_result;
    if (op_inputs_ > 1) p->scale_type = tactic_.inputs[1].dtype;
    if (op_inputs_ > 2) p->bias_type = tactic_.inputs[2].dtype;
    p->rows = product(x, 0, axis);
    p->n = product(x, axis, x.size());
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  LayerNorm op_;
  Tactic tactic_;
  Isa isa_;
  Epilogue epilogue_;
  size_t op_inputs_;
  bool has_plain_result_;
};

std::vector<Tactic> list_layer_norm(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<LayerNorm>(&query.layer().op);
  if (!op) return {};
  std::vector<RowTypes> types = same_types(query);
  // Sums go on in FP32 where a product reads the rows in 16 bits.
  for (const DType type : layer_types(query))
    if (query.graph.value(query.layer().inputs[0]).dtype == DType::Float32 && type != DType::Float32)
      types.push_back({DType::Float32, type});
  // Rows that a product reads as bytes.
  if (byte_grid(query.graph.value(query.layer().outputs[0]), {DType::UInt8, {}}))
    types.insert(types.begin(), {DType::Float32, DType::UInt8});
  std::vector<Tactic> tactics =
      list_rows(query, machine, "LayerNorm", op->rms ? "rms_norm" : "layer_norm", types);
  for (Tactic& t : tactics) {
    if (query.layer().has_output(LayerNorm::kPlainResult)) t.outputs[LayerNorm::kPlainResult] = t.inputs[0];
    for (size_t i = 1; i < query.layer().op_input_count(); ++i) {
      if (t.inputs[i].dtype == DType::Undefined) continue;
      if (!is_vector_float(t.inputs[i].dtype))
        t.support = Support::no("scale and bias must be 16 or 32 bit floats");
      // Every element of the normalized part has its own scale; other broadcasts are rare.
      const Shape &x = query.graph.value(query.layer().inputs[0]).shape,
                  &s = query.graph.value(query.layer().inputs[i]).shape;
      const auto axis =
          static_cast<size_t>(op->axis < 0 ? op->axis + static_cast<int64_t>(x.size()) : op->axis);
      if (s != Shape(x.begin() + static_cast<int64_t>(axis), x.end()))
        t.support = Support::no("scale or bias is broadcast inside the normalized dims");
    }
  }
  return tactics;
}

// --- softmax ----------------------------------------------------------------------------------------------
class PreparedSoftmax final : public PreparedLayer {
 public:
  bool log = false;
  DType type = DType::Float32;
  int64_t outer = 0, n = 0, inner = 1;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  static constexpr int64_t kColumns = 64;  // taken together when the axis is not the last one
  int64_t member_floats() const {
    return type == DType::Float32 ? 0 : (n * std::min(inner, kColumns) + 15) / 16 * 16;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats()) * 4 * static_cast<size_t>(threads);
  }
  int members(int available) const override {
    return members_for(0.6 * static_cast<double>(outer * n * inner), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    if (inner == 1)
      run_rows(args, worker, buffer);
    else
      run_columns(args, worker, buffer);
  }

 private:
  void run_rows(const LayerArgs& args, const Worker& worker, float* buffer) const {
    const RowsTable& table = rows_table(isa);
    const PointwiseTable& convert = pointwise_table(isa);
    const Worker::Range part = worker.slice(outer);
    for (int64_t r = part.begin; r < part.end; ++r) {
      const float* x = widen(convert, type, at(args.inputs[0], r * n, type), n, buffer);
      float* y = type == DType::Float32 ? static_cast<float*>(args.outputs[0]) + r * n : buffer;
      table.softmax(x, y, n, log);
      epilogue->apply(args, y, n, r * n, 1, n, n);
    }
  }
  void run_columns(const LayerArgs& args, const Worker& worker, float* buffer) const {
    const RowsTable& table = rows_table(isa);
    const PointwiseTable& convert = pointwise_table(isa);
    const int64_t pieces = (inner + kColumns - 1) / kColumns;
    const Worker::Range part = worker.slice(outer * pieces);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t c = i % pieces * kColumns, count = std::min(kColumns, inner - c);
      const int64_t offset = i / pieces * n * inner + c;
      if (type == DType::Float32) {
        float* y = static_cast<float*>(args.outputs[0]) + offset;
        table.softmax_columns(static_cast<const float*>(args.inputs[0]) + offset, y, n, inner, count, log);
        epilogue->apply(args, y, inner, offset, n, inner, count);
      } else {
        for (int64_t k = 0; k < n; ++k)
          widen(convert, type, at(args.inputs[0], offset + k * inner, type), count, buffer + k * count);
        table.softmax_columns(buffer, buffer, n, count, count, log);
        epilogue->apply(args, buffer, count, offset, n, inner, count);
      }
    }
  }
};

class SoftmaxKernel final : public LayerKernel {
 public:
  SoftmaxKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Softmax>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedSoftmax>();
    const Extents& x = context.inputs[0];
    const auto axis =
        static_cast<size_t>(op_.axis < 0 ? op_.axis + static_cast<int64_t>(x.size()) : op_.axis);
    p->log = op_.log;
    p->type = type_;
    p->outer = product(x, 0, axis);
    p->n = x[axis];
    p->inner = product(x, axis + 1, x.size());
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Softmax op_;
  DType type_;
  Isa isa_;
  Epilogue epilogue_;
};

std::vector<Tactic> list_softmax(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<Softmax>(query.layer().op)) return {};
  return list_rows(query, machine, "SoftMax", "softmax", same_types(query));
}

template <class Kernel>
std::unique_ptr<LayerKernel> make_norm(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                       const PackContext&) {
  return std::make_unique<Kernel>(query, tactic, machine);
}

}  // namespace

TacticFamily layer_norm_tactics() {
  return {"LayerNorm", list_layer_norm, make_norm<LayerNormKernel>};
}
TacticFamily softmax_tactics() {
  return {"SoftMax", list_softmax, make_norm<SoftmaxKernel>};
}

}  // namespace lathe::cpu
