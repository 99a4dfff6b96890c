// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace lathe {
namespace {

// A word of the input's name and what stands in its place in the output's.
struct Convention {
  enum class Where { Begin, End, Anywhere } where;
  std::string_view from, to;
};
using enum Convention::Where;

// More particular ones first. An empty word adds the other one.
constexpr std::array kConventions = {
    Convention{Begin, "past_key_values", "present"},             // optimum: past_key_values.0.key
    Convention{Begin, "past_key_values", "present_key_values"},  // onnxruntime-genai
    Convention{Anywhere, "past", "present"},                     // past_0, past.0.k, decoder_past_key_0
    Convention{Begin, "in_", "out_"},
    Convention{Begin, "input_", "output_"},
    Convention{End, "_in", "_out"},  // h_in
    Convention{End, "_input", "_output"},
    Convention{End, ".in", ".out"},
    Convention{Begin, "prev_", "next_"},
    Convention{Begin, "prev_", "new_"},
    Convention{Begin, "old_", "new_"},
    Convention{End, "0", "n"},      // PyTorch's recurrent layers: h0 and hn
    Convention{Begin, "", "new_"},  // icefall: cached_key_0 and new_cached_key_0
    Convention{Begin, "", "next_"},
    Convention{Begin, "", "present_"},
    Convention{End, "", "_out"},
    Convention{End, "", "_next"},
    Convention{End, "", "_new"},
    Convention{End, "", "n"},  // h and hn
    Convention{End, "", "N"},  // state and stateN
};

std::optional<std::string> renamed(const std::string& name, const Convention& c) {
  const size_t size = c.from.size();
  if (name.size() < size) return std::nullopt;
  size_t at = c.where == Begin ? 0 : name.size() - size;
  if (c.where == Anywhere) at = name.find(c.from);
  if (at == std::string::npos || name.compare(at, size, c.from) != 0) return std::nullopt;
  return name.substr(0, at).append(c.to).append(name, at + size);
}

const TensorInfo* find(const std::vector<TensorInfo>& infos, std::string_view name) {
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& t) { return t.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

bool fit(const TensorInfo& in, const TensorInfo& out) {
  return in.dtype == out.dtype && in.shape.size() == out.shape.size();
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  constexpr size_t kMost = 12;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, infos.size()); ++i) text += (i ? ", " : "") + infos[i].name;
  return infos.size() > kMost ? fmt::format("{} and {} more", text, infos.size() - kMost) : text;
}

std::string all_names(const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs) {
  return fmt::format("the inputs are {}, the outputs are {}", names_of(inputs), names_of(outputs));
}

// Every input that begins so, with the output that begins otherwise and goes on alike.
std::vector<StatePair> pairs_of_prefixes(std::string_view from, std::string_view to,
                                         const std::vector<TensorInfo>& inputs,
                                         const std::vector<TensorInfo>& outputs) {
  std::vector<StatePair> pairs;
  for (const TensorInfo& in : inputs) {
    const auto out = renamed(in.name, {Begin, from, to});
    if (out && find(outputs, *out)) pairs.push_back({in.name, *out});
  }
  return pairs;
}

// Names may have colons: each is tried as the one between the two.
std::vector<StatePair> pairs_of_text(const std::string& text, const std::vector<TensorInfo>& inputs,
                                     const std::vector<TensorInfo>& outputs) {
  for (size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1))
    if (find(inputs, text.substr(0, at)) && find(outputs, text.substr(at + 1)))
      return {{text.substr(0, at), text.substr(at + 1)}};
  const size_t at = text.find(':');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw_input_error(
        fmt::format("'{}' is no pair of state: write <input>:<output>, the input of a step and the output "
                    "that is its next value",
                    text));
  const std::string from = text.substr(0, at), to = text.substr(at + 1);
  std::vector<StatePair> pairs = pairs_of_prefixes(from, to, inputs, outputs);
  if (!pairs.empty()) return pairs;
  throw_input_error(
      fmt::format("no input '{}' with an output '{}', and no names that begin so and go on alike: {}", from,
                  to, all_names(inputs, outputs)));
}

}  // namespace

std::vector<StatePair> find_state_pairs(const std::vector<TensorInfo>& inputs,
                                        const std::vector<TensorInfo>& outputs) {
  std::vector<StatePair> pairs;
  const auto is_free = [&](const TensorInfo& out) {
    return std::none_of(pairs.begin(), pairs.end(), [&](const StatePair& p) { return p.output == out.name; });
  };
  const auto partner = [&](const TensorInfo& in) -> const TensorInfo* {
    for (const Convention& convention : kConventions) {
      const auto name = renamed(in.name, convention);
      const TensorInfo* out = name ? find(outputs, *name) : nullptr;
      if (out && fit(in, *out) && is_free(*out)) return out;
    }
    return nullptr;
  };
  for (const TensorInfo& in : inputs)
    if (const TensorInfo* out = partner(in)) pairs.push_back({in.name, out->name});
  if (pairs.empty())
    throw_input_error(
        fmt::format("no names tell which outputs are state: {}. Known are past.x and present.x, x_in and "
                    "x_out, h0 and hn, x and new_x; "
                    "others are given as pairs <input>:<output>",
                    all_names(inputs, outputs)));
  return pairs;
}

std::vector<StatePair> parse_state_pairs(const std::vector<std::string>& texts,
                                         const std::vector<TensorInfo>& inputs,
                                         const std::vector<TensorInfo>& outputs) {
  if (texts.empty()) return find_state_pairs(inputs, outputs);
  std::vector<StatePair> pairs;
  for (const std::string& text : texts)
    for (StatePair& pair : pairs_of_text(text, inputs, outputs)) pairs.push_back(std::move(pair));
  return pairs;
}

}  // namespace lathe
