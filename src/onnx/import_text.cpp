// SPDX-License-Identifier: Apache-2.0
//
// Operators on strings, and TfIdfVectorizer, whose tokens are numbers or strings.
#include <map>

#include "onnx/importers.h"
#include "onnx/strings.h"
#include "plugin/built_in.h"

namespace lathe::onnx {

namespace {

using plugin::text_field;

TfIdfMode read_tfidf_mode(const NodeImport& node) {
  const std::string mode = node.text("mode", "");
  if (mode == "TF") return TfIdfMode::TF;
  if (mode == "IDF") return TfIdfMode::IDF;
  if (mode == "TFIDF") return TfIdfMode::TFIDF;
  node.fail("mode is '" + mode + "', expected TF, IDF or TFIDF");
}

// A pool of strings is one of the numbers that its strings have in the list of different ones.
Values import_tfidf(NodeImport& node) {
  Ints pool = node.ints("pool_int64s").value_or(Ints());
  ValueId tokens = node.in(0);
  if (const auto strings = node.texts("pool_strings"); !strings.empty()) {
    std::map<std::string_view, int64_t> numbers;
    std::vector<std::string> words;
    for (const std::string& word : strings) {
      const auto [at, is_new] = numbers.emplace(word, static_cast<int64_t>(words.size()));
      if (is_new) words.push_back(word);
      pool.push_back(at->second);
    }
    tokens = find_strings(node, string_input(node, 0), words);
  } else if (is_string(node, 0)) {
    node.fail("its input is strings, and its pool numbers");
  }
  const TfIdfVectorizer op{.mode = read_tfidf_mode(node),
                           .min_gram = node.required_integer("min_gram_length"),
                           .max_gram = node.required_integer("max_gram_length"),
                           .max_skip = node.required_integer("max_skip_count"),
                           .ngram_counts = node.ints("ngram_counts").value_or(Ints()),
                           .ngram_indexes = node.ints("ngram_indexes").value_or(Ints()),
                           .pool = pool,
                           .weights = node.reals("weights").value_or(std::vector<float>())};
  return {node.add(op, {tokens})};
}

Values import_regex(NodeImport& node) {
  return add_built_in(node, "RegexFullMatch", {text_field("pattern", node.text("pattern", ""))},
                      {string_input(node, 0)}, false);
}

Values import_string_concat(NodeImport& node) {
  return add_built_in(node, "StringConcat", {}, {string_input(node, 0), string_input(node, 1)}, true);
}

Values import_string_split(NodeImport& node) {
  std::vector<PluginField> fields = {text_field("delimiter", node.text("delimiter", ""))};
  if (node.has_attribute("maxsplit"))
    fields.push_back({"max_split", Tensor::scalar_i64(node.integer("maxsplit", -1))});
  return add_built_in(node, "StringSplit", fields, {string_input(node, 0)}, true, 2);
}

// What a locale of its own would change are a few letters of a few languages (Turkish i, Lithuanian accents).
Values import_string_normalizer(NodeImport& node) {
  const std::string action = node.text("case_change_action", "NONE"), locale = node.text("locale", "");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    node.fail("case_change_action is '" + action + "', expected NONE, LOWER or UPPER");
  if (!locale.empty() && action != "NONE" && !locale.starts_with("en"))
    node.note("letters change their case as Unicode's table says, whatever locale '" + locale + "' has");
  std::vector<PluginField> fields = {
      {"case_sensitive", Tensor::scalar_i64(node.integer("is_case_sensitive", 0))}};
  if (action != "NONE") fields.push_back(text_field("case", action == "LOWER" ? "lower" : "upper"));
  Values inputs = {string_input(node, 0)};
  if (const auto words = node.texts("stopwords"); !words.empty())
    inputs.push_back(strings_constant(node, words, "stopwords"));
  return add_built_in(node, "StringNormalizer", fields, inputs, true);
}

}  // namespace

Values import_string_equal(NodeImport& node) {
  return add_built_in(node, "StringEqual", {}, {string_input(node, 0), string_input(node, 1)}, false);
}

std::vector<Importer> text_importers() {
  return {{"RegexFullMatch", 20, kLatestOpset, import_regex, {}, true},
          {"StringConcat", 20, kLatestOpset, import_string_concat, {}, true},
          {"StringNormalizer", 10, kLatestOpset, import_string_normalizer, {}, true},
          {"StringSplit", 20, kLatestOpset, import_string_split, {}, true},
          {"TfIdfVectorizer", 9, kLatestOpset, import_tfidf, {}, true}};
}

}  // namespace lathe::onnx
