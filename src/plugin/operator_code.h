// SPDX-License-Identifier: Apache-2.0
//
// The plugin interface in C as PluginCode: converts operands, checks what comes back, and turns errors into
// ours.
#pragma once

#include <memory>
#include <string>

#include "ir/plugin.h"
#include "lathe/plugin_abi.h"

namespace lathe::plugin {

// Throws Input for an operator that lacks a name, a version or a function.
void check_operator(const lathe_plugin_operator& op);

// An instance made from `fields`. `library` (null: this program) stays loaded as long as the code is there.
std::shared_ptr<const PluginCode> make_code(const lathe_plugin_operator& op,
                                            std::shared_ptr<const void> library, std::string_view fields);

PluginIdentity identity_of(const lathe_plugin_operator& op);

}  // namespace lathe::plugin
