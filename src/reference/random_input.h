// SPDX-License-Identifier: Apache-2.0
//
// Input data from a seed: the same numbers on every machine, because only integer arithmetic and exact float
// operations make them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace lathe {

// What to draw for one input. Without an entry: floats are about standard normal, integers are 0 or 1 (legal
// as mask, flag and token of any vocabulary), bool is random, and an input whose name speaks of a mask is all
// ones.
struct InputRange {
  double low = 0, high = 1;  // integers: both included
};
using InputRanges = std::map<std::string, InputRange, std::less<>>;

Tensor random_input(const Value& value, const SymbolValues& symbols, uint64_t seed,
                    const InputRanges& ranges = {});
// All inputs of a graph; each from its own stream, so one more input does not change the others.
std::vector<Tensor> random_inputs(const Graph& graph, const SymbolValues& symbols, uint64_t seed,
                                  const InputRanges& ranges = {});

// A small generator: splitmix64 (Steele, Lea, Flood 2014), well mixed from any seed.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int64_t integer(int64_t low, int64_t high);  // both included
  double uniform();                            // [0, 1)
  double normal();  // sum of twelve uniforms less six: mean 0, variance 1, exact in double

 private:
  uint64_t state_;
};

}  // namespace lathe
