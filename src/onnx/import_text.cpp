// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer on tokens that are numbers. Operators on strings are not supported: there are no tensors of
// strings.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

TfIdfMode read_mode(const NodeImport& node) {
  const std::string mode = node.text("mode", "");
  if (mode == "TF") return TfIdfMode::TF;
  if (mode == "IDF") return TfIdfMode::IDF;
  if (mode == "TFIDF") return TfIdfMode::TFIDF;
  node.fail("mode is '" + mode + "', expected TF, IDF or TFIDF");
}

Values import_tfidf(NodeImport& node) {
  if (node.has_attribute("pool_strings"))
    throw_unsupported(
        "its pool holds strings; only pools of integers are supported (run the tokenizer outside)");
  const TfIdfVectorizer op{.mode = read_mode(node),
                           .min_gram = node.required_integer("min_gram_length"),
                           .max_gram = node.required_integer("max_gram_length"),
                           .max_skip = node.required_integer("max_skip_count"),
                           .ngram_counts = node.ints("ngram_counts").value_or(Ints()),
                           .ngram_indexes = node.ints("ngram_indexes").value_or(Ints()),
                           .pool = node.ints("pool_int64s").value_or(Ints()),
                           .weights = node.reals("weights").value_or(std::vector<float>())};
  return {node.add(op, {node.in(0)})};
}

Values refuse_strings(NodeImport&) {
  throw_unsupported("tensors of strings are not supported; run this step outside of the model");
}

}  // namespace

std::vector<Importer> text_importers() {
  return {{"RegexFullMatch", 20, kLatestOpset, refuse_strings},
          {"StringConcat", 20, kLatestOpset, refuse_strings},
          {"StringNormalizer", 10, kLatestOpset, refuse_strings},
          {"StringSplit", 20, kLatestOpset, refuse_strings},
          {"TfIdfVectorizer", 9, kLatestOpset, import_tfidf}};
}

}  // namespace lathe::onnx
