// SPDX-License-Identifier: Apache-2.0
#include "onnx/import_node.h"

#include <limits>

namespace lathe::onnx {

namespace {

std::string_view type_name(AttributeProto::Type type) {
  switch (type) {
    case AttributeProto::Type::Float:
      return "float";
    case AttributeProto::Type::Int:
      return "int";
    case AttributeProto::Type::String:
      return "string";
    case AttributeProto::Type::Tensor:
      return "tensor";
    case AttributeProto::Type::Graph:
      return "graph";
    case AttributeProto::Type::Floats:
      return "list of floats";
    case AttributeProto::Type::Ints:
      return "list of ints";
    case AttributeProto::Type::Strings:
      return "list of strings";
    default:
      return "other";
  }
}

}  // namespace

NodeImport::NodeImport(Setup setup)
    : setup_(std::move(setup)), origins_{{setup_.name, std::string(setup_.proto.op_type)}} {}

NodeImport NodeImport::with(int64_t opset, Values inputs) const {
  NodeImport other = *this;
  other.setup_.opset = opset;
  other.setup_.inputs = std::move(inputs);
  return other;
}

void NodeImport::fail(const std::string& what) const {
  std::string inputs;
  for (const ValueId id : setup_.inputs) {
    if (!inputs.empty()) inputs += ", ";
    inputs += id < 0 ? "none" : std::string(dtype_name(dtype_of(id))) + to_string(shape_of(id));
  }
  throw_input_error(what + " (inputs: " + (inputs.empty() ? "none" : inputs) + ")");
}

void NodeImport::note(const std::string& text) const {
  if (setup_.log) setup_.log->note("node '" + setup_.name + "' (" + std::string(op_type()) + "): " + text);
}

ValueId NodeImport::in(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return setup_.inputs[i];
}

std::optional<Shape> NodeImport::contents(size_t i) const {
  if (!has(i)) return std::nullopt;
  const Value* const v = &value(i);
  const InferContext context{.node_name = setup_.name, .inputs = std::span(&v, 1)};
  return context.contents(0);
}

std::optional<Ints> NodeImport::known_ints(size_t i) const {
  if (const Tensor t = constant(i)) {
    if (is_float(t.dtype())) return std::nullopt;
    return t.to_int64s();
  }
  const std::optional<Shape> dims = contents(i);
  if (!dims || !is_static(*dims)) return std::nullopt;
  return to_extents(*dims);
}

std::optional<Ints> NodeImport::ints_or_input(std::string_view attribute, size_t i) const {
  if (auto list = ints(attribute)) return list;
  if (!has(i)) return std::nullopt;
  if (auto list = known_ints(i)) return list;
  throw_unsupported("its " + std::string(attribute) +
                    " are computed while the model runs; they must be constant");
}

const AttributeProto* NodeImport::find(std::string_view name) const {
  for (const AttributeProto& a : setup_.proto.attributes) {
    if (a.name != name) continue;
    if (a.ref_attr_name.empty()) return &a;
    if (!setup_.function_attributes)
      fail("attribute '" + std::string(name) + "' refers to a function's, outside of a function");
    const auto it = setup_.function_attributes->find(a.ref_attr_name);
    return it == setup_.function_attributes->end() ? nullptr : it->second;
  }
  return nullptr;
}

const AttributeProto& NodeImport::typed(const AttributeProto& a, AttributeProto::Type type) const {
  if (a.type != type) {
    fail("attribute '" + std::string(a.name) + "' is a " + std::string(type_name(a.type)) + " instead of a " +
         std::string(type_name(type)));
  }
  return a;
}

int64_t NodeImport::integer(std::string_view name, int64_t otherwise) const {
  const AttributeProto* a = find(name);
  return a ? typed(*a, AttributeProto::Type::Int).i : otherwise;
}

int64_t NodeImport::required_integer(std::string_view name) const {
  if (!has_attribute(name)) fail("attribute '" + std::string(name) + "' is missing");
  return integer(name, 0);
}

float NodeImport::real(std::string_view name, float otherwise) const {
  const AttributeProto* a = find(name);
  return a ? typed(*a, AttributeProto::Type::Float).f : otherwise;
}

std::string NodeImport::text(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* a = find(name);
  return std::string(a ? typed(*a, AttributeProto::Type::String).s : otherwise);
}

// An empty list may come without any value, and then its type is all that says which list it is.
std::optional<Ints> NodeImport::ints(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a) return std::nullopt;
  return typed(*a, AttributeProto::Type::Ints).ints;
}

std::optional<std::vector<float>> NodeImport::reals(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a) return std::nullopt;
  return typed(*a, AttributeProto::Type::Floats).floats;
}

std::vector<std::string> NodeImport::texts(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a) return {};
  const auto& strings = typed(*a, AttributeProto::Type::Strings).strings;
  return {strings.begin(), strings.end()};
}

std::optional<Tensor> NodeImport::tensor(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a) return std::nullopt;
  return setup_.tensors.load(*typed(*a, AttributeProto::Type::Tensor).t);
}

std::optional<Tensor> NodeImport::string_tensor(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a || typed(*a, AttributeProto::Type::Tensor).t->data_type != kStringType) return std::nullopt;
  return TensorSource::load_strings(*a->t);
}

std::optional<Tensor> NodeImport::sparse_tensor(std::string_view name) const {
  const AttributeProto* a = find(name);
  if (!a) return std::nullopt;
  return setup_.tensors.load(*typed(*a, AttributeProto::Type::SparseTensor).sparse);
}

const GraphProto* NodeImport::graph(std::string_view name) const {
  const AttributeProto* a = find(name);
  return a ? typed(*a, AttributeProto::Type::Graph).g.get() : nullptr;
}

DType NodeImport::element_type(std::string_view name, DType otherwise) const {
  if (!has_attribute(name)) return otherwise;
  const int64_t number = integer(name, 0);
  if (number < 0 || number > 255)
    fail("attribute '" + std::string(name) + "' is " + std::to_string(number) + ", no element type");
  return dtype_from_onnx(static_cast<int32_t>(number), "attribute '" + std::string(name) + "'");
}

Values NodeImport::add_multi(Op op, Values inputs, size_t outputs, std::string_view suffix) {
  const std::string name = suffix.empty() ? setup_.name : setup_.name + "/" + std::string(suffix);
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  return builder().add(name, std::move(op), std::move(inputs), origins_, outputs);
}

ValueId NodeImport::add(Op op, Values inputs, std::string_view suffix) {
  return add_multi(std::move(op), std::move(inputs), 1, suffix)[0];
}

ValueId NodeImport::constant(Tensor tensor, std::string_view suffix) {
  return builder().add_constant(setup_.name + "/" + std::string(suffix), std::move(tensor));
}

ValueId NodeImport::ints_constant(const Ints& values) {
  return constant(Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId NodeImport::scalar(double value, DType dtype) {
  return constant(Tensor::from_doubles(dtype, {}, std::span(&value, 1)));
}

ValueId NodeImport::dim_scalar(const Dim& dim) {
  if (dim.is_constant()) return constant(Tensor::scalar_i64(dim.value()));
  return add(ShapeTensor{.dims = {dim}, .scalar = true}, {}, "dim");
}

ValueId NodeImport::pointwise(PointwiseCode code, Values inputs, float alpha, float beta,
                              std::string_view suffix) {
  return add(Pointwise{.code = code, .alpha = alpha, .beta = beta}, std::move(inputs), suffix);
}

ValueId NodeImport::cast(ValueId v, DType to, std::string_view suffix) {
  return dtype_of(v) == to ? v : add(Cast{.to = to}, {v}, suffix);
}

ValueId NodeImport::reshape(ValueId v, Shape shape, std::string_view suffix) {
  return add(ReshapeOp{.shape = std::move(shape)}, {v}, suffix);
}

ValueId NodeImport::transpose(ValueId v, Ints perm, std::string_view suffix) {
  return add(Transpose{.perm = std::move(perm)}, {v}, suffix);
}

ValueId NodeImport::reduce(ReduceKind kind, ValueId v, Ints axes, bool keepdims, std::string_view suffix) {
  return add(Reduce{.kind = kind, .axes = std::move(axes), .keepdims = keepdims}, {v}, suffix);
}

ValueId NodeImport::slice(ValueId v, int64_t axis, const Dim& start, const Dim& end,
                          std::string_view suffix) {
  return add(Slice{.starts = Shape{start}, .ends = Shape{end}, .axes = {axis}, .steps = {1}}, {v}, suffix);
}

ValueId NodeImport::expand(ValueId v, Shape shape, std::string_view suffix) {
  return add(Expand{.shape = std::move(shape)}, {v}, suffix);
}

}  // namespace lathe::onnx
