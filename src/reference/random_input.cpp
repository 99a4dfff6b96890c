// SPDX-License-Identifier: Apache-2.0
//
// Random inputs, see random_input.h.

#include "reference/random_input.h"

#include <algorithm>
#include <cctype>

#include "base/hash.h"

namespace lathe {

namespace {

bool speaks_of_mask(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("mask") != std::string::npos;
}

}  // namespace

uint64_t RandomStream::next() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t RandomStream::integer(int64_t low, int64_t high) {
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const uint64_t offset = span == 0 ? next() : next() % span;  // the bias is below 2^-32 for any span in use
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

double RandomStream::uniform() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

double RandomStream::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

Tensor random_input(const Value& value, const SymbolValues& symbols, uint64_t seed,
                    const InputRanges& ranges) {
  const Extents extents = evaluate(value.shape, symbols);
  std::vector<double> data(static_cast<size_t>(element_count(extents)));
  RandomStream stream(hash_text(value.name, seed));
  const auto range = ranges.find(value.name);
  const bool integral = !is_float(value.dtype);
  const bool is_mask = speaks_of_mask(value.name);
  for (double& element : data) {
    if (range != ranges.end()) {
      const auto [low, high] = range->second;
      element =
          integral
              ? static_cast<double>(stream.integer(static_cast<int64_t>(low), static_cast<int64_t>(high)))
              : low + (high - low) * stream.uniform();
    } else if (is_mask) {
      element = 1;
    } else {
      element = integral ? static_cast<double>(stream.integer(0, 1)) : stream.normal();
    }
  }
  return Tensor::from_doubles(value.dtype, extents, data);
}

std::vector<Tensor> random_inputs(const Graph& graph, const SymbolValues& symbols, uint64_t seed,
                                  const InputRanges& ranges) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) inputs.push_back(random_input(graph.value(id), symbols, seed, ranges));
  return inputs;
}

}  // namespace lathe
