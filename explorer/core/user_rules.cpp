// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/user_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "explorer/core/json_at.h"
#include "explorer/core/rule_parts.h"

namespace lathe::explorer {
namespace {

constexpr std::array<std::string_view, 7> kTextFields = {"name",   "type", "precision", "tactic",
                                                         "runner", "kind", "node"};
constexpr std::array<std::string_view, 4> kSeverities = {"info", "low", "medium", "high"};

bool is_in(const auto& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void read_condition(UserRule& rule, const std::string& key, const JsonAt& value) {
  if (is_in(kTextFields, key)) {
    rule.texts.emplace_back(key, value.text());
  } else if (key == "min_ms") {
    rule.min_ms = value.number();
  } else if (key == "min_percent") {
    rule.min_percent = value.number();
  } else if (key == "below_roof") {
    rule.below_roof = value.number();
  } else {
    value.fail(
        fmt::format("a condition ({}, min_ms, min_percent, below_roof)", fmt::join(kTextFields, ", ")));
  }
}

UserRule read_rule(const JsonAt& at) {
  UserRule rule;
  rule.id = at.at("id").text();
  rule.title = at.at("title").text();
  const JsonAt when = at.at("when");
  if (!when.json().is_object() || when.json().empty()) when.fail("an object with at least one condition");
  for (const auto& [key, value] : when.json().items()) read_condition(rule, key, when.at(key));
  for (const auto& [key, value] : at.json().items()) {
    const JsonAt field = at.at(key);
    if (key == "severity") {
      rule.severity = field.text();
      if (!is_in(kSeverities, rule.severity)) field.fail("info, low, medium or high");
    } else if (key == "action") {
      rule.action = field.text();
    } else if (key == "command") {
      rule.command = field.text();
    } else if (key == "gain") {
      rule.gain = field.number();
      if (*rule.gain < 0 || *rule.gain > 1) field.fail("a share between 0 and 1");
    } else if (key != "id" && key != "title" && key != "when") {
      field.fail("a field of a rule (id, title, when, severity, action, command, gain)");
    }
  }
  return rule;
}

std::string text_of(const Layer& layer, const std::string& field) {
  if (field == "name") return layer.name;
  if (field == "type") return layer.type;
  if (field == "precision") return layer.precision;
  if (field == "tactic") return layer.tactic;
  if (field == "runner") return layer.runner;
  if (field == "kind") return layer.kind;
  std::string nodes;
  for (const auto& origin : layer.origins) nodes += origin.name + " " + origin.op_type + "\n";
  return nodes;
}

bool holds(const UserRule& rule, const Layer& layer, double total_ms) {
  for (const auto& [field, text] : rule.texts) {
    if (text_of(layer, field).find(text) == std::string::npos) return false;
  }
  // Times and roofs that are not known meet no bound.
  const double ms = layer.average_ms().value_or(-1);
  if (rule.min_ms && ms < *rule.min_ms) return false;
  if (rule.min_percent && (total_ms <= 0 || 100 * ms / total_ms < *rule.min_percent)) return false;
  return !rule.below_roof ||
         (layer.roofline.percent_of_roof && *layer.roofline.percent_of_roof < *rule.below_roof);
}

}  // namespace

std::vector<UserRule> read_rules(const std::string& file, const std::string& text) {
  const Json json = parse_json(text, file);
  const JsonAt root(json, file + ": ");
  if (!json.is_array()) root.fail("a list of rules");
  std::vector<UserRule> rules;
  for (size_t i = 0; i < root.size(); ++i) rules.push_back(read_rule(root.item(i)));
  return rules;
}

std::vector<Finding> apply_rules(const EngineData& engine, const std::vector<UserRule>& rules) {
  std::vector<Finding> findings;
  const double total = engine.statistics.layer_sum_ms.value_or(0);
  for (const auto& rule : rules) {
    const auto layers = layers_where(engine, [&](const Layer& layer) { return holds(rule, layer, total); });
    if (layers.empty()) continue;
    Finding f{rule.id, fmt::format("{}: {}", rule.title, count_text(layers.size(), "layer")), rule.severity,
              "medium"};
    f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
      return fmt::format("{}: {}{}", short_name(l),
                         l.average_ms() ? time_words(engine, *l.average_ms()) + ", " : "", layer_facts(l));
    });
    f.layers = layers;
    const double time = time_of(engine, layers);
    if (rule.gain && time > 0) {
      f.gain_ms = round_ms(*rule.gain * time);
      f.gain_basis = fmt::format("{:.0f} % of their time, as the rule says", 100 * *rule.gain);
    }
    f.action = rule.action;
    f.command = rule.command;
    findings.push_back(std::move(f));
  }
  return findings;
}

}  // namespace lathe::explorer
