// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::WordConvEmbedding: a vector of each word from vectors of its characters: a convolution along
// the word, tanh, and the largest value of each filter. Characters are numbers above 0; 0 fills words up.
#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

void check_size(const NodeImport& node, std::string_view attribute, const Dim& dim) {
  const int64_t stated = node.integer(attribute, -1);
  if (stated != -1 && dim.is_constant() && dim.value() != stated)
    node.fail(std::string(attribute) + " is " + std::to_string(stated) + ", but its weights have " +
              dim.to_string());
}

// How many windows of each word count (W, 1): those that end within it, and the first one. None where a word
// has no characters.
ValueId window_counts(NodeImport& node, ValueId words, const Dim& count, int64_t width) {
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  const ValueId is_char =
      node.cast(node.pointwise(C::Greater, {words, zero}, "is_char"), DType::Int64, "chars");
  const ValueId length = node.reduce(ReduceKind::Sum, is_char, {1}, true, "lengths");
  const ValueId last = node.scalar(static_cast<double>(width - 1), DType::Int64);
  const ValueId windows =
      node.pointwise(C::Max, {node.pointwise(C::Sub, {length, last}, "within"), one}, "windows");
  const ValueId first = node.reshape(node.slice(is_char, 1, 0, 1, "first_char"), {count, 1}, "has_chars");
  return node.pointwise(C::Mul, {windows, first}, "window_counts");
}

// inputs: characters (W, L), filters (M, 1, width, E), their bias (M), table of characters (V, E). Output
// (W, M); zeros for a word without characters.
Values import_word_conv_embedding(NodeImport& node) {
  const Shape words = node.shape(0), w = node.shape(1), table = node.shape(3);
  if (words.size() != 2 || w.size() != 4 || node.rank(2) != 1 || table.size() != 2)
    node.fail("expected characters (words, length), filters (M, 1, width, E), a bias (M) and a table (V, E)");
  check_size(node, "embedding_size", w[0]);
  check_size(node, "conv_window_size", w[2]);
  check_size(node, "char_embedding_size", table[1]);
  if (!w[2].is_constant() || !w[3].is_constant() || !w[1].is_constant(1))
    throw_unsupported("the sizes of its filters are not constant, or they have several channels");
  const int64_t width = w[2].value();
  if (words[1].is_constant() && words[1].value() < width)
    node.fail("words of " + words[1].to_string() + " characters are shorter than filters of " +
              std::to_string(width));
  const ValueId characters = node.cast(node.in(0), DType::Int64, "characters");
  const ValueId vectors = node.add(Gather{.axis = 0}, {node.in(3), characters}, "vectors");
  const ValueId images = node.reshape(vectors, {words[0], 1, words[1], w[3]}, "images");
  const Conv op{.kernel = {width, w[3].value()},
                .strides = {1, 1},
                .dilations = {1, 1},
                .pads_begin = {0, 0},
                .pads_end = {0, 0}};
  const ValueId y = node.pointwise(C::Tanh, {node.add(op, {images, node.in(1), node.in(2)}, "conv")}, "tanh");
  const Dim windows = node.shape_of(y)[2];
  const ValueId flat = node.reshape(y, {words[0], w[0], windows}, "windows_of_filters");
  const ValueId counts = window_counts(node, characters, words[0], width);
  const ValueId counts_axes = node.reshape(counts, {words[0], 1, 1}, "counts_axes");
  const ValueId counted = node.pointwise(
      C::Less, {count_up(node, windows, {1, 1, windows}, "window"), counts_axes}, "is_counted");
  // tanh gives nothing below -1.
  const ValueId low = node.scalar(-2, node.dtype_of(flat)), none = node.scalar(0, node.dtype_of(flat));
  const ValueId best = node.reduce(ReduceKind::Max, node.pointwise(C::Where, {counted, flat, low}, "counted"),
                                   {2}, false, "best");
  const ValueId is_word = node.pointwise(C::Greater, {counts, node.scalar(0, DType::Int64)}, "is_word");
  return {node.pointwise(C::Where, {is_word, best, none})};
}

}  // namespace

std::vector<Importer> microsoft_word_embedding_importers() {
  return {{"WordConvEmbedding", 1, kLatestOpset, import_word_conv_embedding, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
