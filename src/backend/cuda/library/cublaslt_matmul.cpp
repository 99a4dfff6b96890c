// SPDX-License-Identifier: Apache-2.0
//
// MatMul, and convolutions with 1x1 windows over channels-last tensors, through cuBLASLt (gemm.h).
//
// A constant b is packed K-major, in the type of the product: Hopper's TF32 instructions take nothing else,
// and FP16 ones lose nothing. Batch dims become rows where b is the same for all, else one strided batch,
// else a call per outer index.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/codegen/epilogue.h"
#include "backend/cuda/codegen/fused_tail.h"
#include "backend/cuda/codegen/gemm.h"
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/device/libraries.h"
#include "backend/offered.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kCublasltRunner = "CublasLt";
// Algorithms listed in the layer's first type, and in its own type when that is the second.
constexpr int kRanks = 6, kFallbackRanks = 2;

// The products of one layer: all alike, at different places.
struct Products {
  GemmProblem problem;
  struct Offset {
    int64_t a = 0, b = 0, result = 0, bias = 0;  // elements
  };
  std::vector<Offset> calls = {{}};
};

bool all_ones(const Extents& extents) {
  return std::all_of(extents.begin(), extents.end(), [](int64_t e) { return e == 1; });
}

// `packed`: b is constant and was packed (n, k).
Products products_of(const MatMul& op, const Extents& a, const Extents& b, bool packed) {
  Products products;
  GemmProblem& p = products.problem;
  p.transpose_a = op.transpose_a && a.size() > 1;
  const bool stored_transposed = op.transpose_b && b.size() > 1;
  p.transpose_b = packed || stored_transposed;
  const Extents left = a.size() > 1 ? a : Extents{1, a.at(0)}, right = b.size() > 1 ? b : Extents{b.at(0), 1};
  p.m = left[left.size() - (p.transpose_a ? 1 : 2)];
  p.k = right[right.size() - (stored_transposed ? 1 : 2)];
  p.n = right[right.size() - (stored_transposed ? 2 : 1)];
  Extents batch_a(left.begin(), left.end() - 2), batch_b(right.begin(), right.end() - 2);
  const Extents batch = broadcast(batch_a, batch_b);
  batch_a.insert(batch_a.begin(), batch.size() - batch_a.size(), 1);
  batch_b.insert(batch_b.begin(), batch.size() - batch_b.size(), 1);
  // Inner dims over which b stays the same and a goes on are more rows.
  size_t dims = batch.size();
  while (!p.transpose_a && dims > 0 && batch_b[dims - 1] == 1 && batch_a[dims - 1] == batch[dims - 1])
    p.m *= batch[--dims];
  const Extents outer(batch.begin(), batch.begin() + static_cast<int64_t>(dims));
  const Extents outer_a(batch_a.begin(), batch_a.begin() + static_cast<int64_t>(dims));
  const Extents outer_b(batch_b.begin(), batch_b.begin() + static_cast<int64_t>(dims));
  const bool a_once = all_ones(outer_a), b_once = all_ones(outer_b);
  if (all_ones(outer)) return products;
  if ((a_once || outer_a == outer) && (b_once || outer_b == outer)) {
    p.batch = element_count(outer);
    p.stride_a = a_once ? 0 : p.m * p.k;
    p.stride_b = b_once ? 0 : p.k * p.n;
    return products;
  }
  products.calls.clear();
  for (int64_t i = 0; i < element_count(outer); ++i) {
    Products::Offset offset{.result = i * p.m * p.n};
    int64_t rest = i, step_a = p.m * p.k, step_b = p.k * p.n;
    for (size_t d = outer.size(); d-- > 0;) {
      const int64_t index = rest % outer[d];
      rest /= outer[d];
      if (outer_a[d] != 1) offset.a += index * step_a;
      if (outer_b[d] != 1) offset.b += index * step_b;
      step_a *= outer_a[d];
      step_b *= outer_b[d];
    }
    products.calls.push_back(offset);
  }
  return products;
}

bool is_pointwise_conv(const Conv& conv) {
  const auto all = [](const Ints& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
  };
  return conv.groups == 1 && all(conv.kernel, 1) && all(conv.strides, 1) && all(conv.pads_begin, 0) &&
         all(conv.pads_end, 0);
}

Products conv_products(const Extents& x, int64_t channels) {
  Products products;
  GemmProblem& p = products.problem;
  p.k = x[1];
  p.m = p.k == 0 ? 0 : element_count(x) / p.k;
  p.n = channels;
  p.transpose_b = true;
  return products;
}

class PreparedGemms final : public PreparedLayer {
 public:
  size_t scratch_bytes() const override { return gemm->scratch_bytes() + values_bytes; }
  void enqueue(const LayerArgs& args, CUstream stream) const override {
    std::byte* values = epilogue ? args.scratch + values_offset : static_cast<std::byte*>(args.outputs[0]);
    const auto at = [](const void* base, int64_t elements, int64_t size) {
      return static_cast<const std::byte*>(base) + elements * size;
    };
    for (const Products::Offset& offset : products.calls)
      gemm->enqueue(at(args.inputs[0], offset.a, source_bytes),
                    at(b ? b : args.inputs[1], offset.b, source_bytes), bias,
                    residual ? at(args.inputs[*residual], offset.result, result_bytes) : nullptr,
                    values + offset.result * result_bytes, args.scratch, stream);
    if (epilogue) epilogue->enqueue(args, values, stream);
  }

  Products products;
  std::unique_ptr<Gemm> gemm;
  std::unique_ptr<PreparedEpilogue> epilogue;
  const void *b = nullptr, *bias = nullptr;
  std::optional<size_t> residual;
  int64_t source_bytes = 4, result_bytes = 4;
  size_t values_offset = 0, values_bytes = 0;
};

class GemmKernel final : public LayerKernel {
 public:
  GemmKernel(const LayerQuery& query, const Tactic& tactic, const Device& device, const PackContext& pack)
      : device_(device),
        rank_(tactic.params.get_int("rank")),
        source_(tactic.inputs[0].dtype),
        result_(tactic.outputs[0]),
        tf32_(tactic.params.get("tf32") != 0),
        is_conv_(std::holds_alternative<Conv>(query.layer().op)) {
    const Node& node = query.layer();
    const Shape& out = query.graph.value(node.outputs[0]).shape;
    if (!is_conv_) op_ = std::get<MatMul>(node.op);
    const size_t axis = is_conv_ ? 1 : out.empty() ? 0 : out.size() - 1;
    tail_ = usable_tail(query, axis);
    packs_b_ = is_conv_ || query.graph.value(node.inputs[1]).is_constant();
    if (packs_b_)
      b_ = DeviceMemory(
          device, pack.packed("b", dtype_bytes(source_, query.graph.value(node.inputs[1]).constant.size()),
                              [&] { return packed_b(query); }));
    std::optional<size_t> bias;
    if (tail_) bias = tail_->bias;
    if (is_conv_ && node.has_op_input(2)) bias = 2;
    if (bias) {
      const Value& value = query.graph.value(node.inputs[*bias]);
      const int64_t channels = axis < out.size() && out[axis].is_constant() ? out[axis].value() : 1;
      bias_ = DeviceMemory(device, pack.packed("bias", dtype_bytes(result_.dtype, channels), [&] {
        return channel_vector(value.constant, channels, result_.dtype);
      }));
      has_bias_ = true;
    }
    if (!tail_) epilogue_.emplace(query, tactic, result_, device, pack);
  }

  // The tail that the library applies; nothing when a pointwise kernel has to.
  static std::optional<FusedTail> usable_tail(const LayerQuery& query, size_t axis) {
    const Node& node = query.layer();
    const bool conv_bias = std::holds_alternative<Conv>(node.op) && node.has_op_input(2);
    auto tail = fused_tail(query, axis);
    if (!tail || (tail->bias && conv_bias)) return std::nullopt;
    const Shape& out = query.graph.value(node.outputs[0]).shape;
    if (tail->bias && (axis >= out.size() || !out[axis].is_constant())) return std::nullopt;
    if (tail->activation && !tail->is_relu() && tail->activation->code != PointwiseCode::GeluTanh)
      return std::nullopt;
    return tail;
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto prepared = std::make_unique<PreparedGemms>();
    prepared->products = is_conv_ ? conv_products(context.inputs[0], context.outputs[0][1])
                                  : products_of(op_, context.inputs[0], context.inputs[1], packs_b_);
    GemmProblem& p = prepared->products.problem;
    p.source = source_;
    p.result = result_.dtype;
    p.tf32 = tf32_;
    p.bias = has_bias_;
    p.residual = tail_ && tail_->residual;
    p.relu = tail_ && tail_->is_relu();
    p.gelu_tanh = tail_ && tail_->activation && !tail_->is_relu();
    prepared->source_bytes = dtype_bytes(source_, 1);
    prepared->result_bytes = dtype_bytes(result_.dtype, 1);
    if (packs_b_) prepared->b = b_.data();
    if (has_bias_) prepared->bias = bias_.data();
    if (tail_) prepared->residual = tail_->residual;
    if (!device_.is_present()) return prepared;
    prepared->gemm = std::make_unique<Gemm>(device_, p, rank_);
    if (epilogue_) {
      prepared->epilogue = epilogue_->prepare(context);
      prepared->values_offset = (prepared->gemm->scratch_bytes() + 255) / 256 * 256;
      prepared->values_bytes =
          static_cast<size_t>(element_count(context.outputs[0]) * prepared->result_bytes) + 256;
    }
    return prepared;
  }

 private:
  // (n, k), a stack of them where b has batch dims.
  std::vector<std::byte> packed_b(const LayerQuery& query) const {
    const Tensor& constant = query.graph.value(query.layer().inputs[1]).constant;
    if (is_conv_ || (op_.transpose_b && constant.rank() > 1)) return convert_floats(constant, source_);
    const Extents& e = constant.extents();
    const int64_t n = e.size() > 1 ? e.back() : 1, k = e.size() > 1 ? e[e.size() - 2] : e.at(0);
    const int64_t extents[] = {constant.size() / std::max<int64_t>(1, n * k), n, k},
                  strides[] = {n * k, 1, n};
    return convert_floats(constant, source_, extents, strides);
  }

  const Device& device_;
  const int rank_;
  const DType source_;
  const TensorType result_;
  const bool tf32_, is_conv_;
  MatMul op_;
  std::optional<FusedTail> tail_;
  bool packs_b_ = false, has_bias_ = false;
  DeviceMemory b_, bias_;
  std::optional<Epilogue> epilogue_;
};

// ---- listing

std::string reason_to_refuse_cublaslt(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  if (device.libraries->cublaslt == nullptr) return "cuBLASLt (libcublasLt.so.13) is not there";
  if (a.is_constant()) return "a is constant";
  if (library_types(query).empty()) return fmt::format("{} input", dtype_name(a.dtype));
  if (a.shape.empty() || b.shape.empty()) return "a scalar operand";
  if (const auto* conv = std::get_if<Conv>(&node.op)) {
    if (!is_pointwise_conv(*conv)) return "cuBLASLt computes convolutions with 1x1 windows and stride 1 only";
    if (!b.is_constant()) return "the weights are computed at run time";
    if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
      return "the bias is computed at run time";
  }
  for (const Value* v : {&a, &b})
    for (const Dim& d : v->shape)
      if (d.is_constant(0)) return "an operand without elements";
  return {};
}

std::vector<Tactic> list_gemms(const LayerQuery& query, const Device& device, bool allow_tf32) {
  const Node& node = query.layer();
  const bool is_conv = std::holds_alternative<Conv>(node.op);
  if (!is_conv && !std::holds_alternative<MatMul>(node.op)) return {};
  const std::string reason = reason_to_refuse_cublaslt(query, device);
  std::vector<Tactic> tactics;
  const std::vector<DType> types = reason.empty() ? library_types(query) : std::vector<DType>{DType::Float32};
  for (const DType type : types)
    for (int rank = 0; rank < (type == types.front() ? kRanks : kFallbackRanks); ++rank) {
      const bool tf32 = type == DType::Float32 && allow_tf32;
      Tactic tactic = with_variant({.runner = std::string(kCublasltRunner)},
                                   fmt::format("cublaslt{}_{}", tf32 ? "_tf32" : "", rank),
                                   {{"tf32", tf32}, {"rank", rank}});
      const Format format = is_conv ? kChannelsLast : kLinear;
      if (!reason.empty()) {
        tactic.inputs.resize(node.inputs.size());
        tactic.outputs.resize(node.outputs.size());
        tactic.support = Support::no(reason);
        return {tactic};
      }
      const bool packed = query.graph.value(node.inputs[1]).is_constant();
      tactic.inputs = {{type, format}, packed ? TensorType{} : TensorType{type, kLinear}};
      if (is_conv && node.op_input_count() > 2) tactic.inputs.emplace_back();
      tactic.outputs = {{type, format}};
      const Shape& out = query.graph.value(node.outputs[0]).shape;
      const auto tail = GemmKernel::usable_tail(query, is_conv ? 1 : out.empty() ? 0 : out.size() - 1);
      if (tail) {
        tactic.keeps_nan = !tail->activation;
        for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i)
          tactic.inputs.push_back(tail->residual == i ? TensorType{type, format} : TensorType{});
        if (tail->residual &&
            std::count(node.inputs.begin(), node.inputs.end(), node.inputs[*tail->residual]) == 1)
          tactic.in_place_inputs = {static_cast<int>(*tail->residual)};
      } else if (const Support s = Epilogue::list(query, tactic.outputs[0], tactic.inputs); !s.ok) {
        tactic.support = s;
      }
      tactics.push_back(std::move(tactic));
    }
  return tactics;
}

std::vector<Tactic> list_gemms(const LayerQuery& query, const Device& device) {
  return list_gemms(query, device, device.tf32);
}

// An engine says itself whether its products may round.
Support accepts_gemm(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const Support answer = is_offered(list_gemms(query, device, true), tactic);
  return answer.ok ? answer : is_offered(list_gemms(query, device, false), tactic);
}

std::unique_ptr<LayerKernel> make_gemm(const LayerQuery& query, const Tactic& tactic, const Device& device,
                                       const PackContext& pack) {
  return std::make_unique<GemmKernel>(query, tactic, device, pack);
}

std::vector<KernelSource> gemm_sources(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Shape& out = query.graph.value(query.layer().outputs[0]).shape;
  const bool is_conv = std::holds_alternative<Conv>(query.layer().op);
  if (GemmKernel::usable_tail(query, is_conv ? 1 : out.empty() ? 0 : out.size() - 1)) return {};
  return Epilogue::sources(query, tactic);
}

}  // namespace

TacticFamily cublaslt_tactics() {
  return {kCublasltRunner, list_gemms, make_gemm, gemm_sources, accepts_gemm, packs_alike};
}

}  // namespace lathe::cuda
