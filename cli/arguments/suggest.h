// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean": the known words that are nearest to one that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

// The nearest first, at most three; none when nothing is near. Dashes in front and the case of letters do not
// count. Among equally near words those that stand first in `known` are first.
std::vector<std::string_view> nearest_words(std::string_view word,
                                            const std::vector<std::string_view>& known);

// "did you mean --onnx=a.onnx or --foo=a.onnx?", `suffix` being "=a.onnx"; "" when nothing is near.
std::string suggestion(std::string_view word, const std::vector<std::string_view>& known,
                       std::string_view suffix = "");

}  // namespace lathe::cli
