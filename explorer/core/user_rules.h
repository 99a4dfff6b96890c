// SPDX-License-Identifier: Apache-2.0
//
// Findings of the user's own, as data: a file of rules, each with conditions that a layer must meet, all of
// them. What is found is ranked with the findings of findings.h.
//
//   [{"id": "fp32-softmax", "title": "Softmax still in FP32",
//     "when": {"type": "Softmax", "precision": "FP32", "min_percent": 1},
//     "action": "Keep attention in one type.", "command": "grep -n softmax export.py", "gain": 0.5}]
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explorer/core/model.h"

namespace lathe::explorer {

struct UserRule {
  std::string id, title, severity = "info", action, command;
  // Texts that must occur: in "name", "type", "precision", "tactic", "kind", "runner" or in the ONNX "node"
  // names and types.
  std::vector<std::pair<std::string, std::string>> texts;
  std::optional<double> min_ms, min_percent, below_roof;  // of the sum, of the roof
  std::optional<double> gain;                             // share of the layers' time that could be won
};

// `file` is for messages. Throws Input, with the field, for what is no list of rules.
std::vector<UserRule> read_rules(const std::string& file, const std::string& text);

std::vector<Finding> apply_rules(const EngineData& engine, const std::vector<UserRule>& rules);

}  // namespace lathe::explorer
