// SPDX-License-Identifier: Apache-2.0
//
// ReverseSequence: the first steps of each item, as many as its length says, in reverse. Every element is
// read and written once. A length outside of the steps counts as none or all of them.
#include "backend/cuda/codegen/element_kernel.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kReverseSequenceRunner = "ReverseSequence";

std::vector<Tactic> list_reverse_sequence(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<ReverseSequence>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kReverseSequenceRunner, "cuda_reverse_sequence", {type, kLinear},
                            {type, kLinear});
    if (const Support s = stored(t); !s.ok) t.support = s;
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_reverse_sequence(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<ReverseSequence>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  const size_t batch = axis_of(op.batch_axis, x.size()), time = axis_of(op.time_axis, x.size());
  const int v = own_vector(query, tactic, product(x, std::max(batch, time) + 1, x.size()));
  KernelBuilder b = start_kernel(query, tactic, "reverse_sequence", tactic.outputs[0].dtype);
  begin_elements(b, query, tactic, v);
  const std::string step = "c" + std::to_string(time), steps = b.number(x[time]);
  b.line("const long long said = widen(" + b.input(1, tactic.inputs[1].dtype) + "[c" + std::to_string(batch) +
         "]);\nconst idx length = said < 0 ? 0 : said > " + steps + " ? " + steps + " : (idx)said;\nload(" +
         b.input(0, tactic.inputs[0].dtype) + " + at + (" + step + " < length ? length - 1 - 2 * " + step +
         " : 0) * " + b.number(product(x, time + 1, x.size())) + ", v);");
  return {{end_elements(b, v)}};
}

}  // namespace

GeneratedFamily reverse_sequence_family() {
  return {kReverseSequenceRunner, list_reverse_sequence, generate_reverse_sequence};
}

}  // namespace lathe::cuda
