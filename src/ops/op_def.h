// SPDX-License-Identifier: Apache-2.0
//
// What an operator means: legality and shape rule, reference evaluation, and cost. One family per file;
// ops.cpp lists all. Import, folding, the interpreter, the last-resort tactic and the tests all use these.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"

namespace lathe {

// What is known of an output before anything runs.
struct ResultInfo {
  DType dtype = DType::Undefined;
  Shape shape;
  std::optional<Shape> contents = std::nullopt;  // small integer tensors whose elements are known dims
};

// Elements of a small integer tensor as dims: from a constant or from `contents`.
std::optional<Shape> contents_of(const Value& value);

struct InferContext {
  std::string_view node_name;
  std::span<const Value* const> inputs;  // null: absent; only the operator's own inputs
  size_t output_count = 1;

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const Value& input(size_t i) const;  // throws Input: "<node> needs input i"
  int64_t rank(size_t i) const { return static_cast<int64_t>(input(i).shape.size()); }
  std::optional<Shape> contents(size_t i) const;  // contents_of() the input
  // A fresh name for a data-dependent dim: "<node>.<suffix>".
  std::string dim_name(std::string_view suffix) const;
};

// How the bodies of If, Loop and Scan run where such a node is evaluated. The tensors that go into a body and
// come out of it may lie in memory that only the runner reads: the node's evaluation asks it for the rest.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  // A body's results, in the order of its outputs. `symbols` are those of the graph around it.
  virtual std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs,
                                  const SymbolValues& symbols) const = 0;
  // The tensor in memory of the host, where it is unless said otherwise.
  virtual Tensor on_host(const Tensor& tensor) const;
  // Slice number `index` along `axis`, without that dim.
  virtual Tensor slice(const Tensor& tensor, size_t axis, int64_t index) const;
  // Tensors of the same extents but for dim `axis`, one behind the other along it.
  virtual Tensor join(const std::vector<Tensor>& parts, size_t axis) const;
};

struct EvaluateContext {
  std::span<const Tensor> inputs;  // a default Tensor: absent
  size_t output_count = 1;
  const SymbolValues* symbols = nullptr;  // values of the dims in attributes
  ThreadPool* pool = nullptr;             // null: one thread
  const BodyRunner* bodies = nullptr;     // null: node by node, on the reference

  bool has(size_t i) const { return i < inputs.size() && static_cast<bool>(inputs[i]); }
  const Tensor& input(size_t i) const { return inputs[i]; }
  Extents extents(const Shape& shape) const;
  void parallel_for(int64_t total, int64_t grain, const std::function<void(int64_t, int64_t)>& body) const;
};

// Contents of more elements are not followed: shape computations stay far below this; data that happens to
// be integer does not become dims.
constexpr int64_t kMaxContents = 1024;

// Operations of one run of a layer at concrete extents: multiply and add count as two.
struct CostContext {
  std::span<const Extents> inputs, outputs;
};

// Costs that several operators have: movements compute nothing.
double no_flops(const Op& op, const CostContext& context);
double one_per_input(const Op& op, const CostContext& context);

struct OpDef {
  std::string_view name;  // Op's kName
  size_t index = 0;       // of the alternative in Op
  std::vector<ResultInfo> (*infer)(const Op&, const InferContext&) = nullptr;
  std::vector<Tensor> (*evaluate)(const Op&, const EvaluateContext&) = nullptr;
  double (*flops)(const Op&, const CostContext&) = nullptr;  // null: one per output element
};

// Typed functions -> OpDef: op_def<Conv, infer_conv, evaluate_conv>().
template <class T, auto Infer, auto Evaluate>
OpDef op_def(double (*flops)(const Op&, const CostContext&) = nullptr) {
  return {T::kName, Op(T{}).index(),
          [](const Op& op, const InferContext& c) -> std::vector<ResultInfo> {
            return Infer(std::get<T>(op), c);
          },
          [](const Op& op, const EvaluateContext& c) -> std::vector<Tensor> {
            return Evaluate(std::get<T>(op), c);
          },
          flops};
}

// The definition of an operator; every alternative of Op has one.
const OpDef& find_op_def(const Op& op);
const std::vector<OpDef>& all_op_defs();  // ops.cpp

// Infers the results of a node with its epilogue; the context holds all of the node's inputs, the epilogue's
// operands last. Errors name the node, the operator, shapes and types.
std::vector<ResultInfo> infer(const Op& op, const PointwiseProgram& epilogue, const InferContext& context);
// Evaluates a node with its epilogue: inputs are all of the node's inputs.
std::vector<Tensor> evaluate_node(const Node& node, const EvaluateContext& context, DType output_dtype);
double node_flops(const Node& node, const CostContext& context);

}  // namespace lathe
