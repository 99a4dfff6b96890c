// SPDX-License-Identifier: Apache-2.0
//
// The custom operators that builds and runs may use: those of libraries and of this program. Threads may
// share it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/plugin.h"
#include "lathe/plugin_abi.h"
#include "plugin/library.h"

namespace lathe::plugin {

class Registry final : public PluginSource {
 public:
  struct Entry {
    PluginIdentity identity;
    std::string library;  // its path; empty: this program
    const lathe_plugin_operator* op = nullptr;
    std::shared_ptr<const void> handle;
  };

  // Throws Input for what is no plugin library and for operators that are there already, from elsewhere.
  // Loading the same path again does nothing.
  void load(const std::string& path);
  // `owner` lives as long as the operator is used.
  void add(const lathe_plugin_operator& op, std::shared_ptr<const void> owner = nullptr);
  // Libraries that engine files carry are run from now on.
  void trust_engines() { trusts_engines_ = true; }
  std::vector<Entry> entries() const;

  bool has(const PluginIdentity& identity) const override;
  std::shared_ptr<const PluginCode> create(const PluginIdentity& identity,
                                           std::string_view fields) const override;
  std::string list() const override;
  bool load_carried(const std::string& name, std::span<const std::byte> bytes) override;

 private:
  void add_all(const Library& library, const std::string& path);
  const Entry* find(const PluginIdentity& identity) const;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  bool trusts_engines_ = false;
};

}  // namespace lathe::plugin
