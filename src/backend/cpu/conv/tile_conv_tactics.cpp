// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/conv/tile_conv_tactics.h"

#include <algorithm>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {
namespace {

Support supports_tile_conv(const LayerQuery& query, DType type, const Machine& machine,
                           const TileConvFamily& family, bool has_plan) {
  const Node& node = query.layer();
  const Value& w = query.graph.value(node.inputs[1]);
  if (!machine.has(CpuFeature::Avx512)) return Support::no("needs AVX-512");
  if (type == DType::BFloat16 && !machine.has(CpuFeature::Bf16)) return Support::no("needs AVX512-BF16");
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (w.constant.dtype() != DType::Float32) return Support::no("the weights are not FP32");
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  if (Support own = family.support(); !own.ok) return own;
  if (type == DType::BFloat16 && w.shape[family.channel_axis].value() % 2 != 0)
    return Support::no("BF16 in pairs along an odd number of channels");
  if (!has_plan) return Support::no("the epilogue cannot be applied in registers");
  return {};
}

}  // namespace

std::vector<Tactic> list_tile_conv(const LayerQuery& query, const Machine& machine,
                                   const TileConvFamily& family) {
  const std::optional<TailPlan> plan = plan_register_tail(query, 1);
  std::vector<Tactic> tactics;
  const auto add = [&](DType from, DType to, std::string_view suffix) {
    Tactic t = typed_tactic(query, family.runner, std::string(family.name).append(suffix),
                            {from, kChannelsLast}, {to, kChannelsLast});
    for (size_t i = 1; i < query.layer().op_input_count(); ++i) t.inputs[i] = {};
    if (const Support s = supports_tile_conv(query, from, machine, family, plan.has_value()); !s.ok)
      t.support = s;
    write_over_operand(plan, t);
    tactics.push_back(std::move(t));
  };
  const std::vector<DType> types = layer_types(query);
  const bool wide = std::find(types.begin(), types.end(), DType::Float32) != types.end();
  for (const DType type : types) {
    if (type == DType::Float32) add(type, type, "_f32_avx512");
    if (type != DType::BFloat16) continue;
    add(type, type, "_avx512_bf16");
    if (wide) add(type, DType::Float32, "_avx512_bf16");
  }
  return tactics;
}

}  // namespace lathe::cpu
