// SPDX-License-Identifier: Apache-2.0
#include "plugin/built_in.h"

#include <algorithm>

#include "plugin/host_operator.h"

namespace lathe::plugin {

namespace {

const HostOperatorMaker* find_maker(std::string_view name) {
  for (const auto* family : {&image_operators(), &string_operators()})
    for (const HostOperatorMaker& maker : *family)
      if (maker.name == name) return &maker;
  return nullptr;
}

}  // namespace

std::shared_ptr<const PluginCode> built_in_operator(const PluginIdentity& identity, std::string_view fields) {
  if (identity.name_space != kBuiltInNamespace) return nullptr;
  const HostOperatorMaker* maker = find_maker(identity.name);
  if (!maker || (!identity.version.empty() && identity.version != kHostVersion)) return nullptr;
  return maker->make(plugin_fields_from(fields));
}

PluginField text_field(std::string name, std::string_view text) {
  Tensor bytes = Tensor::allocate(DType::UInt8, {static_cast<int64_t>(text.size())});
  std::ranges::copy(std::as_bytes(std::span(text)), bytes.mutable_bytes().begin());
  return {std::move(name), std::move(bytes), true};
}

bool WithBuiltIn::has(const PluginIdentity& identity) const {
  if (identity.name_space == kBuiltInNamespace) return find_maker(identity.name) != nullptr;
  return others_ && others_->has(identity);
}

std::shared_ptr<const PluginCode> WithBuiltIn::create(const PluginIdentity& identity,
                                                      std::string_view fields) const {
  if (auto code = built_in_operator(identity, fields)) return code;
  return others_ ? others_->create(identity, fields) : nullptr;
}

}  // namespace lathe::plugin
