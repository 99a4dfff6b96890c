// SPDX-License-Identifier: Apache-2.0
#include "runtime/api_bridge.h"

namespace lathe::v1 {

PluginRegistry::PluginRegistry() : impl_(std::make_shared<Impl>()) {}

void PluginRegistry::load(const std::string& path) {
  translate_errors([&] { impl_->registry->load(path); });
}
void PluginRegistry::add(const lathe_plugin_operator& op, std::shared_ptr<const void> owner) {
  translate_errors([&] { impl_->registry->add(op, std::move(owner)); });
}
void PluginRegistry::trust_engines() {
  impl_->registry->trust_engines();
}
std::vector<PluginInfo> PluginRegistry::plugins() const {
  std::vector<PluginInfo> plugins;
  for (const auto& entry : impl_->registry->entries())
    plugins.push_back(
        {entry.identity.name, entry.identity.version, entry.identity.name_space, entry.library});
  return plugins;
}

}  // namespace lathe::v1
