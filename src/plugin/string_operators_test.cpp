// SPDX-License-Identifier: Apache-2.0
//
// What the operators on strings compute, through what the graph asks of a plugin's code.
#include <gtest/gtest.h>

#include "base/error_check.h"
#include "ir/strings.h"
#include "plugin/built_in.h"
#include "plugin/letter_case.h"

namespace lathe::plugin {
namespace {

using Names = std::vector<std::string>;

Tensor texts(const Names& strings, Extents extents = {}) {
  const std::vector<std::string_view> views(strings.begin(), strings.end());
  return strings_tensor(extents.empty() ? Extents{static_cast<int64_t>(views.size())} : extents, views);
}

Names texts_of(const Tensor& tensor) {
  const Strings strings(tensor);
  Names all;
  for (int64_t i = 0; i < strings.count(); ++i) all.emplace_back(strings[i]);
  return all;
}

std::shared_ptr<const PluginCode> string_code(std::string name, const std::vector<PluginField>& fields = {}) {
  auto made = built_in_operator({std::move(name), "1", "lathe"}, plugin_fields_text(fields));
  EXPECT_NE(made, nullptr);
  return made;
}

// Runs into memory of the upper bounds that is full of another byte, and takes what was found.
std::vector<Tensor> run(const PluginCode& op, const std::vector<Tensor>& inputs) {
  std::vector<PluginType> types;
  std::vector<PluginOperand> in, out;
  for (const Tensor& t : inputs) {
    types.push_back({t.dtype(), to_shape(t.extents())});
    in.push_back({t.dtype(), kLinear, t.extents(), const_cast<std::byte*>(t.bytes().data())});
  }
  std::vector<Tensor> rooms, found;
  for (const PluginType& type : op.infer("node", types, 1)) {
    Extents extents;
    for (const Dim& d : type.shape) extents.push_back(d.bounds({}).high);
    rooms.push_back(Tensor::allocate(type.dtype, extents));
    std::ranges::fill(rooms.back().mutable_bytes(), std::byte{'#'});
    out.push_back({type.dtype, kLinear, extents, rooms.back().mutable_bytes().data()});
  }
  EXPECT_TRUE(op.supports(PluginDevice::Cpu, in, out));
  EXPECT_FALSE(op.runs_on(PluginDevice::Cuda));
  op.run(PluginDevice::Cpu, {in, out, nullptr, 0, op.work_items(in, out)});
  for (size_t i = 0; i < rooms.size(); ++i) {
    found.push_back(Tensor::allocate(rooms[i].dtype(), out[i].extents));
    std::ranges::copy(rooms[i].bytes().first(found[i].bytes().size()), found[i].mutable_bytes().begin());
  }
  return found;
}

TEST(StringOperators, ConcatAndEqualBroadcast) {
  const std::vector<Tensor> pair = {texts({"a", "", "long"}, {3, 1}), texts({"x", ""}, {1, 2})};
  const Tensor joined = run(*string_code("StringConcat"), pair)[0];
  EXPECT_EQ(joined.extents(), (Extents{3, 2, 5}));
  EXPECT_EQ(texts_of(joined), (Names{"ax", "a", "x", "", "longx", "long"}));
  EXPECT_EQ(run(*string_code("StringEqual"), pair)[0].to_doubles(), (std::vector<double>{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(run(*string_code("StringEqual"), {texts({"s"}, {1}), texts({"s"}, {1})})[0].to_doubles(),
            (std::vector<double>{1}));
}

TEST(StringOperators, FindGivesTheFirstKey) {
  EXPECT_EQ(
      run(*string_code("StringFind"), {texts({"b", "", "c"}), texts({"a", "b", "b", ""})})[0].to_doubles(),
      (std::vector<double>{1, 3, 4}));
}

TEST(StringOperators, SplitAtADelimiterOrWhiteSpace) {
  const auto parts =
      run(*string_code("StringSplit", {text_field("delimiter", "--")}), {texts({"a--b----c", "--", ""})});
  EXPECT_EQ(texts_of(parts[0]), (Names{"a", "b", "", "c", "", "", "", "", "", "", "", ""}));
  EXPECT_EQ(parts[1].to_doubles(), (std::vector<double>{4, 2, 1}));
  const auto words = run(*string_code("StringSplit"), {texts({"  two\t words ", " ", ""})});
  EXPECT_EQ(words[0].extents(), (Extents{3, 2, 13}));
  EXPECT_EQ(texts_of(words[0]), (Names{"two", "words", "", "", "", ""}));
  EXPECT_EQ(words[1].to_doubles(), (std::vector<double>{2, 0, 0}));
  // As Python's split(): what is left keeps its end.
  const auto one =
      run(*string_code("StringSplit", {{"max_split", Tensor::scalar_i64(1)}}), {texts({" a  b  c "})});
  EXPECT_EQ(texts_of(one[0]), (Names{"a", "b  c "}));
  EXPECT_EQ(run(*string_code("StringSplit"), {texts({" "})})[0].extents(), (Extents{1, 0, 1}));
}

TEST(StringOperators, NormalizerDropsStopWordsAndChangesCase) {
  const auto normalized = [](const std::vector<PluginField>& fields, const Names& strings) {
    return texts_of(run(*string_code("StringNormalizer", fields), {texts(strings), texts({"Monday"})})[0]);
  };
  const PluginField sensitive{"case_sensitive", Tensor::scalar_i64(1)};
  EXPECT_EQ(normalized({}, {"MONDAY", "Über", "monday"}), (Names{"Über"}));
  EXPECT_EQ(normalized({sensitive, text_field("case", "upper")}, {"monday", "Monday", "über"}),
            (Names{"MONDAY", "ÜBER"}));
  EXPECT_EQ(normalized({text_field("case", "lower")}, {"Monday"}), (Names{""}));
}

TEST(StringOperators, RegexMatchesWholeStrings) {
  EXPECT_EQ(
      run(*string_code("RegexFullMatch", {text_field("pattern", "[a-c]+")}), {texts({"abc", "abcd", ""})})[0]
          .to_doubles(),
      (std::vector<double>{1, 0, 0}));
}

TEST(StringOperators, LetterCaseIsUnicodesAndKeepsWhatIsNoText) {
  const LetterCase letters;
  EXPECT_EQ(letters.change("aÄß日я", LetterChange::Upper), "AÄß日Я");
  EXPECT_EQ(letters.change("ȺÀ", LetterChange::Lower), "ⱥà");   // two bytes become three
  const std::string broken = "a\xC3(\xFF\xED\xA0\x80\xF0\x9F";  // a surrogate, and ends in the middle
  EXPECT_EQ(letters.change(broken, LetterChange::Upper), "A" + broken.substr(1));
}

TEST(StringOperators, OnlyKnownOnesAreThere) {
  EXPECT_EQ(built_in_operator({"StringSplit", "1", ""}, ""), nullptr);
  EXPECT_EQ(built_in_operator({"StringSplit", "2", "lathe"}, ""), nullptr);
  EXPECT_EQ(built_in_operator({"Other", "1", "lathe"}, ""), nullptr);
  const WithBuiltIn source(nullptr);
  EXPECT_TRUE(source.has({"StringSplit", "", "lathe"}));
  EXPECT_FALSE(source.has({"StringSplit", "", ""}));
  EXPECT_EQ(source.create({"Mish", "1", ""}, ""), nullptr);
}

TEST(StringOperators, Errors) {
  const auto inferred = [](const std::string& name, const std::vector<PluginType>& types,
                           size_t outputs = 1) {
    return [=] { string_code(name)->infer("node", types, outputs); };
  };
  const PluginType bytes{DType::UInt8, {Dim(3), Dim(4)}}, floats{DType::Float32, {Dim(3), Dim(4)}},
      byte{DType::UInt8, {}}, cube{DType::UInt8, {Dim(2), Dim(3), Dim(4)}};
  expect_says(error_of(inferred("StringSplit", {floats})), "x is float32, expected strings: bytes");
  expect_says(error_of(inferred("StringSplit", {byte})), "x is one byte, expected strings");
  expect_says(error_of(inferred("StringSplit", {})), "StringSplit has 0 inputs, expected 1");
  expect_says(error_of(inferred("StringSplit", {bytes}, 3)), "StringSplit has 3 outputs, expected 2");
  expect_says(error_of(inferred("StringFind", {bytes, cube})), "its keys are [2, 3, 4]");
  expect_says(error_of(inferred("StringNormalizer", {cube})), "expected (C) or (1, C)");
  expect_says(error_of(inferred("StringNormalizer", {bytes, cube})), "its stop words are [2, 3, 4]");
  expect_says(error_of([] { string_code("RegexFullMatch", {text_field("pattern", "a(")}); }),
              "its pattern 'a(' is none of RE2's: missing )");
  expect_says(error_of([] { string_code("StringNormalizer", {text_field("case", "title")}); }),
              "its case is 'title', expected lower or upper");
  expect_says(error_of([] { string_code("StringSplit", {text_field("max_split", "1")}); }),
              "its field 'max_split' is no integer");
  expect_says(error_of([] {
                string_code("StringSplit", {{"delimiter", Tensor::scalar_i64(1)}});
              }),
              "its field 'delimiter' is no text");
  const std::string long_one(size_t{1} << 20, 'a');
  std::vector<std::string_view> many(512);
  many[0] = long_one;
  expect_says(error_of([&] { strings_tensor({512}, many); }), "each takes as many as the longest");
}

}  // namespace
}  // namespace lathe::plugin
