// SPDX-License-Identifier: Apache-2.0
//
// Matrix products through oneDNN, FP32 and BF16, with a constant b packed once (per part of the columns when
// they are shared out) or both operands computed at run time. Tensors are in linear format.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/device/expected.h"
#include "backend/cpu/device/onednn.h"
#include "backend/cpu/onednn/onednn_matmul_problem.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/offered.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kOnednnMatmulRunner = "OnednnMatMul";
// Below the first a second thread does not pay for the meeting; above the second one thread is no candidate.
constexpr double kSmallMatMulFlops = 5e5, kLargeFlops = 4e6;

size_t whole_cache_lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

class PreparedOnednnMatMul final : public PreparedLayer {
 public:
  struct Part {
    OnednnCall call;
    bool fused = true;
    // What the own epilogue goes over, if it does; see PreparedEpilogue::apply. One entry per batch index.
    std::vector<int64_t> offsets;
    int64_t rows = 1, columns = 0, row_stride = 0;
    bool in_scratch = false;  // the result lies at the start of the scratch, dense
  };
  size_t scratch_bytes() const override { return scratch_each * static_cast<size_t>(team); }
  int members(int available) const override { return std::min(available, team); }

  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range own = worker.slice(static_cast<int64_t>(parts.size()));
    for (auto i = static_cast<size_t>(own.begin); i < static_cast<size_t>(own.end); ++i) {
      const Part& part = parts[i];
      std::byte* scratch = args.scratch + scratch_each * static_cast<size_t>(worker.index);
      if (part.in_scratch) {
        void* tile = scratch;
        part.call.run({args.inputs, {&tile, 1}, nullptr}, scratch + tile_bytes);
      } else {
        part.call.run(args, scratch);
      }
      if (!part.fused) finish(args, part, scratch);
    }
  }

  std::vector<Part> parts;
  int team = 1;  // as many as a matrix has parts
  std::shared_ptr<const PreparedEpilogue> epilogue;
  std::vector<std::vector<std::byte>> own_weights;  // repacked for these shapes
  size_t scratch_each = 0, tile_bytes = 0;
  int64_t element_bytes = 4;

 private:
  void finish(const LayerArgs& args, const Part& part, const std::byte* scratch) const {
    const std::byte* tile = scratch;
    for (const int64_t offset : part.offsets) {
      const std::byte* values = static_cast<const std::byte*>(args.outputs[0]) + offset * element_bytes;
      if (part.in_scratch) {
        values = tile;
        tile += part.rows * part.columns * static_cast<int64_t>(sizeof(float));
      }
      epilogue->apply(args, values, part.in_scratch ? part.columns : part.row_stride, offset, part.rows,
                      part.row_stride, part.columns);
    }
  }
};

class OnednnMatMulKernel final : public LayerKernel {
 public:
  OnednnMatMulKernel(const LayerQuery& query, const Tactic& tactic, const MatMulVariant& variant,
                     const Machine& machine, const PackContext& pack)
      : op_(std::get<MatMul>(query.layer().op)),
        variant_(variant),
        stack_(stack_count(query)),
        chain_(chain_for(query, variant.result)),
        epilogue_(query, tactic, machine),
        has_epilogue_(!query.layer().epilogue.empty()) {
    if (chain_) chain_->pack_constants(query, pack);
    if (variant.constant_b) pack_b(query, pack);
  }

  static std::optional<PostOpChain> chain_for(const LayerQuery& query, DType result) {
    const size_t rank = query.graph.value(query.layer().outputs[0]).shape.size();
    return PostOpChain::from_epilogue(query, {result, kLinear}, std::max<size_t>(1, rank) - 1,
                                      stack_count(query) > 0);
  }
  // 0: b is no stack of constants.
  static int64_t stack_count(const LayerQuery& query) {
    const auto& inputs = query.layer().inputs;
    const Value &a = query.graph.value(inputs[0]), &b = query.graph.value(inputs[1]);
    return is_stack_product(a, b) ? b.shape[0].value() : 0;
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    MatMulProblem problem = MatMulProblem::at(op_, context.inputs[0], context.inputs[1]);
    if (stack_ > 0) problem = problem.without_batch();
    auto prepared = std::make_unique<PreparedOnednnMatMul>();
    prepared->element_bytes = dtype_bytes(variant_.result, 1);
    const auto parts = matmul_parts(problem, variant_, context.threads);
    const bool in_scratch = through_scratch(problem, parts[0]);
    if (has_epilogue_ || in_scratch)
      prepared->epilogue = epilogue_.prepare(context, in_scratch ? DType::Float32 : variant_.result);
    if (in_scratch)
      for (const MatMulPart& part : parts)
        prepared->tile_bytes = std::max(
            prepared->tile_bytes, whole_cache_lines(result_part(problem, variant_, part).desc.get_size()));
    prepared->team = static_cast<int>(parts.size());
    const size_t packed_each = variant_.split == MatMulSplit::Columns ? parts.size() : 1;
    for (int64_t matrix = 0; matrix < std::max<int64_t>(1, stack_); ++matrix)
      for (size_t i = 0; i < parts.size(); ++i) {
        MatMulPart part = parts[i];
        part.matrix = matrix;
        add_part(problem, part, static_cast<size_t>(matrix) * packed_each + i % packed_each, *prepared);
      }
    return prepared;
  }

 private:
  const PostOpChain* chain() const { return chain_ ? &*chain_ : nullptr; }

  void pack_b(const LayerQuery& query, const PackContext& pack) {
    const SymbolValues opt = query.opt_values();
    const Value& b = query.graph.value(query.layer().inputs[1]);
    MatMulProblem problem = MatMulProblem::at(
        op_, upper_extents(query.graph.value(query.layer().inputs[0]).shape, opt), to_extents(b.shape));
    if (stack_ > 0) problem = problem.without_batch();
    const int count = variant_.split == MatMulSplit::Columns ? variant_.parts : 1;
    for (int64_t matrix = 0; matrix < std::max<int64_t>(1, stack_); ++matrix)
      for (int i = 0; i < count; ++i) {
        MatMulPart part = column_part(problem, i, count);
        part.matrix = matrix;
        std::string name = fmt::format("b{}of{}", i, count);
        if (stack_ > 0) name += fmt::format("_m{}", matrix);
        pack_part(problem, part, b, name, pack);
      }
  }

  void pack_part(const MatMulProblem& problem, const MatMulPart& part, const Value& b,
                 const std::string& name, const PackContext& pack) {
    const auto plan = plan_matmul(problem, variant_, part, chain());
    check(plan.has_value(), "oneDNN no longer offers the implementation that this tactic was made of");
    const auto desc = plan->desc.weights_desc();
    const auto bytes = pack.packed(name, static_cast<int64_t>(desc.get_size()), [&] {
      const auto plain = plain_b(problem, part, DType::Float32);
      const int64_t begin = b_offset(problem, part);
      if (b.dtype == DType::Float32)
        return onednn_reorder(plain, b.constant.data<float>().data() + begin, desc);
      const std::vector<double> values = b.constant.to_doubles();
      return onednn_reorder(plain, std::vector<float>(values.begin(), values.end()).data() + begin, desc);
    });
    packed_.push_back({desc, bytes});
  }

  void add_part(const MatMulProblem& problem, const MatMulPart& part, size_t index,
                PreparedOnednnMatMul& prepared) const {
    const dnnl::memory::desc* wanted = variant_.constant_b ? &packed_[index].first : nullptr;
    auto plan = plan_matmul(problem, variant_, part, chain(), wanted);
    const std::byte* weights = variant_.constant_b ? packed_[index].second.data() : nullptr;
    if (!plan && variant_.constant_b) {  // no kernel for the packed layout at these shapes
      plan = plan_matmul(problem, variant_, part, chain());
      check(plan.has_value(), "oneDNN has no implementation at these shapes");
      prepared.own_weights.push_back(onednn_reorder(*wanted, weights, plan->desc.weights_desc()));
      weights = prepared.own_weights.back().data();
    }
    check(plan.has_value(), "oneDNN has no implementation at these shapes");
    const ResultPart result = result_part(problem, variant_, part);
    PreparedOnednnMatMul::Part made{
        .call = OnednnCall(with_onednn_memory([&] { return dnnl::matmul(plan->desc); }))};
    made.in_scratch = through_scratch(problem, part);
    made.fused = !made.in_scratch && (plan->fused || !has_epilogue_);
    made.call.add_input(DNNL_ARG_SRC, plan->desc.src_desc(), 0,
                        dtype_bytes(variant_.source, a_offset(problem, part)));
    if (variant_.constant_b)
      made.call.add_constant(DNNL_ARG_WEIGHTS, plan->desc.weights_desc(), weights);
    else
      made.call.add_input(DNNL_ARG_WEIGHTS, plan->desc.weights_desc(), 1,
                          dtype_bytes(variant_.source, b_offset(problem, part)));
    made.call.add_output(DNNL_ARG_DST, plan->desc.dst_desc(), 0, made.in_scratch ? 0 : result.offset_bytes);
    made.call.add_scratch(DNNL_ARG_SCRATCHPAD, plan->desc.scratchpad_desc());
    if (plan->fused) chain_->add_operands(made.call, result);
    made.rows = part.rows;
    made.columns = part.columns;
    made.row_stride = problem.n;
    const int64_t per_index = problem.batch.empty() ? 1 : element_count(problem.batch) / problem.batch[0];
    for (int64_t b = 0; b < part.batches * per_index; ++b)
      made.offsets.push_back(result_offset(problem, part) + b * problem.m * problem.n);
    prepared.scratch_each =
        std::max(prepared.scratch_each,
                 whole_cache_lines(plan->desc.scratchpad_desc().get_size()) + prepared.tile_bytes);
    prepared.parts.push_back(std::move(made));
  }

  const MatMul op_;
  const MatMulVariant variant_;
  const int64_t stack_;
  std::optional<PostOpChain> chain_;
  Epilogue epilogue_;
  bool has_epilogue_ = false;
  std::vector<std::pair<dnnl::memory::desc, std::span<const std::byte>>> packed_;
};

// ---- listing

std::string suffix_of(const MatMulVariant& variant) {
  switch (variant.split) {
    case MatMulSplit::Whole:
      return "";
    case MatMulSplit::Rows:
      return "_rows";
    case MatMulSplit::Columns:
      return fmt::format("_cols{}", variant.parts);
    case MatMulSplit::Batch:
      return "_batch";
  }
  return "";
}

std::vector<MatMulVariant> variants_of(const MatMulProblem& problem, double flops, const MatMulVariant& base,
                                       int threads) {
  std::vector<MatMulVariant> variants;
  const auto add = [&](MatMulSplit split, int parts = 1) {
    variants.push_back(base);
    variants.back().split = split;
    variants.back().parts = parts;
  };
  if (threads == 1 || flops < kSmallMatMulFlops) add(MatMulSplit::Whole);
  if (threads == 1) return variants;
  if (!problem.batch.empty() && problem.batch[0] > 1) add(MatMulSplit::Batch);
  const int parts = static_cast<int>(std::clamp<int64_t>(problem.n / 64, 1, threads));
  // Few rows: the time goes into reading b, so each member should read its own piece.
  const bool columns_first = problem.m < 16 * threads;
  const bool may_split_columns = base.constant_b && parts > 1;
  if (may_split_columns && columns_first) add(MatMulSplit::Columns, parts);
  if (problem.m > 1) add(MatMulSplit::Rows);
  if (may_split_columns && !columns_first) add(MatMulSplit::Columns, parts);
  if (variants.empty() || (flops >= kSmallMatMulFlops && flops < kLargeFlops)) add(MatMulSplit::Whole);
  return variants;
}

std::string reason_to_refuse_onednn_matmul(const LayerQuery& query) {
  const Node& node = query.layer();
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  if (a.dtype != DType::Float32 && a.dtype != DType::BFloat16)
    return fmt::format("{} input", dtype_name(a.dtype));
  if (a.shape.empty() || b.shape.empty() || a.shape.size() > 6 || b.shape.size() > 6)
    return "rank (1 to 6 supported)";
  return {};
}

std::vector<std::pair<DType, DType>> onednn_matmul_type_pairs(const LayerQuery& query,
                                                              const Machine& machine) {
  const Node& node = query.layer();
  const Value& a = query.graph.value(node.inputs[0]);
  const DType own = a.dtype;
  std::vector<std::pair<DType, DType>> pairs;
  if (own == DType::Float32) pairs.emplace_back(DType::Float32, DType::Float32);
  const auto& allowed = node.allowed_types;
  // A constant that is not packed is read in its own type.
  const bool bf16 =
      own == DType::BFloat16 ||
      (!a.is_constant() && std::find(allowed.begin(), allowed.end(), DType::BFloat16) != allowed.end());
  if (bf16 && machine.has(CpuFeature::Bf16)) {
    pairs.emplace_back(DType::BFloat16, DType::BFloat16);
    if (own == DType::Float32) pairs.emplace_back(DType::BFloat16, DType::Float32);
  }
  return pairs;
}

Tactic make_tactic(const LayerQuery& query, const MatMulVariant& variant, std::string name) {
  Tactic tactic = with_variant({.runner = std::string(kOnednnMatmulRunner)}, std::move(name),
                               {{"split", static_cast<int64_t>(variant.split)}, {"parts", variant.parts}});
  // A constant that is not packed is read in its own type.
  tactic.inputs = {{variant.source, kLinear},
                   variant.constant_b ? TensorType{} : TensorType{variant.source, kLinear}};
  tactic.outputs = {{variant.result, kLinear}};
  tactic.support = Epilogue::list(query, tactic.outputs[0], tactic.inputs);
  return tactic;
}

// Constants that take part in broadcasting are read as they are: packing would fix the batch of a part.
bool packs_b(const LayerQuery& query, const MatMulProblem& problem) {
  const auto& inputs = query.layer().inputs;
  const Value &a = query.graph.value(inputs[0]), &b = query.graph.value(inputs[1]);
  return b.is_constant() && (is_stack_product(a, b) || problem.batch_b.empty());
}

std::vector<Tactic> list_matmuls(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<MatMul>(node.op)) return {};
  if (const std::string reason = reason_to_refuse_onednn_matmul(query); !reason.empty())
    return refused_tactic(query, kOnednnMatmulRunner, "onednn_matmul", reason);
  const SymbolValues opt = query.opt_values();
  const Extents a = upper_extents(query.graph.value(node.inputs[0]).shape, opt);
  const Extents b = upper_extents(query.graph.value(node.inputs[1]).shape, opt);
  const MatMulProblem problem = MatMulProblem::at(std::get<MatMul>(node.op), a, b);
  const Value& b_value = query.graph.value(node.inputs[1]);
  const bool stack = is_stack_product(query.graph.value(node.inputs[0]), b_value);
  const bool constant_b = packs_b(query, problem);
  const MatMulProblem one = stack ? problem.without_batch() : problem;
  std::vector<Tactic> tactics;
  for (const auto& [source, result] : onednn_matmul_type_pairs(query, machine)) {
    if (b_value.is_constant() && !constant_b && b_value.dtype != source) continue;
    const auto chain = OnednnMatMulKernel::chain_for(query, result);
    const MatMulVariant base{.source = source, .result = result, .constant_b = constant_b};
    for (const MatMulVariant& variant : variants_of(one, problem.flops(), base, machine.threads)) {
      const MatMulPart part = matmul_parts(one, variant, machine.threads)[0];
      const auto plan = plan_matmul(one, variant, part, chain ? &*chain : nullptr);
      const std::string impl = plan ? "_" + onednn_impl_name(plan->desc.impl_info_str()) : "";
      tactics.push_back(
          make_tactic(query, variant, fmt::format("onednn_matmul{}{}", impl, suffix_of(variant))));
      if (plan) tactics.back().keeps_nan = !plan->fused || !chain || chain->keeps_nan();
      if (!plan)
        tactics.back().support =
            Support::no(fmt::format("oneDNN has no fast implementation for {} by {} in {}", to_string(a),
                                    to_string(b), dtype_name(source)));
      tactics.back().expected_us = expected_product_us(query, tactics.back(), machine, 0.50, 1.0);
    }
  }
  return tactics;
}

MatMulVariant onednn_matmul_variant_of(const Tactic& tactic) {
  MatMulVariant variant{.source = tactic.inputs[0].dtype, .result = tactic.outputs[0].dtype};
  variant.constant_b = tactic.inputs[1].dtype == DType::Undefined;
  variant.split = static_cast<MatMulSplit>(tactic.params.get("split", 0));
  variant.parts = std::max(1, tactic.params.get_int("parts", 1));
  return variant;
}

// Whether oneDNN has an implementation is seen when the kernel is made.
Support accepts_matmul(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<MatMul>(node.op)) return Support::no("it is no product");
  if (const std::string reason = reason_to_refuse_onednn_matmul(query); !reason.empty())
    return Support::no(reason);
  const MatMulVariant variant = onednn_matmul_variant_of(tactic);
  if (!onednn_computes(variant.source, variant.result, machine))
    return Support::no("types that oneDNN does not compute in here");
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  const SymbolValues opt = query.opt_values();
  const MatMulProblem problem =
      MatMulProblem::at(std::get<MatMul>(node.op), upper_extents(a.shape, opt), upper_extents(b.shape, opt));
  if (variant.constant_b != packs_b(query, problem))
    return Support::no("the right operand is read in another way");
  const MatMulProblem one = is_stack_product(a, b) ? problem.without_batch() : problem;
  MatMulVariant whole = variant;
  whole.split = MatMulSplit::Whole;
  whole.parts = 1;
  const int threads = variant.split == MatMulSplit::Columns ? std::max(variant.parts, 2) : machine.threads;
  const auto splits = variants_of(one, problem.flops(), whole, threads);
  if (variant != whole && std::find(splits.begin(), splits.end(), variant) == splits.end())
    return Support::no("its work cannot be shared in that way");
  const Tactic own = make_tactic(query, variant, tactic.name);
  return own.support.ok ? is_offered({&own, 1}, tactic) : own.support;
}

std::unique_ptr<LayerKernel> make_onednn_matmul(const LayerQuery& query, const Tactic& tactic,
                                                const Machine& machine, const PackContext& pack) {
  return std::make_unique<OnednnMatMulKernel>(query, tactic, onednn_matmul_variant_of(tactic), machine, pack);
}

}  // namespace

TacticFamily onednn_matmul_tactics() {
  return {kOnednnMatmulRunner, list_matmuls, make_onednn_matmul, accepts_matmul};
}

}  // namespace lathe::cpu
