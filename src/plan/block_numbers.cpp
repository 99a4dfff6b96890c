// SPDX-License-Identifier: Apache-2.0
#include "plan/block_numbers.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/block_grid.h"
#include "ir/edit.h"

namespace lathe {
namespace {

template <class T>
std::vector<T> numbers_of(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(T) != 0) throw_input_error("the scales of blocks have half a number");
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

bool are_alike(const std::vector<int32_t>& zeros) {
  return std::all_of(zeros.begin(), zeros.end(), [&](int32_t zero) { return zero == zeros[0]; });
}

}  // namespace

Json block_numbers_json(const Graph& graph, ContainerWriter& blocks) {
  Json json = Json::array();
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    if (!value.is_constant() || !value.quantization || block_of(*value.quantization, value.shape) == 0)
      continue;
    const Quantization& grid = *value.quantization;
    Json zeros = are_alike(grid.zeros) ? Json{{"all", grid.zeros[0]}}
                                       : Json(blocks.add_block(std::as_bytes(std::span(grid.zeros))));
    json.push_back({value.name, blocks.add_block(std::as_bytes(std::span(grid.scales))), std::move(zeros)});
  }
  return json;
}

void read_block_numbers(const Json& json, Graph& graph, const ContainerReader& file) {
  for (const Json& entry : json) {
    const auto name = entry.at(0).get<std::string>();
    const auto id = graph.find_value(name);
    if (!id || !graph.value(*id).quantization)
      throw_input_error("'" + name + "' has scales and is on no grid");
    Quantization grid = *graph.value(*id).quantization;
    grid.scales = numbers_of<float>(file.block(entry.at(1).get<int64_t>()));
    const Json& zeros = entry.at(2);
    grid.zeros = zeros.is_object() ? std::vector<int32_t>(grid.scales.size(), zeros.at("all").get<int32_t>())
                                   : numbers_of<int32_t>(file.block(zeros.get<int64_t>()));
    if (const std::string error = quantization_error(grid, graph.value(*id).shape); !error.empty())
      throw_input_error("the grid of '" + name + "': " + error);
    GraphEditor(graph).set_quantization(*id, std::move(grid));
  }
}

}  // namespace lathe
