// SPDX-License-Identifier: Apache-2.0
#include "plugin/operator_code.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "ir/plugin_use.h"
#include "plugin/shapes.h"

namespace lathe::plugin {
namespace {

constexpr int kTextField = 8;

lathe_plugin_field to_abi(const PluginField& field) {
  return {.struct_size = sizeof(lathe_plugin_field),
          .name = field.name.c_str(),
          .type = field.is_text ? kTextField : static_cast<int>(field.value.dtype()),
          .rank = field.is_text ? 0 : field.value.extents().size(),
          .dims = field.value.extents().data(),
          .data = field.value.bytes().data(),
          .bytes = field.value.bytes().size()};
}

PluginField from_abi(const lathe_plugin_field& field) {
  PluginField result{.name = field.name ? field.name : "", .is_text = field.type == kTextField};
  if (result.name.empty()) throw_input_error("it serializes a field without a name");
  const auto dtype = result.is_text ? DType::UInt8 : static_cast<DType>(field.type);
  const auto known =
      std::ranges::any_of(all_dtypes(), [&](const DTypeInfo& info) { return info.dtype == dtype; });
  if (!known || field.rank > LATHE_PLUGIN_MAX_RANK)
    throw_input_error("it serializes field '" + result.name + "' with a type or rank that does not exist");
  Extents extents;
  if (result.is_text)
    extents = {static_cast<int64_t>(field.bytes)};
  else if (field.rank > 0)
    extents.assign(field.dims, field.dims + field.rank);
  if (std::ranges::any_of(extents, [](int64_t e) { return e < 0; }))
    throw_input_error("it serializes field '" + result.name + "' with a negative dim");
  result.value = Tensor::allocate(dtype, extents);
  if (result.value.bytes().size() != field.bytes)
    throw_input_error("it serializes field '" + result.name + "' with " + std::to_string(field.bytes) +
                      " bytes, its type and dims say " + std::to_string(result.value.bytes().size()));
  if (field.bytes > 0) std::memcpy(result.value.mutable_bytes().data(), field.data, field.bytes);
  return result;
}

int format_to_abi(const Format& format) {
  check(format.is_linear() || format == kChannelsLast, "plugins know linear and channels-last memory only");
  return format.is_linear() ? LATHE_PLUGIN_LINEAR : LATHE_PLUGIN_CHANNELS_LAST;
}

std::vector<lathe_plugin_tensor> to_abi(std::span<const PluginOperand> operands) {
  std::vector<lathe_plugin_tensor> tensors;
  for (const PluginOperand& operand : operands) {
    lathe_plugin_tensor& t = tensors.emplace_back();
    t = {.struct_size = sizeof(lathe_plugin_tensor),
         .type = static_cast<int>(operand.dtype),
         .format = format_to_abi(operand.format),
         .rank = operand.extents.size(),
         .data = operand.data};
    check(operand.extents.size() <= LATHE_PLUGIN_MAX_RANK, "a plugin's operand has too many dims");
    std::ranges::copy(operand.extents, t.dims);
  }
  return tensors;
}

std::vector<lathe_plugin_range> to_abi(const std::vector<PluginRange>& ranges) {
  std::vector<lathe_plugin_range> all;
  for (const PluginRange& range : ranges) {
    const PluginOperand operands[] = {range.min, range.opt, range.max};
    const std::vector<lathe_plugin_tensor> tensors = to_abi(operands);
    all.push_back({sizeof(lathe_plugin_range), tensors[0], tensors[1], tensors[2]});
  }
  return all;
}

std::vector<lathe_plugin_tensor> tuned(const std::vector<PluginRange>& ranges) {
  std::vector<lathe_plugin_tensor> all;
  for (const lathe_plugin_range& range : to_abi(ranges)) all.push_back(range.opt);
  return all;
}

// The functions of a library that was compiled with an older header are those that it knows.
lathe_plugin_operator whole(const lathe_plugin_operator& op) {
  lathe_plugin_operator all{};
  std::memcpy(&all, &op, std::min(op.struct_size, sizeof all));
  return all;
}

class OperatorCode final : public PluginCode,
                           public PluginUses,
                           public std::enable_shared_from_this<OperatorCode> {
 public:
  OperatorCode(const lathe_plugin_operator& op, std::shared_ptr<const void> library, std::string_view fields)
      : op_(whole(op)), library_(std::move(library)), identity_(identity_of(op)), fields_(fields) {
    const std::vector<PluginField> values = plugin_fields_from(fields);
    std::vector<lathe_plugin_field> abi;
    for (const PluginField& field : values) abi.push_back(to_abi(field));
    call([&](lathe_plugin_error* error) {
      return op_.create(&op, abi.data(), abi.size(), &instance_, error);
    });
  }
  // One use of `shared`, which makes an instance for it or not.
  OperatorCode(std::shared_ptr<const OperatorCode> shared, const PluginUse& use)
      : op_(shared->op_),
        library_(shared->library_),
        identity_(shared->identity_),
        fields_(shared->fields_),
        tactic_(use.tactic) {
    void* own = nullptr;
    if (op_.attach)
      call([&](lathe_plugin_error* error) { return op_.attach(shared->instance_, &own, error); });
    instance_ = own != nullptr ? own : shared->instance_;
    if (own == nullptr) shared_ = std::move(shared);
    if (!op_.configure) return;
    const auto in = to_abi(use.inputs), out = to_abi(use.outputs);
    try {
      call([&](lathe_plugin_error* error) {
        return op_.configure(instance_, device_number(use.device), in.data(), in.size(), out.data(),
                             out.size(), error);
      });
    } catch (...) {
      end_instance();  // no destructor runs
      throw;
    }
  }
  ~OperatorCode() override { end_instance(); }
  OperatorCode(const OperatorCode&) = delete;
  OperatorCode& operator=(const OperatorCode&) = delete;

  const PluginIdentity& identity() const override { return identity_; }

  std::string serialized_fields() const override {
    if (!op_.serialize) return fields_;
    struct Sink {
      std::vector<PluginField> fields;
      std::string problem;
    } sink;
    const auto add = [](void* to, const lathe_plugin_field* field) {
      auto& s = *static_cast<Sink*>(to);
      try {
        s.fields.push_back(from_abi(*field));
      } catch (const std::exception& error) {
        s.problem = error.what();
      }
    };
    call([&](lathe_plugin_error* error) { return op_.serialize(instance_, add, &sink, error); });
    if (!sink.problem.empty()) fail(sink.problem);
    return plugin_fields_text(sink.fields);
  }

  std::vector<PluginType> infer(std::string_view node, std::span<const PluginType> inputs,
                                size_t output_count) const override {
    ShapeExchange exchange(node);
    std::vector<lathe_plugin_shape> in, out(output_count);
    for (const PluginType& input : inputs) in.push_back(exchange.to_abi(input));
    for (lathe_plugin_shape& shape : out) shape = {.struct_size = sizeof shape};
    call([&](lathe_plugin_error* error) {
      return op_.infer(instance_, in.data(), in.size(), out.data(), out.size(), &exchange.functions(), error);
    });
    std::vector<PluginType> results;
    try {
      for (size_t i = 0; i < out.size(); ++i)
        results.push_back(exchange.from_abi(out[i], "output " + std::to_string(i)));
    } catch (const Error& error) {
      fail(error.what());
    }
    return results;
  }

  bool runs_on(PluginDevice device) const override {
    return (device == PluginDevice::Cpu ? op_.run_cpu : op_.run_cuda) != nullptr;
  }

  bool supports(PluginDevice device, std::span<const PluginOperand> inputs,
                std::span<const PluginOperand> outputs) const override {
    if (!runs_on(device)) return false;
    const auto in = to_abi(inputs), out = to_abi(outputs);
    if (op_.supports)
      return op_.supports(instance_, device_number(device), in.data(), in.size(), out.data(), out.size()) ==
             1;
    const auto linear = [](const PluginOperand& operand) { return operand.format.is_linear(); };
    return std::ranges::all_of(inputs, linear) && std::ranges::all_of(outputs, linear);
  }

  int64_t workspace_bytes(PluginDevice device, std::span<const PluginOperand> inputs,
                          std::span<const PluginOperand> outputs) const override {
    if (!op_.workspace_bytes) return 0;
    const auto in = to_abi(inputs), out = to_abi(outputs);
    const int64_t bytes =
        op_.workspace_bytes(instance_, device_number(device), in.data(), in.size(), out.data(), out.size());
    if (bytes < 0 || bytes > (int64_t{1} << 40))
      fail("it asks for " + std::to_string(bytes) + " bytes of workspace");
    return bytes;
  }

  int64_t work_items(std::span<const PluginOperand> inputs,
                     std::span<const PluginOperand> outputs) const override {
    if (!op_.work_items) return 1;
    const auto in = to_abi(inputs), out = to_abi(outputs);
    const int64_t items = op_.work_items(instance_, in.data(), in.size(), out.data(), out.size());
    if (items < 0) fail("it divides its work into " + std::to_string(items) + " parts");
    return items;
  }

  std::shared_ptr<const PluginCode> attach(const PluginUse& use) const override {
    return std::make_shared<OperatorCode>(shared_from_this(), use);
  }

  std::vector<int64_t> tactics(const PluginUse& use) const override {
    if (!op_.tactics) return {};
    constexpr size_t kMost = 1024;
    const auto in = tuned(use.inputs), out = tuned(use.outputs);
    std::vector<int64_t> tactics(kMost);
    const size_t count = op_.tactics(instance_, device_number(use.device), in.data(), in.size(), out.data(),
                                     out.size(), tactics.data(), tactics.size());
    if (count > kMost)
      fail("it has " + std::to_string(count) + " tactics; more than " + std::to_string(kMost) +
           " are not timed");
    tactics.resize(count);
    std::vector<int64_t> sorted = tactics;
    std::ranges::sort(sorted);
    if (std::ranges::any_of(tactics, [](int64_t t) { return t <= 0; }) ||
        std::ranges::adjacent_find(sorted) != sorted.end())
      fail("its tactics are not different numbers above 0");
    return tactics;
  }

  std::optional<std::string> timing_key() const override {
    if (!op_.timing_key) return std::nullopt;
    std::optional<std::string> key;
    op_.timing_key(
        instance_, [](void* to, const char* text) { *static_cast<std::optional<std::string>*>(to) = text; },
        &key);
    return key;
  }

  bool capturable() const override { return (op_.flags & LATHE_PLUGIN_NOT_CAPTURABLE) == 0; }

  void run(PluginDevice device, const PluginCall& c) const override {
    const auto in = to_abi(c.inputs);
    auto out = to_abi(c.outputs);
    const lathe_plugin_call abi{.struct_size = sizeof(lathe_plugin_call),
                                .inputs = in.data(),
                                .input_count = in.size(),
                                .outputs = out.data(),
                                .output_count = out.size(),
                                .workspace = c.workspace,
                                .begin = c.begin,
                                .end = c.end,
                                .stream = c.stream,
                                .tactic = tactic_};
    const auto function = device == PluginDevice::Cpu ? op_.run_cpu : op_.run_cuda;
    check(function != nullptr, "a plugin runs on a device that it has no code for");
    call([&](lathe_plugin_error* error) { return function(instance_, &abi, error); });
    for (size_t i = 0; i < out.size(); ++i) take_extents(out[i], c.outputs[i], i);
  }

 private:
  static int device_number(PluginDevice device) {
    return device == PluginDevice::Cpu ? LATHE_PLUGIN_CPU : LATHE_PLUGIN_CUDA;
  }

  void end_instance() {
    if (op_.destroy && shared_ == nullptr) op_.destroy(instance_);
  }

  // What a run found, not more than there is room for.
  void take_extents(const lathe_plugin_tensor& found, PluginOperand& output, size_t index) const {
    for (size_t d = 0; d < output.extents.size(); ++d) {
      if (found.dims[d] < 0 || found.dims[d] > output.extents[d])
        fail("output " + std::to_string(index) + " came out with " + std::to_string(found.dims[d]) +
             " in dim " + std::to_string(d) + ", for which there is room for " +
             std::to_string(output.extents[d]));
      output.extents[d] = found.dims[d];
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_input_error("plugin " + identity_.to_string() + ": " + what);
  }

  template <class F>
  void call(F&& function) const {
    lathe_plugin_error error;
    error.text[0] = 0;
    if (function(&error) == 0) return;
    error.text[sizeof error.text - 1] = 0;
    fail(error.text[0] ? error.text : "it failed without saying why");
  }

  lathe_plugin_operator op_;
  std::shared_ptr<const void> library_;
  PluginIdentity identity_;
  std::string fields_;
  void* instance_ = nullptr;
  std::shared_ptr<const OperatorCode> shared_;  // whose instance it is; null: its own
  int64_t tactic_ = 0;
};

}  // namespace

PluginIdentity identity_of(const lathe_plugin_operator& op) {
  return {op.name, op.version, op.name_space ? op.name_space : ""};
}

void check_operator(const lathe_plugin_operator& op) {
  constexpr size_t kFirst = offsetof(lathe_plugin_operator, attach);  // of the first header
  if (op.struct_size != sizeof(lathe_plugin_operator) && op.struct_size != kFirst)
    throw_input_error("an operator's struct has " + std::to_string(op.struct_size) + " bytes instead of " +
                      std::to_string(sizeof(lathe_plugin_operator)) + " or " + std::to_string(kFirst) +
                      ": it was compiled with the header of another version; compile it again");
  if (!op.name || !*op.name || !op.version || !*op.version)
    throw_input_error("an operator has no name or no version");
  const std::string who = "operator " + identity_of(op).to_string();
  if (!op.create || !op.infer) throw_input_error(who + " has no create() or no infer()");
  if (!op.run_cpu && !op.run_cuda) throw_input_error(who + " has neither run_cpu() nor run_cuda()");
}

std::shared_ptr<const PluginCode> make_code(const lathe_plugin_operator& op,
                                            std::shared_ptr<const void> library, std::string_view fields) {
  return std::make_shared<OperatorCode>(op, std::move(library), fields);
}

}  // namespace lathe::plugin
