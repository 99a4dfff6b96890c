// SPDX-License-Identifier: Apache-2.0
//
// One use of a plugin: by a layer of one context, or by the tuner. What a plugin may know of it: the ranges
// of shapes, and which of its tactics was chosen.
#pragma once

#include <optional>

#include "ir/plugin.h"

namespace lathe {

// An operand at the smallest, tuned-for and largest extents.
struct PluginRange {
  PluginOperand min, opt, max;
};

struct PluginUse {
  PluginDevice device = PluginDevice::Cpu;
  std::vector<PluginRange> inputs, outputs;
  int64_t tactic = 0;  // 0: the plugin has one, or chooses itself
};

// Code that tells uses apart; that of libraries does.
class PluginUses {
 public:
  virtual ~PluginUses() = default;
  // The code for one use. Of an instance of its own where the plugin makes one.
  virtual std::shared_ptr<const PluginCode> attach(const PluginUse& use) const = 0;
  // Ways to compute these types and formats, each a number above 0; none: there is one.
  virtual std::vector<int64_t> tactics(const PluginUse& use) const = 0;
  // What decides the time of a run besides types and extents; nullopt: the fields.
  virtual std::optional<std::string> timing_key() const = 0;
};

}  // namespace lathe
