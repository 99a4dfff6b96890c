// SPDX-License-Identifier: Apache-2.0
//
// A plugin library in this process.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/plugin_abi.h"

namespace lathe::plugin {

struct Library {
  std::shared_ptr<const void> handle;  // loaded as long as somebody has it
  std::vector<const lathe_plugin_operator*> operators;
};

// Throws Input for what is no plugin library, or one of another ABI.
Library open_library(const std::string& path);
// The same from bytes: they become a file without a name.
Library open_library(const std::string& name, std::span<const std::byte> bytes);

}  // namespace lathe::plugin
