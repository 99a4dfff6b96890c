// SPDX-License-Identifier: Apache-2.0
#include "backend/tactic.h"

#include <algorithm>

#include "backend/open_size.h"
#include "base/error.h"
#include "base/hash.h"

namespace lathe {

TacticParams::TacticParams(std::initializer_list<Entry> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

void TacticParams::set(std::string name, int64_t value) {
  check(std::none_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == name; }),
        "a tactic has two parameters '" + name + "'");
  entries_.emplace_back(std::move(name), value);
}

int64_t TacticParams::get(std::string_view name) const {
  for (const auto& [known, value] : entries_)
    if (known == name) return value;
  throw Error(ErrorKind::Internal, "a tactic has no parameter '" + std::string(name) + "'");
}

int64_t TacticParams::get(std::string_view name, int64_t otherwise) const {
  for (const auto& [known, value] : entries_)
    if (known == name) return value;
  return otherwise;
}

int TacticParams::get_int(std::string_view name) const {
  const int64_t value = get(name);
  if (value != static_cast<int>(value))
    throw_input_error("parameter '" + std::string(name) + "' of a tactic is " + std::to_string(value));
  return static_cast<int>(value);
}

int TacticParams::get_int(std::string_view name, int otherwise) const {
  const bool known =
      std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == name; });
  return known ? get_int(name) : otherwise;
}

namespace {

void assume_open_sizes_of(const LayerQuery& query, SymbolValues& values) {
  if (query.node == kNoNode) return;
  std::vector<ValueId> operands = query.layer().inputs;
  operands.insert(operands.end(), query.layer().outputs.begin(), query.layer().outputs.end());
  assume_open_sizes(query.graph, operands, query.ranges, values);
}

}  // namespace

SymbolValues LayerQuery::opt_values() const {
  SymbolValues values;
  // A layer without elements has nothing to time, and is not what an engine of such a profile is for: the
  // least that works.
  for (const auto& [symbol, range] : ranges)
    values.emplace(symbol, range.opt == 0 ? std::min<int64_t>(1, range.max) : range.opt);
  assume_open_sizes_of(*this, values);
  return values;
}

SymbolValues LayerQuery::max_values() const {
  SymbolValues values;
  for (const auto& [symbol, range] : ranges) values.emplace(symbol, range.max);
  assume_open_sizes_of(*this, values);
  return values;
}

std::vector<DType> layer_types(const LayerQuery& query) {
  std::vector<DType> types = {query.graph.value(query.layer().outputs[0]).number_type()};
  if (!is_float(types[0])) return types;
  for (const DType t : query.layer().allowed_types)
    if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
  return types;
}

Tactic linear_tactic(const LayerQuery& query, std::string_view runner, std::string name) {
  const Node& node = query.layer();
  Tactic t;
  t.runner = runner;
  t.name = std::move(name);
  t.id = hash_text(t.name);
  for (const ValueId v : node.inputs)
    t.inputs.push_back(v == kNoValue ? TensorType{}
                                     : TensorType{query.graph.value(v).number_type(), kLinear});
  for (const ValueId v : node.outputs)
    t.outputs.push_back(v == kNoValue ? TensorType{}
                                      : TensorType{query.graph.value(v).number_type(), kLinear});
  return t;
}

Tactic with_variant(Tactic tactic, std::string name, TacticParams params) {
  tactic.name = std::move(name);
  tactic.id = hash_text(tactic.name);
  tactic.params = std::move(params);
  return tactic;
}

bool reads_twice(const LayerQuery& query, size_t input) {
  const auto& inputs = query.layer().inputs;
  return std::count(inputs.begin(), inputs.end(), inputs[input]) > 1;
}

}  // namespace lathe
