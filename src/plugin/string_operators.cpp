// SPDX-License-Identifier: Apache-2.0
//
// Operators on strings, which are rows of bytes (ir/strings.h).
//
//   StringEqual (a, b)       bool; both broadcast
//   StringConcat (a, b)      a's bytes and then b's; both broadcast
//   StringFind (x, keys)     int64: the number of the first of K keys that is the string, K for none
//   StringSplit (x)          substrings (..., most), empty behind a string's last one, and how many each has
//                            (int64). Fields: delimiter (none: any number of white spaces), max_split:
//                            delimiters that count, from the left (-1: all)
//   StringNormalizer (x, [stop words]) of (C) or (1, C): the strings that are no stop words, in another case;
//                            one empty string where none is left. Fields: case (lower, upper or nothing),
//                            case_sensitive: of the comparison with stop words
//   RegexFullMatch (x)       bool, whether all of the string matches. Field: pattern, in RE2's syntax
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "ir/strings.h"
#include "plugin/host_operator.h"
#include "plugin/letter_case.h"

namespace lathe::plugin {

namespace {

using Types = std::vector<PluginType>;
using Arity = std::pair<size_t, size_t>;

// The shape of an input's strings: without the dim of their bytes.
Shape shape_of(const PluginType& input, std::string_view name) {
  if (input.dtype != DType::UInt8)
    throw_input_error(std::string(name) + " is " + std::string(dtype_name(input.dtype)) +
                      ", expected strings: bytes (uint8)");
  if (input.shape.empty())
    throw_input_error(std::string(name) + " is one byte, expected strings: bytes in a dim of their own");
  return {input.shape.begin(), input.shape.end() - 1};
}

Shape with_bytes(Shape shape, const Dim& bytes) {
  shape.push_back(bytes);
  return shape;
}

Extents extents_of(const PluginOperand& operand) {
  return {operand.extents.begin(), operand.extents.end() - 1};
}

Strings strings_of(const PluginOperand& operand) {
  return {static_cast<const char*>(operand.data), operand.extents};
}

// Result element i of two that broadcast: the number of the string of one of them.
class Broadcast {
 public:
  Broadcast(const Extents& from, const Extents& to) : to_(to), strides_(to.size(), 0) {
    const Extents strides = row_major_strides(from);
    for (size_t d = 0; d < from.size(); ++d)
      if (from[from.size() - 1 - d] != 1) strides_[to.size() - 1 - d] = strides[from.size() - 1 - d];
  }
  int64_t operator[](int64_t i) const {
    int64_t number = 0;
    for (size_t d = to_.size(); d-- > 0; i /= to_[d]) number += i % to_[d] * strides_[d];
    return number;
  }

 private:
  Extents to_, strides_;
};

class StringEqual final : public HostOperator {
 public:
  explicit StringEqual(std::vector<PluginField> fields) : HostOperator("StringEqual", std::move(fields)) {}
  int64_t work_items(std::span<const PluginOperand>, std::span<const PluginOperand> outputs) const override {
    return element_count(outputs[0].extents);
  }

 private:
  std::vector<DType> result_types() const override { return {DType::Bool}; }
  Arity arity() const override { return {2, 2}; }
  Types results(std::string_view, std::span<const PluginType> inputs) const override {
    return {{DType::Bool, broadcast(shape_of(inputs[0], "a"), shape_of(inputs[1], "b"))}};
  }
  void compute(const PluginCall& call) const override {
    const Strings a = strings_of(call.inputs[0]), b = strings_of(call.inputs[1]);
    const Extents& to = call.outputs[0].extents;
    const Broadcast of_a(extents_of(call.inputs[0]), to), of_b(extents_of(call.inputs[1]), to);
    for (int64_t i = call.begin; i < call.end; ++i)
      static_cast<bool*>(call.outputs[0].data)[i] = a[of_a[i]] == b[of_b[i]];
  }
};

class StringConcat final : public HostOperator {
 public:
  explicit StringConcat(std::vector<PluginField> fields) : HostOperator("StringConcat", std::move(fields)) {}
  int64_t work_items(std::span<const PluginOperand>, std::span<const PluginOperand> outputs) const override {
    return element_count(extents_of(outputs[0]));
  }

 private:
  std::vector<DType> result_types() const override { return {DType::UInt8}; }
  Arity arity() const override { return {2, 2}; }
  Types results(std::string_view, std::span<const PluginType> inputs) const override {
    const Shape shape = broadcast(shape_of(inputs[0], "a"), shape_of(inputs[1], "b"));
    return {{DType::UInt8, with_bytes(shape, inputs[0].shape.back() + inputs[1].shape.back())}};
  }
  void compute(const PluginCall& call) const override {
    const Strings a = strings_of(call.inputs[0]), b = strings_of(call.inputs[1]);
    const PluginOperand& out = call.outputs[0];
    const Broadcast of_a(extents_of(call.inputs[0]), extents_of(out)),
        of_b(extents_of(call.inputs[1]), extents_of(out));
    for (int64_t i = call.begin; i < call.end; ++i)
      put_string({static_cast<char*>(out.data), out.extents}, i, std::string(a[of_a[i]]).append(b[of_b[i]]));
  }
};

class StringFind final : public HostOperator {
 public:
  explicit StringFind(std::vector<PluginField> fields) : HostOperator("StringFind", std::move(fields)) {}

 private:
  std::vector<DType> result_types() const override { return {DType::Int64}; }
  Arity arity() const override { return {2, 2}; }
  Types results(std::string_view, std::span<const PluginType> inputs) const override {
    if (shape_of(inputs[1], "keys").size() != 1)
      throw_input_error("its keys are " + to_string(inputs[1].shape) + ", expected a list of strings");
    return {{DType::Int64, shape_of(inputs[0], "x")}};
  }
  void compute(const PluginCall& call) const override {
    const Strings x = strings_of(call.inputs[0]), keys = strings_of(call.inputs[1]);
    std::map<std::string_view, int64_t> numbers;
    for (int64_t i = 0; i < keys.count(); ++i) numbers.emplace(keys[i], i);  // the first one stays
    for (int64_t i = 0; i < x.count(); ++i) {
      const auto found = numbers.find(x[i]);
      static_cast<int64_t*>(call.outputs[0].data)[i] = found == numbers.end() ? keys.count() : found->second;
    }
  }
};

using Parts = std::vector<std::string_view>;
constexpr std::string_view kWhite = " \t\n\v\f\r";

class StringSplit final : public HostOperator {
 public:
  explicit StringSplit(std::vector<PluginField> fields)
      : HostOperator("StringSplit", fields),
        delimiter_(text_of(fields, "delimiter")),
        max_split_(std::max<int64_t>(integer_of(fields, "max_split", -1), -1)) {}

 private:
  std::vector<DType> result_types() const override { return {DType::UInt8, DType::Int64}; }
  Arity arity() const override { return {1, 1}; }
  Types results(std::string_view node, std::span<const PluginType> inputs) const override {
    const Shape shape = shape_of(inputs[0], "x");
    const Dim& bytes = inputs[0].shape.back();
    Dim bound = bytes + 1;  // a delimiter has a byte at least: n bytes have n + 1 parts at most
    if (max_split_ >= 0 && max_split_ < INT32_MAX) bound = min(bound, Dim(max_split_ + 1));
    const Dim most = Dim::data_dependent(std::string(node) + ".parts", bound);
    return {{DType::UInt8, with_bytes(with_bytes(shape, most), bytes)}, {DType::Int64, shape}};
  }
  void compute(const PluginCall& call) const override {
    const Strings x = strings_of(call.inputs[0]);
    std::vector<Parts> all;
    size_t most = 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      all.push_back(split(x[i]));
      most = std::max(most, all.back().size());
    }
    PluginOperand& out = call.outputs[0];
    int64_t& dim = out.extents[out.extents.size() - 2];
    check(static_cast<int64_t>(most) <= dim, "a string has more parts than bytes");
    dim = static_cast<int64_t>(most);
    const StringRows rows{static_cast<char*>(out.data), out.extents};
    for (size_t i = 0; i < all.size(); ++i) {
      if (call.outputs.size() > 1 && call.outputs[1].data != nullptr)
        static_cast<int64_t*>(call.outputs[1].data)[i] = static_cast<int64_t>(all[i].size());
      all[i].resize(most);
      for (size_t k = 0; k < most; ++k) put_string(rows, static_cast<int64_t>(i * most + k), all[i][k]);
    }
  }
  Parts split(std::string_view text) const {
    if (delimiter_.empty()) return split_at_white(text);
    Parts parts;
    while (true) {
      const size_t end = is_last(parts) ? std::string_view::npos : text.find(delimiter_);
      parts.push_back(text.substr(0, end));
      if (end == std::string_view::npos) return parts;
      text.remove_prefix(end + delimiter_.size());
    }
  }
  Parts split_at_white(std::string_view text) const {
    Parts parts;
    while (true) {
      const size_t begin = text.find_first_not_of(kWhite);
      if (begin == std::string_view::npos) return parts;
      text.remove_prefix(begin);
      const size_t end = is_last(parts) ? std::string_view::npos : text.find_first_of(kWhite);
      parts.push_back(text.substr(0, end));
      if (end == std::string_view::npos) return parts;
      text.remove_prefix(end);
    }
  }
  bool is_last(const Parts& parts) const { return static_cast<int64_t>(parts.size()) == max_split_; }

  std::string delimiter_;
  int64_t max_split_;
};

LetterChange letter_change(const std::string& word) {
  if (word.empty()) return LetterChange::None;
  if (word == "lower") return LetterChange::Lower;
  if (word == "upper") return LetterChange::Upper;
  throw_input_error("its case is '" + word + "', expected lower or upper");
}

class StringNormalizer final : public HostOperator {
 public:
  explicit StringNormalizer(std::vector<PluginField> fields)
      : HostOperator("StringNormalizer", fields),
        change_(letter_change(text_of(fields, "case"))),
        case_sensitive_(integer_of(fields, "case_sensitive", 0) != 0) {}

 private:
  std::vector<DType> result_types() const override { return {DType::UInt8}; }
  Arity arity() const override { return {1, 2}; }
  Types results(std::string_view node, std::span<const PluginType> inputs) const override {
    Shape shape = shape_of(inputs[0], "x");
    if (shape.size() != 1 && (shape.size() != 2 || (shape[0].is_constant() && !shape[0].is_constant(1))))
      throw_input_error("x has strings " + to_string(shape) + ", expected (C) or (1, C)");
    if (inputs.size() > 1 && shape_of(inputs[1], "stop words").size() != 1)
      throw_input_error("its stop words are " + to_string(inputs[1].shape) + ", expected a list of strings");
    // One string is left at least, and all where none can be taken away.
    if (inputs.size() > 1 || !shape.back().is_constant() || shape.back().is_constant(0))
      shape.back() = Dim::data_dependent(std::string(node) + ".kept", max(shape.back(), Dim(1)));
    const Dim& bytes = inputs[0].shape.back();
    return {{DType::UInt8, with_bytes(shape, change_ == LetterChange::None ? bytes : kMostGrowth * bytes)}};
  }
  void compute(const PluginCall& call) const override {
    const PluginOperand& input = call.inputs[0];
    if (input.extents.size() == 3 && input.extents[0] != 1)
      throw_input_error("x has " + std::to_string(input.extents[0]) + " rows of strings, expected one");
    const Strings x = strings_of(input);
    const LetterCase letters;
    const auto as_compared = [&](std::string_view text) {
      return letters.change(text, case_sensitive_ ? LetterChange::None : LetterChange::Lower);
    };
    std::set<std::string> stops;
    if (call.inputs.size() > 1) {
      const Strings words = strings_of(call.inputs[1]);
      for (int64_t i = 0; i < words.count(); ++i) stops.insert(as_compared(words[i]));
    }
    std::vector<std::string> kept;
    for (int64_t i = 0; i < x.count(); ++i)
      if (!stops.contains(as_compared(x[i]))) kept.push_back(letters.change(x[i], change_));
    if (kept.empty()) kept.emplace_back();
    PluginOperand& out = call.outputs[0];
    int64_t& dim = out.extents[out.extents.size() - 2];
    check(static_cast<int64_t>(kept.size()) <= dim, "more strings are left than there were");
    dim = static_cast<int64_t>(kept.size());
    const StringRows rows{static_cast<char*>(out.data), out.extents};
    for (size_t i = 0; i < kept.size(); ++i) put_string(rows, static_cast<int64_t>(i), kept[i]);
  }

  LetterChange change_;
  bool case_sensitive_;
};

class RegexFullMatch final : public HostOperator {
 public:
  explicit RegexFullMatch(std::vector<PluginField> fields)
      : HostOperator("RegexFullMatch", fields), pattern_(text_of(fields, "pattern"), RE2::Quiet) {
    if (!pattern_.ok())
      throw_input_error("its pattern '" + pattern_.pattern() + "' is none of RE2's: " + pattern_.error());
  }
  int64_t work_items(std::span<const PluginOperand>, std::span<const PluginOperand> outputs) const override {
    return element_count(outputs[0].extents);
  }

 private:
  std::vector<DType> result_types() const override { return {DType::Bool}; }
  Arity arity() const override { return {1, 1}; }
  Types results(std::string_view, std::span<const PluginType> inputs) const override {
    return {{DType::Bool, shape_of(inputs[0], "x")}};
  }
  void compute(const PluginCall& call) const override {
    const Strings x = strings_of(call.inputs[0]);
    for (int64_t i = call.begin; i < call.end; ++i) {
      const std::string_view text = x[i];
      static_cast<bool*>(call.outputs[0].data)[i] =
          RE2::FullMatch(re2::StringPiece(text.data(), text.size()), pattern_);
    }
  }

  RE2 pattern_;  // its memory is bounded, and its time by the text's length; threads may share it
};

}  // namespace

const std::vector<HostOperatorMaker>& string_operators() {
  static const std::vector<HostOperatorMaker> all = {{"StringEqual", make_operator<StringEqual>},
                                                     {"StringConcat", make_operator<StringConcat>},
                                                     {"StringFind", make_operator<StringFind>},
                                                     {"StringSplit", make_operator<StringSplit>},
                                                     {"StringNormalizer", make_operator<StringNormalizer>},
                                                     {"RegexFullMatch", make_operator<RegexFullMatch>}};
  return all;
}

}  // namespace lathe::plugin
