// SPDX-License-Identifier: Apache-2.0
//
// The custom operators that builders, runtimes and refitters may use: libraries by path, and operators of
// this program.
//
//   PluginRegistry plugins;
//   plugins.load("libswish.so");
//   Builder builder(logger, {.plugins = plugins});
//   Runtime runtime(logger, {.plugins = plugins});
//
// Loading a library runs its code in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lathe/plugin_abi.h"

namespace lathe::v1 {

struct PluginInfo {
  std::string name, version, name_space;
  std::string library;  // its path; empty for an operator of this program
};

// Copies share the registry. Operators stay as long as a registry, or an engine that uses them, is there.
class PluginRegistry {
 public:
  PluginRegistry();
  // Throws Error for what is no plugin library, one of another ABI version, and operators that are there
  // already. A library that is loaded already is left as it is.
  void load(const std::string& path);
  // An operator of this program. The struct and what it points to must outlive the registry and all engines
  // that use it; `owner`, if there is one, lives as long as they do.
  void add(const lathe_plugin_operator& op, std::shared_ptr<const void> owner = nullptr);
  // Libraries that engine files carry are run from now on: only for files whose makers you trust like
  // programs.
  void trust_engines();
  std::vector<PluginInfo> plugins() const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace lathe::v1
