// SPDX-License-Identifier: Apache-2.0
#include "onnx/import_plugin.h"

#include <algorithm>

#include "ir/op.h"
#include "plugin/built_in.h"

namespace lathe::onnx {
namespace {

constexpr std::string_view kVersion = "plugin_version", kNamespace = "plugin_namespace";

std::string text_attribute_of(const NodeProto& proto, std::string_view name) {
  const AttributeProto* a = find_attribute(proto, name);
  return a && a->type == AttributeProto::Type::String ? std::string(a->s) : std::string();
}

// Whom the node may mean, first choice first.
std::vector<PluginIdentity> candidates(const NodeProto& proto) {
  const std::string name(proto.op_type), version = text_attribute_of(proto, kVersion),
                                         space = text_attribute_of(proto, kNamespace);
  if (!space.empty()) return {{name, version, space}};
  std::vector<PluginIdentity> all;
  if (!proto.domain.empty()) all.push_back({name, version, std::string(proto.domain)});
  all.push_back({name, version, ""});
  return all;
}

const PluginIdentity* pick(const std::vector<PluginIdentity>& identities, const PluginSource& plugins) {
  const auto it = std::ranges::find_if(identities, [&](const PluginIdentity& i) { return plugins.has(i); });
  return it == identities.end() ? nullptr : &*it;
}

Tensor bytes_tensor(std::string_view text) {
  Tensor tensor = Tensor::allocate(DType::UInt8, {static_cast<int64_t>(text.size())});
  std::ranges::copy(std::as_bytes(std::span(text)), tensor.mutable_bytes().begin());
  return tensor;
}

PluginField field_of(const NodeImport& node, const AttributeProto& a) {
  const std::string name(a.name);
  const auto count = [](const auto& list) { return Extents{static_cast<int64_t>(list.size())}; };
  switch (a.type) {
    case AttributeProto::Type::Int:
      return {name, Tensor::scalar_i64(node.integer(name, 0))};
    case AttributeProto::Type::Float:
      return {name, Tensor::scalar_f32(node.real(name, 0))};
    case AttributeProto::Type::String:
      return {name, bytes_tensor(node.text(name, "")), true};
    case AttributeProto::Type::Ints:
      return {name, Tensor::from<int64_t>(count(a.ints), a.ints)};
    case AttributeProto::Type::Floats:
      return {name, Tensor::from<float>(count(a.floats), a.floats)};
    case AttributeProto::Type::Tensor:
      return {name, *node.tensor(name)};
    default:
      node.fail("attribute '" + name +
                "' is of a kind that no plugin takes (number, text, list of numbers or tensor)");
  }
}

std::string fields_of(const NodeImport& node, const NodeProto& proto) {
  std::vector<PluginField> fields;
  for (const AttributeProto& listed : proto.attributes) {
    if (listed.name == kVersion || listed.name == kNamespace) continue;
    const AttributeProto* a = node.find(listed.name);  // a function's attribute may be meant
    if (!a) continue;
    PluginField field = field_of(node, *a);
    field.name = std::string(listed.name);
    fields.push_back(std::move(field));
  }
  return plugin_fields_text(fields);
}

}  // namespace

bool is_built_in(const NodeProto& proto) {
  return text_attribute_of(proto, kNamespace) == plugin::kBuiltInNamespace &&
         has_plugin(proto, plugin::WithBuiltIn(nullptr));
}

bool has_plugin(const NodeProto& proto, const PluginSource& plugins) {
  return pick(candidates(proto), plugins) != nullptr;
}

Values import_plugin(NodeImport& node, const NodeProto& proto, const PluginSource& plugins) {
  const std::vector<PluginIdentity> all = candidates(proto);
  const PluginIdentity* identity = pick(all, plugins);
  check(identity != nullptr, "a node is imported as a plugin that is not there");
  const auto code = plugins.create(*identity, fields_of(node, proto));
  check(code != nullptr, "a plugin that is there gives no code");
  const PluginIdentity& exact = code->identity();
  node.note("is plugin " + exact.to_string());
  return node.add_multi(Plugin{.plugin = exact.name,
                               .version = exact.version,
                               .name_space = exact.name_space,
                               .fields = code->serialized_fields(),
                               .code = code},
                        node.inputs(), node.output_count());
}

}  // namespace lathe::onnx
