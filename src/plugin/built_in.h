// SPDX-License-Identifier: Apache-2.0
//
// Operators that come with the library as a custom operator's code comes with its own: those on strings and
// those that decode pictures. No pass and no backend knows them; their code says what their results are and
// computes them on the host. So they are in every engine that needs them, and an engine names them like any
// plugin.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plugin.h"

namespace lathe::plugin {

inline constexpr std::string_view kBuiltInNamespace = "lathe";

// Null where there is no such operator. Throws Input for fields that it cannot have.
std::shared_ptr<const PluginCode> built_in_operator(const PluginIdentity& identity, std::string_view fields);
// A text as a field.
PluginField text_field(std::string name, std::string_view text);

// The operators above, and the plugins of another source, which may be null.
class WithBuiltIn final : public PluginSource {
 public:
  explicit WithBuiltIn(const PluginSource* others) : others_(others) {}
  bool has(const PluginIdentity& identity) const override;
  std::shared_ptr<const PluginCode> create(const PluginIdentity& identity,
                                           std::string_view fields) const override;
  std::string list() const override { return others_ ? others_->list() : std::string(); }
  bool load_carried(const std::string&, std::span<const std::byte>) override { return false; }

 private:
  const PluginSource* others_;
};

}  // namespace lathe::plugin
