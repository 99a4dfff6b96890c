// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::GatherBlockQuantized: rows of a table whose blocks of elements have a scale each, as
// embeddings of language models have it. Rows are gathered as they are stored, so that the table stays small,
// and only they become numbers. Bytes that hold several elements are gathered whole and taken apart in FP32,
// which is exact.
#include <algorithm>
#include <bit>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

bool is_sub_byte(DType type) {
  return dtype_info(type).bits < 8;
}

class GatherQuantizedImport {
 public:
  explicit GatherQuantizedImport(NodeImport& node) : node_(node), rank_(node.rank(0)) {}

  Values run() {
    read_attributes();
    check_shapes();
    read_indices();
    ValueId numbers = gathered_numbers(kData, logical_.back(), "data");
    const Shape shape = node_.shape_of(numbers);
    numbers = by_blocks(numbers);
    if (has_zero()) numbers = node_.pointwise(C::Sub, {numbers, zero_points()}, "centred");
    const ValueId scales = spread(gathered_by_block(kScales, "scales"), "scales");
    ValueId scaled = node_.pointwise(C::Mul, {numbers, scales}, "scaled");
    if (has_whole_blocks()) scaled = node_.reshape(scaled, shape, "rows");
    if (in_range_ != kNoValue)
      scaled = node_.pointwise(C::Where, {in_range_, scaled, number(0)}, "inside_only");
    return {node_.cast(scaled, node_.dtype(kScales), "result")};
  }

 private:
  enum Input : size_t { kData, kIndices, kScales, kZeroPoints };

  ValueId number(double value) { return node_.scalar(value, DType::Float32); }
  bool is_float_table() const { return is_float(node_.dtype(kData)); }
  bool is_signed_table() const { return node_.dtype(kData) == DType::Int4; }
  // Bytes have the middle of their range as zero point where there is none; other types have 0.
  bool has_zero() const { return node_.has(kZeroPoints) || node_.dtype(kData) == DType::UInt8; }

  void read_attributes() {
    if (rank_ < 1) node_.fail("its data needs a dimension at least");
    axis_ = normalize_axis(node_.integer("gather_axis", 0), rank_, "gather_axis");
    quantized_ = normalize_axis(node_.integer("quantize_axis", 1), rank_, "quantize_axis");
    block_ = node_.integer("block_size", 128);
    const DType type = node_.dtype(kData);
    if (type == DType::UInt8) {
      bits_ = node_.integer("bits", 4);
      if (bits_ != 2 && bits_ != 4 && bits_ != 8)
        node_.fail("attribute 'bits' is " + std::to_string(bits_) + ", expected 2, 4 or 8");
      if (axis_ != 0)
        node_.fail("gather_axis is " + std::to_string(axis_) + ", which must be 0 for data of uint8");
      if (bits_ < 8 && axis_ == quantized_)
        node_.fail("gather_axis and quantize_axis must differ where bytes hold several elements");
    } else if (type != DType::UInt4 && type != DType::Int4 && !is_float_table()) {
      node_.fail("its data is " + std::string(dtype_name(type)) +
                 ", expected int4, uint4, uint8 or a float of "
                 "8 or 4 bits");
    }
    const bool whole_rows = block_ == 0 && is_float_table();
    if (!whole_rows && (block_ < 16 || !std::has_single_bit(static_cast<uint64_t>(block_))))
      node_.fail("block_size is " + std::to_string(block_) + ", expected a power of 2 from 16 on");
    if (node_.has(kZeroPoints) && is_float_table()) node_.fail("data of floats has no zero points");
    if (node_.has(kZeroPoints) && node_.dtype(kZeroPoints) != type)
      node_.fail("its zero points must have the type of its data");
    if (is_sub_byte(type) &&
        (!node_.constant(kData) || (node_.has(kZeroPoints) && !node_.constant(kZeroPoints))))
      throw_unsupported("its data and zero points depend on an input; they must be constant");
  }

  // How many elements a byte of `input` holds as it is gathered. Tables of 4-bit types are gathered by whole
  // bytes where a row has whole ones.
  int64_t per_byte(size_t input) const {
    if (node_.dtype(kData) == DType::UInt8 && input != kScales) return 8 / bits_;
    return input == kData && is_nibble_table() && rows_of_bytes_ ? 2 : 1;
  }
  bool is_nibble_table() const { return node_.dtype(kData) == DType::UInt4 || is_signed_table(); }

  void check_shapes() {
    logical_ = node_.shape(kData);
    if (node_.dtype(kData) == DType::UInt8) logical_.back() = logical_.back() * Dim(8 / bits_);
    rows_of_bytes_ = axis_ != rank_ - 1 && logical_.back().is_constant() && logical_.back().value() % 2 == 0;
    const Dim length = logical_[static_cast<size_t>(quantized_)];
    if (!length.is_constant())
      throw_unsupported("the size of its quantize_axis depends on an input; it must be constant");
    if (block_ == 0) block_ = std::max<int64_t>(1, length.value());
    const Shape scales = node_.shape(kScales);
    if (scales.size() != logical_.size()) node_.fail("its scales need as many dimensions as its data");
    for (size_t i = 0; i < scales.size(); ++i) {
      const bool blocks = static_cast<int64_t>(i) == quantized_;
      const Dim wanted = blocks ? ceil_div(logical_[i], Dim(block_)) : logical_[i];
      if (!blocks && is_float_table() && scales[i].is_constant(1)) continue;
      if (wanted.is_constant() && scales[i].is_constant() && !(wanted == scales[i]))
        node_.fail("its scales have " + scales[i].to_string() + " elements in dimension " +
                   std::to_string(i) + ", expected " + wanted.to_string());
    }
    check_zero_points(scales);
  }

  void check_zero_points(const Shape& scales) const {
    if (!node_.has(kZeroPoints)) return;
    Shape wanted = scales;
    wanted.back() = ceil_div(wanted.back(), Dim(per_byte(kZeroPoints)));
    const Shape zeros = node_.shape(kZeroPoints);
    bool fits = zeros.size() == wanted.size();
    for (size_t i = 0; fits && i < wanted.size(); ++i)
      fits = !zeros[i].is_constant() || !wanted[i].is_constant() || zeros[i] == wanted[i];
    if (!fits)
      node_.fail("its zero points have shape " + to_string(zeros) + ", expected " + to_string(wanted));
  }

  // Indices outside of the table give zeros: they are read as 0, and what they gave is left out at the end.
  void read_indices() {
    const DType type = node_.dtype(kIndices);
    if (type != DType::Int32 && type != DType::Int64) node_.fail("its indices must be int32 or int64");
    indices_ = node_.in(kIndices);
    const Dim count = logical_[static_cast<size_t>(axis_)];
    if (const auto known = node_.known_ints(kIndices); known && count.is_constant()) {
      const auto inside = [&](int64_t i) { return i >= -count.value() && i < count.value(); };
      if (std::all_of(known->begin(), known->end(), inside)) return;
    }
    indices_ = node_.cast(indices_, DType::Int64, "whole_indices");
    const ValueId end = node_.dim_scalar(count), start = node_.pointwise(C::Neg, {end}, "first");
    const ValueId inside =
        node_.pointwise(C::And,
                        {node_.pointwise(C::GreaterOrEqual, {indices_, start}, "behind_first"),
                         node_.pointwise(C::Less, {indices_, end}, "before_end")},
                        "is_inside");
    indices_ = node_.pointwise(C::Where, {inside, indices_, node_.scalar(0, DType::Int64)}, "safe_indices");
    Shape shape = node_.shape(kIndices);
    shape.resize(shape.size() + static_cast<size_t>(rank_ - 1 - axis_), Dim(1));
    in_range_ = node_.reshape(inside, shape, "inside_axes");
  }

  // A tensor whose elements are of whole bytes: as it is, or a copy of a constant.
  ValueId whole_bytes(size_t input, const std::string& name) {
    const DType type = node_.dtype(input);
    if (!is_sub_byte(type)) return node_.in(input);
    const Tensor given = node_.constant(input);
    if (per_byte(input) > 1) {
      Extents extents = given.extents();
      extents.back() /= per_byte(input);
      const auto owner = std::make_shared<const Tensor>(given);
      return node_.constant(Tensor::wrap(DType::UInt8, extents, owner->bytes(), owner), name + "_bytes");
    }
    const DType wide = is_float(type) ? DType::Float8E4M3FN : is_signed_table() ? DType::Int8 : DType::UInt8;
    return node_.constant(Tensor::from_doubles(wide, given.extents(), given.to_doubles()), name + "_bytes");
  }

  // The gathered part of data or zero points as numbers, `length` of them in the last dimension of the table.
  ValueId gathered_numbers(size_t input, const Dim& length, const std::string& name) {
    const ValueId bytes =
        node_.add(Gather{.axis = axis_}, {whole_bytes(input, name), indices_}, name + "_rows");
    const ValueId numbers = node_.cast(bytes, DType::Float32, name + "_numbers");
    return per_byte(input) == 1 ? numbers : taken_apart(numbers, per_byte(input), length, name);
  }

  // Numbers of bytes (..., n) to those of their elements (..., length), the lowest bits first.
  ValueId taken_apart(ValueId bytes, int64_t count, const Dim& length, const std::string& name) {
    const int64_t bits = 8 / count;
    const double values = static_cast<double>(int64_t{1} << bits);
    std::vector<double> units;
    for (int64_t i = 0; i < count; ++i) units.push_back(1.0 / static_cast<double>(int64_t{1} << (i * bits)));
    Shape shape = node_.shape_of(bytes);
    const Dim whole = shape.back() * Dim(count);
    shape.push_back(1);
    const ValueId unit =
        node_.constant(Tensor::from_doubles(DType::Float32, {count}, units), name + "_units");
    const ValueId shifted = floor_of(node_.reshape(bytes, shape, name + "_column"), unit, name + "_shifted");
    const ValueId above = floor_of(shifted, number(1 / values), name + "_above");
    ValueId elements = less(shifted, above, values, name + "_elements");
    if (is_signed_table()) {  // 8 to 15 are -8 to -1
      const ValueId half = floor_of(elements, number(2 / values), name + "_half");
      elements = less(elements, half, values, name + "_signed");
    }
    shape.pop_back();
    shape.back() = whole;
    const ValueId all = node_.reshape(elements, shape, name + "_row");
    if (whole == length) return all;
    return node_.slice(all, static_cast<int64_t>(shape.size()) - 1, 0, length, name + "_used");
  }

  ValueId floor_of(ValueId x, ValueId factor, const std::string& name) {
    return node_.pointwise(C::Floor, {node_.pointwise(C::Mul, {x, factor}, name + "_exact")}, name);
  }
  // x - factor * y
  ValueId less(ValueId x, ValueId y, double factor, const std::string& name) {
    return node_.pointwise(C::Sub, {x, node_.pointwise(C::Mul, {y, number(factor)}, name + "_rest")}, name);
  }

  ValueId zero_points() {
    if (node_.has(kZeroPoints)) return spread(gathered_by_block(kZeroPoints, "zeros"), "zeros");
    return number(static_cast<double>(int64_t{1} << (bits_ - 1)));
  }

  // Scales or zero points at the gathered places, still one per block.
  ValueId gathered_by_block(size_t input, const std::string& name) {
    const bool shared = node_.shape(input)[static_cast<size_t>(axis_)].is_constant(1) && is_float_table();
    if (axis_ != quantized_ && !shared && input == kZeroPoints)
      return gathered_numbers(input, node_.shape(kScales).back(), name);
    ValueId at = indices_;
    if (axis_ == quantized_) at = block_indices();
    if (shared) at = node_.pointwise(C::Mul, {at, node_.scalar(0, node_.dtype_of(at))}, name + "_shared");
    const ValueId part = node_.add(Gather{.axis = axis_}, {whole_bytes(input, name), at}, name + "_rows");
    return node_.cast(part, DType::Float32, name + "_numbers");
  }

  // The block of each index, which may count from the end.
  ValueId block_indices() {
    const ValueId index = node_.cast(indices_, DType::Int64, "index");
    const ValueId zero = node_.scalar(0, DType::Int64);
    const ValueId count = node_.dim_scalar(logical_[static_cast<size_t>(axis_)]);
    const ValueId from_end = node_.pointwise(C::Add, {index, count}, "from_end");
    const ValueId positive = node_.pointwise(
        C::Where, {node_.pointwise(C::Less, {index, zero}, "is_negative"), from_end, index}, "positive");
    return node_.pointwise(C::Div, {positive, node_.scalar(static_cast<double>(block_), DType::Int64)},
                           "block");
  }

  // The quantised axis of what was gathered, when it is not the gathered axis itself.
  size_t quantized_axis() const {
    return static_cast<size_t>(quantized_ < axis_ ? quantized_ : quantized_ + node_.rank(kIndices) - 1);
  }
  bool has_whole_blocks() const {
    return axis_ != quantized_ && logical_[static_cast<size_t>(quantized_)].value() % block_ == 0;
  }

  // Whole blocks get an axis of their own, so that their scale is broadcast.
  ValueId by_blocks(ValueId numbers) {
    if (!has_whole_blocks()) return numbers;
    Shape shape = node_.shape_of(numbers);
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(quantized_axis());
    *at = at->value() / block_;
    shape.insert(at + 1, Dim(block_));
    return node_.reshape(numbers, shape, "blocks");
  }

  // One number per block, so that it meets the elements: with an axis of one behind, or else repeated. Where
  // a table is gathered along its blocks there is one per element already.
  ValueId spread(ValueId blocks, const std::string& name) {
    if (axis_ == quantized_) return blocks;
    const auto axis = static_cast<std::ptrdiff_t>(quantized_axis());
    Shape shape = node_.shape_of(blocks);
    shape.insert(shape.begin() + axis + 1, Dim(1));
    const ValueId column = node_.reshape(blocks, shape, name + "_column");
    if (has_whole_blocks()) return column;
    shape[static_cast<size_t>(axis) + 1] = block_;
    const ValueId repeated = node_.expand(column, shape, name + "_repeated");
    Shape flat = node_.shape_of(blocks);
    flat[static_cast<size_t>(axis)] = flat[static_cast<size_t>(axis)] * Dim(block_);
    return node_.slice(node_.reshape(repeated, flat, name + "_row"), axis, 0,
                       logical_[static_cast<size_t>(quantized_)], name + "_of_elements");
  }

  NodeImport& node_;
  const int64_t rank_;
  int64_t axis_ = 0, quantized_ = 1, block_ = 128, bits_ = 8;
  Shape logical_;  // of the data, by elements
  bool rows_of_bytes_ = false;
  ValueId indices_ = kNoValue, in_range_ = kNoValue;
};

Values import_gather_block_quantized(NodeImport& node) {
  return GatherQuantizedImport(node).run();
}

}  // namespace

std::vector<Importer> microsoft_gather_quantized_importers() {
  return {{"GatherBlockQuantized", 1, kLatestOpset, import_gather_block_quantized, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
