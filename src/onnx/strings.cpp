// SPDX-License-Identifier: Apache-2.0
#include "onnx/strings.h"

#include <algorithm>
#include <array>

#include "ir/op.h"
#include "ir/strings.h"
#include "plugin/built_in.h"

namespace lathe::onnx {

namespace {

// Inputs `first` to `last` of an operator are the elements that it moves.
struct Mover {
  std::string_view op_type;
  size_t first = 0, last = 0;
  bool gives_strings = true;
  std::string_view domain = {};
};

constexpr size_t kAll = 4096;
constexpr std::array kMovers = {Mover{"ArrayFeatureExtractor", 0, 0, true, kMlDomain},
                                Mover{"Compress"},
                                Mover{"Concat", 0, kAll},
                                Mover{"Expand"},
                                Mover{"Flatten"},
                                Mover{"Gather"},
                                Mover{"GatherElements"},
                                Mover{"GatherND"},
                                Mover{"Reshape"},
                                Mover{"ReverseSequence"},
                                Mover{"Shape", 0, 0, false},
                                Mover{"Size", 0, 0, false},
                                Mover{"Slice"},
                                Mover{"Split"},
                                Mover{"Squeeze"},
                                Mover{"Tile"},
                                Mover{"Transpose"},
                                Mover{"Unsqueeze"},
                                Mover{"Where", 1, 2}};

const Mover* find_mover(std::string_view domain, std::string_view op_type) {
  const auto it = std::ranges::find_if(
      kMovers, [&](const Mover& m) { return m.op_type == op_type && m.domain == domain; });
  return it == kMovers.end() ? nullptr : it;
}

Shape shape_of_strings(const NodeImport& node, ValueId strings) {
  const Shape shape = node.shape_of(strings);
  return {shape.begin(), shape.end() - 1};
}

Tensor list_tensor(const std::vector<std::string>& strings) {
  const std::vector<std::string_view> views(strings.begin(), strings.end());
  return strings_tensor({static_cast<int64_t>(views.size())}, views);
}

// The list of all strings of the inputs (count, bytes), and for each input the numbers of its strings in it.
class StringList {
 public:
  StringList(NodeImport& node, size_t first, size_t last) : node_(node) {
    for (size_t i = first; i <= last; ++i) bytes_ = max(bytes_, node.shape_of(string_input(node, i)).back());
    for (size_t i = first; i <= last; ++i) add(node.in(i));
    list_ = rows_.size() == 1 ? rows_[0] : node.add(Concat{.axis = 0}, rows_, "list");
  }
  const Values& numbers() const { return numbers_; }
  ValueId picked(ValueId numbers) {
    const ValueId strings = node_.add(Gather{.axis = 0}, {list_, numbers}, "strings");
    node_.builder().mark_strings(strings);
    return strings;
  }

 private:
  void add(ValueId strings) {
    const Shape shape = shape_of_strings(node_, strings);
    const Dim count = element_count(shape), bytes = node_.shape_of(strings).back();
    ValueId rows = node_.reshape(strings, {count, bytes}, "rows");
    if (!(bytes == bytes_)) {
      const ValueId zeros = node_.add(
          Fill{.shape = Shape{count, bytes_ - bytes}, .dtype = DType::UInt8, .value = 0}, {}, "zeros");
      rows = node_.add(Concat{.axis = 1}, {rows, zeros}, "longer");
    }
    rows_.push_back(rows);
    const ValueId first = node_.dim_scalar(count_), behind = node_.dim_scalar(count_ + count);
    const ValueId flat =
        node_.add(Range{}, {first, behind, node_.constant(Tensor::scalar_i64(1))}, "numbers");
    numbers_.push_back(node_.reshape(flat, shape, "numbers_of"));
    count_ = count_ + count;
  }

  NodeImport& node_;
  Values rows_, numbers_;
  Dim bytes_ = 1, count_ = 0;
  ValueId list_ = kNoValue;
};

}  // namespace

bool is_string(const NodeImport& node, size_t input) {
  return node.has(input) && node.builder().is_strings(node.in(input));
}

ValueId string_input(const NodeImport& node, size_t input) {
  const ValueId id = node.in(input);
  if (!is_string(node, input)) node.fail("input " + std::to_string(input) + " is no tensor of strings");
  return id;
}

ValueId strings_constant(NodeImport& node, const std::vector<std::string>& strings, std::string_view suffix) {
  return node.constant(list_tensor(strings), suffix);
}

Values add_built_in(NodeImport& node, std::string_view name, const std::vector<PluginField>& fields,
                    const Values& inputs, bool gives_strings, size_t outputs, std::string_view suffix) {
  const PluginIdentity identity{std::string(name), "", std::string(plugin::kBuiltInNamespace)};
  const auto code = plugin::built_in_operator(identity, plugin_fields_text(fields));
  check(code != nullptr, "a built-in operator is not there");
  const Values results = node.add_multi(Plugin{.plugin = code->identity().name,
                                               .version = code->identity().version,
                                               .name_space = code->identity().name_space,
                                               .fields = code->serialized_fields(),
                                               .code = code},
                                        inputs, outputs, suffix);
  if (gives_strings) node.builder().mark_strings(results[0]);
  return results;
}

ValueId find_strings(NodeImport& node, ValueId strings, const std::vector<std::string>& keys) {
  return add_built_in(node, "StringFind", {}, {strings, strings_constant(node, keys, "keys")}, false, 1,
                      "number")[0];
}

ValueId pick_strings(NodeImport& node, const std::vector<std::string>& list, ValueId numbers) {
  const ValueId strings =
      node.add(Gather{.axis = 0}, {strings_constant(node, list, "strings"), numbers}, "picked");
  node.builder().mark_strings(strings);
  return strings;
}

bool moves_strings(std::string_view domain, std::string_view op_type) {
  return find_mover(domain == "ai.onnx" ? std::string_view() : domain, op_type) != nullptr;
}

Values import_moved_strings(NodeImport& node, ImportFunction import) {
  const Mover* mover = find_mover(kMlDomain, node.op_type());
  if (!mover) mover = find_mover({}, node.op_type());
  const size_t last = std::min(mover->last, node.input_count() - 1);
  StringList list(node, mover->first, last);
  Values inputs = node.inputs();
  for (size_t i = mover->first; i <= last; ++i) inputs[i] = list.numbers()[i - mover->first];
  for (const ValueId input : inputs)
    if (input != kNoValue && node.builder().is_strings(input))
      node.fail("it takes strings in an input that says how to move them");
  NodeImport moved = node.with(node.opset(), inputs);
  Values results = import(moved);
  if (!mover->gives_strings) return results;
  for (ValueId& result : results)
    if (result != kNoValue) result = list.picked(result);
  return results;
}

}  // namespace lathe::onnx
