// SPDX-License-Identifier: Apache-2.0
//
// RandomUniform and RandomNormal: the numbers of ops/random.cpp, bit by bit the same words of Philox 4x32-10,
// made floats in double. A thread for each element; nothing is read.
#include "backend/cuda/codegen/own_tactic.h"
#include "lathe_device_text/random.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRandomRunner = "Random";

std::vector<Tactic> list_random(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const bool uniform = std::holds_alternative<RandomUniform>(node.op);
  if (!uniform && !std::holds_alternative<RandomNormal>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = linear_tactic(query, kRandomRunner, uniform ? "cuda_random_uniform" : "cuda_random_normal");
    t.inputs.resize(node.op_input_count());
    t.outputs[0] = {type, kLinear};
    t.support = Tail::list(query, t.outputs[0], t.inputs);
    if (!is_kernel_float(type)) t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_random(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Op& op = query.layer().op;
  const Dim count = element_count(output_shape(query));
  KernelBuilder b = start_kernel(query, tactic, "random", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid[0] = ceil_div(count, Dim(256));
  b.global(device_text::random::kPhilox);
  const auto number = [](double x) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", x);
    return "(double)" + std::string(text);
  };
  const auto* uniform = std::get_if<RandomUniform>(&op);
  const auto* normal = std::get_if<RandomNormal>(&op);
  const auto seed = static_cast<uint64_t>(uniform != nullptr ? uniform->seed : normal->seed);
  b.line("const idx at = (idx)blockIdx.x * 256 + threadIdx.x;\nif (at >= " + b.number(count) +
         ") return;\nu32 words[4];\nphilox(" + std::to_string(seed) + "ull, at, words);");
  if (uniform != nullptr) {
    const auto low = static_cast<double>(uniform->low);
    b.line("const double value = " + number(low) + " + " + number(static_cast<double>(uniform->high) - low) +
           " * ((double)(words[0] >> 8) * (1. / 16777216.));");
  } else {
    b.line(
        "const double u = ((double)words[0] + 1) * (1. / 4294967296.), v = (double)words[1] * (1. / "
        "4294967296.);\nconst double value = " +
        number(static_cast<double>(normal->mean)) + " + " + number(static_cast<double>(normal->scale)) +
        " * (sqrt(-2 * log(u)) * cos(6.283185307179586476925 * v));");
  }
  b.line("float result[1] = {(float)value};\nfinish1(at, result);");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily random_family() {
  return {kRandomRunner, list_random, generate_random};
}

}  // namespace lathe::cuda
