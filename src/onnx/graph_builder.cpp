// SPDX-License-Identifier: Apache-2.0
#include "onnx/graph_builder.h"

#include <algorithm>
#include <array>

#include "ops/build.h"

namespace lathe::onnx {

namespace {

// Nodes on constants up to this size are computed while importing; bigger ones (weights) are the folding
// pass's.
constexpr int64_t kFoldElements = 4096;

bool small_and_static(const std::vector<ResultInfo>& results) {
  return std::all_of(results.begin(), results.end(), [](const ResultInfo& r) {
    return is_static(r.shape) && element_count(to_extents(r.shape)) <= kFoldElements;
  });
}

// Quantized constants stay as they are: their integer form is what the quantized kernels want. A loop may run
// for hours. A plugin may give another result each time.
bool may_fold(const Op& op) {
  return bodies_of(op).empty() && !std::holds_alternative<Plugin>(op) &&
         !std::holds_alternative<QuantizeLinear>(op) && !std::holds_alternative<DequantizeLinear>(op);
}

Tensor tensor_of_dims(DType dtype, const Extents& extents, const Shape& dims) {
  std::vector<double> values;
  for (const Dim& d : dims) values.push_back(static_cast<double>(d.value()));
  if (dtype != DType::Int64) return Tensor::from_doubles(dtype, extents, values);
  std::vector<int64_t> exact;
  for (const Dim& d : dims) exact.push_back(d.value());
  return Tensor::from<int64_t>(extents, exact);
}

}  // namespace

bool is_data_dependent(const Shape& dims) {
  return std::any_of(dims.begin(), dims.end(),
                     [](const Dim& d) { return !d.data_dependent_names().empty(); });
}

std::string GraphBuilder::unique_name(std::string_view wanted) {
  std::string name(wanted);
  for (int i = 1; !names_.insert(name).second; ++i) name = std::string(wanted) + "_" + std::to_string(i);
  return name;
}

ValueId GraphBuilder::add_constant(std::string_view name, Tensor tensor) {
  return editor_.add_constant(std::string(name), std::move(tensor));
}

ValueId GraphBuilder::add_identity(std::string_view name, ValueId value) {
  const std::vector<Origin> origins = {{std::string(name), "Identity"}};
  return append_node(editor_, unique_name(name), Pointwise{.code = PointwiseCode::Identity}, {value}, origins,
                     {std::string(name)})[0];
}

void GraphBuilder::add_output(const std::string& name, ValueId id) {
  if (value(id).producer == kNoNode || graph_.is_output(id)) {
    if (const auto other = graph_.find_value(name))
      editor_.rename_value(*other, unique_name(name + "_source"));
    id = add_identity(name, id);
  }
  if (value(id).name != name) editor_.rename_value(id, name);
  editor_.mark_output(id);
}

bool GraphBuilder::fold(const Op& op, const Values& inputs, const std::vector<ResultInfo>& results,
                        std::string_view name, Values& out) {
  if (!may_fold(op) || !small_and_static(results)) return false;
  std::vector<Tensor> tensors;
  for (const ValueId id : inputs) {
    if (id == kNoValue) {
      tensors.emplace_back();
      continue;
    }
    const Value& v = value(id);
    if (!v.is_constant() || v.constant.size() > 16 * kFoldElements) return false;
    tensors.push_back(v.constant);
  }
  const SymbolValues no_symbols;
  if (std::holds_alternative<ShapeTensor>(op) && !is_static(std::get<ShapeTensor>(op).dims)) return false;
  EvaluateContext context{.inputs = tensors, .output_count = results.size(), .symbols = &no_symbols};
  for (Tensor& t : find_op_def(op).evaluate(op, context)) out.push_back(add_constant(name, std::move(t)));
  return true;
}

Values GraphBuilder::add(std::string_view name, Op op, Values inputs, const std::vector<Origin>& origins,
                         size_t output_count) {
  std::vector<const Value*> values;
  for (const ValueId id : inputs) values.push_back(id == kNoValue ? nullptr : &value(id));
  const InferContext context{.node_name = name, .inputs = values, .output_count = output_count};
  const std::vector<ResultInfo> results = infer(op, {}, context);
  Values out;
  if (fold(op, inputs, results, std::string(name) + "_value", out)) return out;
  if (results.size() == 1 && results[0].contents && results[0].shape.size() <= 1) {
    const ResultInfo& r = results[0];
    if (is_static(*r.contents) && is_static(r.shape)) {
      return {add_constant(std::string(name) + "_value",
                           tensor_of_dims(r.dtype, to_extents(r.shape), *r.contents))};
    }
    if (r.dtype == DType::Int64 && !is_data_dependent(*r.contents) && !inputs.empty()) {
      op = ShapeTensor{.dims = *r.contents, .scalar = r.shape.empty()};
      inputs.clear();
    }
  }
  return append_node(editor_, unique_name(name), std::move(op), std::move(inputs), origins, {}, output_count);
}

}  // namespace lathe::onnx
