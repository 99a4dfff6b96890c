// SPDX-License-Identifier: Apache-2.0
//
// Tactic skeletons with epilogue operands.
#include "backend/cpu/vector/own_tactic.h"

#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

Tactic typed_tactic(const LayerQuery& query, std::string_view runner, std::string name,
                    const TensorType& input, const TensorType& output) {
  Tactic t = linear_tactic(query, runner, std::move(name));
  t.inputs.resize(query.layer().op_input_count());
  if (!t.inputs.empty()) t.inputs[0] = input;
  t.outputs[0] = output;
  t.support = Epilogue::list(query, output, t.inputs);
  return t;
}

Support operands_in_vectors(const LayerQuery& query, DType type, const std::vector<TensorType>& inputs) {
  for (size_t i = 0; i < query.layer().op_input_count(); ++i)
    if (const DType operand = i == 0 ? type : inputs[i].dtype;
        query.layer().has_op_input(i) && !is_vector_float(operand))
      return no_vector_kernel(operand);
  return {};
}

}  // namespace lathe::cpu
