// SPDX-License-Identifier: Apache-2.0
//
// Which outputs are the next values of which inputs, by the names that exporters give them.
#pragma once

#include <string>
#include <vector>

#include "plan/optimization_profile.h"

namespace lathe {

struct StatePair {
  std::string input, output;
  bool operator==(const StatePair&) const = default;
};

// Pairs by name: past_key_values.0.key and present.0.key, past_0 and present_0, h_in and h_out, and the like
// (state_pairs.cpp lists them). A pair has one type and one rank. Throws Input when there is none.
std::vector<StatePair> find_state_pairs(const std::vector<TensorInfo>& inputs,
                                        const std::vector<TensorInfo>& outputs);

// Pairs as a person writes them: "past.0.k:present.0.k", or "past:present", the beginnings of names that go
// on alike. No text: those that find_state_pairs() finds. Throws Input for one that is not there.
std::vector<StatePair> parse_state_pairs(const std::vector<std::string>& texts,
                                         const std::vector<TensorInfo>& inputs,
                                         const std::vector<TensorInfo>& outputs);

}  // namespace lathe
