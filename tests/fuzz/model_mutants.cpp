// SPDX-License-Identifier: Apache-2.0
#include "model_mutants.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.h"
#include "builder/builder.h"
#include "onnx/test_model.h"
#include "random.h"
#include "run_engine.h"
#include "sources.h"

namespace fuzz {
namespace {

using namespace lathe;
using onnx::WireLocation;
using onnx::WireReader;
using onnx::WireType;

// --- the message tree of a model

enum class Message : uint8_t {
  Model,
  Opset,
  Graph,
  Node,
  Attribute,
  Tensor,
  ValueInfo,
  Type,
  TensorType,
  Shape,
  Dim
};

struct Field {
  uint32_t number = 0;
  WireType type = WireType::Varint;
  int64_t integer = 0;  // also the bits of a fixed number
  std::string bytes;
  std::optional<Message> message;
  std::vector<Field> fields;  // of the message
};

std::optional<Message> inner_message(Message outer, uint32_t field) {
  static const std::map<std::pair<Message, uint32_t>, Message> known = {
      {{Message::Model, 7}, Message::Graph},      {{Message::Model, 8}, Message::Opset},
      {{Message::Graph, 1}, Message::Node},       {{Message::Graph, 5}, Message::Tensor},
      {{Message::Graph, 11}, Message::ValueInfo}, {{Message::Graph, 12}, Message::ValueInfo},
      {{Message::Node, 5}, Message::Attribute},   {{Message::Attribute, 5}, Message::Tensor},
      {{Message::ValueInfo, 2}, Message::Type},   {{Message::Type, 1}, Message::TensorType},
      {{Message::TensorType, 2}, Message::Shape}, {{Message::Shape, 1}, Message::Dim}};
  const auto found = known.find({outer, field});
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Field> read_fields(std::span<const std::byte> bytes, Message message) {
  const WireLocation where{.field = "model", .file_begin = bytes.data()};
  std::vector<Field> fields;
  for (WireReader reader(bytes, where); reader.next();) {
    Field field{.number = reader.field(), .type = reader.type()};
    if (field.type == WireType::Varint) {
      field.integer = reader.int64();
    } else if (field.type == WireType::Fixed32) {
      const float value = reader.float32();
      std::memcpy(&field.integer, &value, sizeof value);
    } else {
      const auto inner = reader.bytes();
      field.message = inner_message(message, field.number);
      if (field.message)
        field.fields = read_fields(inner, *field.message);
      else
        field.bytes.assign(reinterpret_cast<const char*>(inner.data()), inner.size());
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string write_fields(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    if (field.type == WireType::Varint) {
      onnx::put_int(out, field.number, field.integer);
    } else if (field.type == WireType::Fixed32) {
      onnx::put_key(out, field.number, WireType::Fixed32);
      out.append(reinterpret_cast<const char*>(&field.integer), 4);
    } else {
      onnx::put_bytes(out, field.number, field.message ? write_fields(field.fields) : field.bytes);
    }
  }
  return out;
}

// --- changes

const std::vector<std::string> kOperators = {"Abs",
                                             "Add",
                                             "AffineGrid",
                                             "And",
                                             "ArgMax",
                                             "AveragePool",
                                             "BatchNormalization",
                                             "Bernoulli",
                                             "BitCast",
                                             "Cast",
                                             "CausalConvWithState",
                                             "Ceil",
                                             "Clip",
                                             "Col2Im",
                                             "Compress",
                                             "Concat",
                                             "Constant",
                                             "ConstantOfShape",
                                             "Conv",
                                             "ConvTranspose",
                                             "CumProd",
                                             "CumSum",
                                             "DFT",
                                             "DeformConv",
                                             "DepthToSpace",
                                             "DequantizeLinear",
                                             "Det",
                                             "Div",
                                             "Dropout",
                                             "Einsum",
                                             "Elu",
                                             "Equal",
                                             "Erf",
                                             "Exp",
                                             "Expand",
                                             "EyeLike",
                                             "Flatten",
                                             "Floor",
                                             "GRU",
                                             "Gather",
                                             "GatherElements",
                                             "GatherND",
                                             "Gemm",
                                             "GlobalAveragePool",
                                             "GlobalMaxPool",
                                             "Greater",
                                             "GridSample",
                                             "GroupNormalization",
                                             "HannWindow",
                                             "HardSigmoid",
                                             "HardSwish",
                                             "Identity",
                                             "InstanceNormalization",
                                             "LRN",
                                             "LSTM",
                                             "LayerNormalization",
                                             "LeakyRelu",
                                             "Less",
                                             "LinearAttention",
                                             "Log",
                                             "LogSoftmax",
                                             "LpNormalization",
                                             "MatMul",
                                             "MatMulInteger",
                                             "Max",
                                             "MaxPool",
                                             "MaxRoiPool",
                                             "MaxUnpool",
                                             "Mean",
                                             "MelWeightMatrix",
                                             "Min",
                                             "Mod",
                                             "Mul",
                                             "Multinomial",
                                             "Neg",
                                             "NegativeLogLikelihoodLoss",
                                             "NonMaxSuppression",
                                             "NonZero",
                                             "Not",
                                             "OneHot",
                                             "Or",
                                             "PRelu",
                                             "Pad",
                                             "Pow",
                                             "QuantizeLinear",
                                             "RNN",
                                             "Range",
                                             "Reciprocal",
                                             "ReduceL2",
                                             "ReduceLogSumExp",
                                             "ReduceMax",
                                             "ReduceMean",
                                             "ReduceMin",
                                             "ReduceProd",
                                             "ReduceSum",
                                             "ReduceSumSquare",
                                             "Relu",
                                             "Reshape",
                                             "Resize",
                                             "ReverseSequence",
                                             "RoiAlign",
                                             "Round",
                                             "STFT",
                                             "ScatterElements",
                                             "ScatterND",
                                             "Selu",
                                             "SequenceAt",
                                             "SequenceConstruct",
                                             "SequenceErase",
                                             "SequenceInsert",
                                             "SequenceLength",
                                             "Shape",
                                             "Sigmoid",
                                             "Sign",
                                             "Size",
                                             "Slice",
                                             "Softmax",
                                             "SoftmaxCrossEntropyLoss",
                                             "Softplus",
                                             "SpaceToDepth",
                                             "Split",
                                             "SplitToSequence",
                                             "Sqrt",
                                             "Squeeze",
                                             "Sub",
                                             "Sum",
                                             "Tanh",
                                             "TensorScatter",
                                             "Tile",
                                             "TopK",
                                             "Transpose",
                                             "Trilu",
                                             "Unique",
                                             "Unsqueeze",
                                             "Upsample",
                                             "Where",
                                             "Xor"};

// value * factor + addend, modulo 2^64.
int64_t wrapped(int64_t value, int64_t factor, int64_t addend) {
  return static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(factor) +
                              static_cast<uint64_t>(addend));
}

int64_t other_integer(int64_t value, Random& random) {
  return random.pick<int64_t>({0,
                               1,
                               -1,
                               2,
                               3,
                               4,
                               5,
                               7,
                               8,
                               16,
                               wrapped(value, 1, 1),
                               wrapped(value, 1, -1),
                               wrapped(value, 2, 0),
                               wrapped(value, -1, 0),
                               100,
                               65537,
                               int64_t{1} << 31,
                               (int64_t{1} << 31) - 1,
                               INT64_MAX,
                               INT64_MIN});
}

class Mutator {
 public:
  Mutator(std::vector<Field>& model, Random& random) : random_(random) { collect(model, Message::Model); }

  void change() {
    const int64_t kind = random_.below(10);
    if (kind < 2) return change_operand();
    if (kind == 2) return change_operator();
    if (kind == 3) return change_opset();
    if (kind < 6) return change_attribute();
    if (kind < 8) return change_dim();
    change_tensor();
  }

 private:
  void collect(std::vector<Field>& fields, Message message) {
    lists_[message].push_back(&fields);
    for (Field& field : fields) {
      if (field.message) collect(field.fields, *field.message);
      if (message == Message::Node && (field.number == 1 || field.number == 2)) names_.push_back(field.bytes);
    }
  }
  std::vector<Field>* some(Message message) {
    auto& all = lists_[message];
    return all.empty() ? nullptr : random_.pick(all);
  }
  // A field of the message with one of the numbers.
  Field* field_of(std::vector<Field>* fields, std::initializer_list<uint32_t> numbers) {
    std::vector<Field*> found;
    if (fields != nullptr)
      for (Field& f : *fields)
        if (std::find(numbers.begin(), numbers.end(), f.number) != numbers.end()) found.push_back(&f);
    return found.empty() ? nullptr : random_.pick(found);
  }

  void change_operand() {
    std::vector<Field>* node = some(Message::Node);
    Field* operand = field_of(node, {1, 1, 2});
    if (operand == nullptr) return;
    if (random_.chance(0.15))
      operand->bytes.clear();
    else if (random_.chance(0.1))
      node->insert(node->begin(), Field(*operand));
    else
      operand->bytes = random_.pick(names_);
  }
  void change_operator() {
    if (Field* op = field_of(some(Message::Node), {4})) op->bytes = random_.pick(kOperators);
  }
  void change_opset() {
    if (Field* version = field_of(some(Message::Opset), {2})) version->integer = 7 + random_.below(16);
  }
  void change_attribute() {
    std::vector<Field>* attribute = some(Message::Attribute);
    Field* value = field_of(attribute, {2, 3, 4, 8, 1});
    if (value == nullptr) return;
    if (value->number == 8 && random_.chance(0.3))  // an element more
      attribute->push_back(Field(*value));
    else if (value->number == 8 && random_.chance(0.15))
      attribute->erase(attribute->begin() + (value - attribute->data()));
    else if (value->type == WireType::Varint)
      value->integer = other_integer(value->integer, random_);
    else if (value->type == WireType::Fixed32)
      value->integer =
          random_.pick<int64_t>({0, 0x3f800000, 0xbf800000, 0x7f800000, 0x7fc00000, 0x4f000000, 1});
    else
      value->bytes = random_.pick<std::string>({"", "linear", "cubic", "SAME_UPPER", "SAME_LOWER", "VALID",
                                                "axis", "axes", "mul", "ij->ji", "ii->i", "...,...->...",
                                                "reflect", "edge", "wrap", "perm", "pads"});
  }
  // A number becomes another or a symbol, a symbol becomes another or a number; or the rank changes.
  void change_dim() {
    if (random_.chance(0.15)) {
      std::vector<Field>* shape = some(Message::Shape);
      if (shape == nullptr || shape->empty()) return;
      if (random_.chance(0.5))
        shape->pop_back();
      else
        shape->push_back(Field(shape->front()));
      return;
    }
    if (random_.chance(0.15)) {
      if (Field* type = field_of(some(Message::TensorType), {1})) type->integer = 1 + random_.below(22);
      return;
    }
    std::vector<Field>* dim = some(Message::Dim);
    if (dim == nullptr) return;
    dim->clear();
    if (random_.chance(0.4))
      dim->push_back({.number = 2,
                      .type = WireType::Bytes,
                      .bytes = random_.pick<std::string>({"N", "S", "M", "K", "H", "z"})});
    else
      dim->push_back({.number = 1,
                      .integer = random_.pick<int64_t>(
                          {0, 1, 2, 3, 5, 7, 16, 31, 1000, -1, int64_t{1} << 31, INT64_MAX})});
  }
  void change_tensor() {
    std::vector<Field>* tensor = some(Message::Tensor);
    Field* field = field_of(tensor, {1, 1, 2, 9, 9});
    if (field == nullptr) return;
    if (field->number == 1)
      field->integer = other_integer(field->integer, random_);
    else if (field->number == 2)
      field->integer = 1 + random_.below(22);
    else if (field->bytes.size() >= 8 && field->bytes.size() <= 64 && field->bytes.size() % 8 == 0)
      change_index(field->bytes);
    else if (!field->bytes.empty())
      field->bytes.resize(field->bytes.size() / 2);
  }
  // Small tensors are mostly shapes, axes and indices.
  void change_index(std::string& bytes) {
    const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(bytes.size() / 8))) * 8;
    int64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    value = other_integer(value, random_);
    std::memcpy(bytes.data() + at, &value, 8);
  }

  Random& random_;
  std::map<Message, std::vector<std::vector<Field>*>> lists_;
  std::vector<std::string> names_;
};

// --- profiles

int64_t some_extent(Random& random) {
  return random.pick<int64_t>({0, 1, 1, 2, 2, 3, 3, 4, 7, 13, 16, 31, 64, 1000});
}

// One range per symbol, mostly; sometimes each input has its own opinion, and sometimes ranges are extreme.
OptimizationProfile random_profile(const Network& network, Random& random) {
  std::map<std::string, std::array<int64_t, 3>> ranges;
  OptimizationProfile profile;
  const auto range_of = [&](const Dim& dim) -> std::array<int64_t, 3> {
    if (dim.is_constant()) return {dim.value(), dim.value(), dim.value()};
    std::array<int64_t, 3> range = {some_extent(random), some_extent(random), some_extent(random)};
    std::sort(range.begin(), range.end());
    if (random.chance(0.03)) range[2] = random.pick<int64_t>({65537, int64_t{1} << 31, int64_t{1} << 40});
    return random.chance(0.95) ? ranges.emplace(dim.to_string(), range).first->second : range;
  };
  const auto add = [&](std::map<std::string, ShapeRange, std::less<>>& to, const std::string& name,
                       const Shape& dims) {
    ShapeRange shape;
    for (const Dim& dim : dims) {
      const auto range = range_of(dim);
      shape.min.push_back(range[0]);
      shape.opt.push_back(range[1]);
      shape.max.push_back(range[2]);
    }
    to[name] = shape;
  };
  for (const TensorInfo& input : network.inputs()) {
    if (!is_static(input.shape)) add(profile.shapes, input.name, input.shape);
    if (input.contents) add(profile.values, input.name, *input.contents);
  }
  return profile;
}

// Work at opt shapes that a level-0 build or a run would spend seconds on.
bool is_large(const Graph& graph, const OptimizationProfile& profile, const std::vector<TensorInfo>& inputs) {
  SymbolValues opt;
  for (const auto& [symbol, range] : symbol_ranges(inputs, profile)) opt[symbol] = range.opt;
  double elements = 0;
  for (const NodeId id : graph.order())
    for (const ValueId v : graph.node(id).outputs) {
      if (v == kNoValue) continue;
      double count = 1;
      SymbolRanges now;
      for (const auto& [symbol, value] : opt) now[symbol] = {value, value, value};
      for (const Dim& d : graph.value(v).shape)
        count *= static_cast<double>(std::max<int64_t>(0, d.bounds(now).high));
      elements += count;
    }
  return elements > 4e6;
}

struct Models {
  explicit Models(int threads) : backend(open_backend({.threads = threads})), builder(backend, quiet) {}

  NullObserver quiet;
  std::shared_ptr<const Backend> backend;
  Builder builder;
  std::vector<std::vector<Field>> trees;
};

Outcome run_case(Models& models, int64_t n, const std::string& keep) {
  Random random(static_cast<uint64_t>(n));
  std::vector<Field> tree = random.pick(models.trees);
  const int64_t changes = random.pick<int64_t>({0, 1, 1, 1, 2, 2, 3});
  for (int64_t i = 0; i < changes; ++i) Mutator(tree, random).change();
  const std::string bytes = write_fields(tree);
  if (!keep.empty()) write_file_atomically(keep, bytes);
  const Network network = models.builder.parse_onnx(onnx::as_bytes(bytes));
  const OptimizationProfile profile = complete_profile(network.inputs(), random_profile(network, random));
  if (is_large(*network.graph, profile, network.inputs())) return Outcome::Refused;
  const BuildOptions options{
      .profiles = {profile}, .batch_part = random.chance(0.2) ? 1 : 0, .optimization_level = 0};
  run_engine(*models.builder.build(network, options), random);
  return Outcome::Accepted;
}

}  // namespace

Case prepare_model_mutants(const Setup& setup) {
  const auto models = std::make_shared<Models>(setup.threads);
  for (const Source& source : source_models())
    models->trees.push_back(read_fields(onnx::as_bytes(source.onnx), Message::Model));
  return [models, setup](int64_t n) { return run_case(*models, n, setup.keep); };
}

}  // namespace fuzz
