// SPDX-License-Identifier: Apache-2.0
//
// One strided copy serves all. Dims that lie one after the other in source and result are merged first; what
// is left is a loop nest whose innermost dim is a memcpy (stride 1), a fill (stride 0) or a strided load.
#include "ops/movement.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace lathe {
namespace {

struct CopyLoop {
  int64_t extent, stride;
};

// Outermost first, never empty, extents > 1 but for a lone element.
std::vector<CopyLoop> merged_loops(const Extents& extents, const Extents& strides) {
  std::vector<CopyLoop> loops;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    if (!loops.empty() && loops.back().stride == strides[d] * extents[d]) {
      loops.back() = {loops.back().extent * extents[d], strides[d]};
    } else {
      loops.push_back({extents[d], strides[d]});
    }
  }
  if (loops.empty()) loops.push_back({1, 1});
  return loops;
}

template <class T>
void copy_row(const std::byte* in, int64_t stride, std::byte* out, int64_t count) {
  // memcpy of a fixed size is one load or store and does not mind alignment (weights may lie anywhere in a
  // file).
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), in + i * stride * static_cast<int64_t>(sizeof(T)),
                sizeof(T));
  }
}

void copy_innermost(const std::byte* in, int64_t stride, std::byte* out, int64_t count, int64_t bytes) {
  if (stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(count * bytes));
    return;
  }
  switch (bytes) {
    case 1:
      return copy_row<uint8_t>(in, stride, out, count);
    case 2:
      return copy_row<uint16_t>(in, stride, out, count);
    case 4:
      return copy_row<uint32_t>(in, stride, out, count);
    default:
      check(bytes == 8, "copy_strided: unexpected element size");
      return copy_row<uint64_t>(in, stride, out, count);
  }
}

// Rows [first, last) of the loop nest, a row being the innermost loop.
void copy_rows(const std::byte* in, const std::vector<CopyLoop>& loops, int64_t first, int64_t last,
               std::byte* out, int64_t bytes) {
  const size_t outer = loops.size() - 1;
  const CopyLoop inner = loops.back();
  std::vector<int64_t> index(outer, 0);
  int64_t position = 0, rest = first;
  for (size_t d = outer; d-- > 0; rest /= loops[d].extent) {
    index[d] = rest % loops[d].extent;
    position += index[d] * loops[d].stride;
  }
  for (int64_t row = first; row < last; ++row) {
    copy_innermost(in + position * bytes, inner.stride, out + row * inner.extent * bytes, inner.extent,
                   bytes);
    for (size_t d = outer; d-- > 0;) {
      position += loops[d].stride;
      if (++index[d] < loops[d].extent) break;
      position -= loops[d].stride * loops[d].extent;
      index[d] = 0;
    }
  }
}

bool is_packed(DType dtype) {
  return dtype_info(dtype).bits < 8;
}

// Elements of less than a byte as int8 (FP4, whose values are halves, as FP16); everything else as it is.
Tensor unpacked(const Tensor& tensor) {
  if (!tensor || !is_packed(tensor.dtype())) return tensor;
  const DTypeInfo& info = dtype_info(tensor.dtype());
  const DType wide = info.is_float ? DType::Float16 : info.is_signed ? DType::Int8 : DType::UInt8;
  return Tensor::from_doubles(wide, tensor.extents(), tensor.to_doubles());
}

// The positions first, first + 1, ... in the shape of `extents`.
Tensor positions(const Extents& extents, int64_t first) {
  Tensor tensor = Tensor::allocate(DType::Int64, extents);
  for (int64_t& element : tensor.mutable_data<int64_t>()) element = first++;
  return tensor;
}

std::optional<Tensor> known_tensor(const InferContext& context, size_t i) {
  if (!context.has(i)) return Tensor();
  const Value& value = *context.inputs[i];
  if (value.is_constant()) return value.constant;
  const auto contents = context.contents(i);
  if (!contents || !is_static(*contents) || !is_static(value.shape)) return std::nullopt;
  const Extents numbers = to_extents(*contents);
  Tensor tensor = Tensor::from<int64_t>(to_extents(value.shape), numbers);
  return value.dtype == DType::Int64
             ? tensor
             : Tensor::from_doubles(value.dtype, tensor.extents(), tensor.to_doubles());
}

}  // namespace

void check_result_size(DType dtype, const Extents& extents) {
  const int64_t elements = element_count(extents);
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  const int64_t memory = pages > 0 && page_bytes > 0 ? static_cast<int64_t>(pages) * page_bytes : INT64_MAX;
  if (elements > memory / 8 && (elements > INT64_MAX / 8 || dtype_bytes(dtype, elements) > memory)) {
    throw_input_error("the result of shape " + to_string(extents) + " (" + std::string(dtype_name(dtype)) +
                      ") does not fit into this machine's memory");
  }
}

Tensor allocate_result(DType dtype, Extents extents) {
  check_result_size(dtype, extents);
  return Tensor::allocate(dtype, std::move(extents));
}

void copy_strided(const EvaluateContext& context, const std::byte* in, const StridedSource& source,
                  std::byte* out, const Extents& extents, int64_t element_bytes) {
  if (element_count(extents) == 0) return;
  const std::vector<CopyLoop> loops = merged_loops(extents, source.strides);
  const int64_t row = loops.back().extent;
  const std::byte* origin = in + source.offset * element_bytes;
  if (loops.size() == 1 && loops[0].stride == 1) {  // contiguous: cut the one row
    context.parallel_for(row, 1 << 16, [&](int64_t begin, int64_t end) {
      std::memcpy(out + begin * element_bytes, origin + begin * element_bytes,
                  static_cast<size_t>((end - begin) * element_bytes));
    });
    return;
  }
  const int64_t rows = element_count(extents) / row;
  const int64_t grain = std::max<int64_t>(1, (1 << 14) / row);
  context.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    copy_rows(origin, loops, begin, end, out, element_bytes);
  });
}

Tensor gather_strided(const EvaluateContext& context, const Tensor& x, const StridedSource& source,
                      Extents extents) {
  Tensor result = allocate_result(x.dtype(), std::move(extents));
  copy_strided(context, x.bytes().data(), source, result.mutable_bytes().data(), result.extents(),
               element_bytes(x.dtype()));
  return result;
}

int64_t element_bytes(DType dtype) {
  check(!is_packed(dtype), "packed elements have no whole number of bytes");
  return dtype_info(dtype).bits / 8;
}

std::vector<Tensor> move_elements(const EvaluateContext& context, const Evaluation& evaluation) {
  const DType packed =
      context.inputs.empty() || !context.inputs[0] ? DType::Undefined : context.inputs[0].dtype();
  if (packed == DType::Undefined || !is_packed(packed)) return evaluation(context);
  std::vector<Tensor> inputs;
  for (const Tensor& input : context.inputs) inputs.push_back(unpacked(input));
  EvaluateContext wide = context;
  wide.inputs = inputs;
  std::vector<Tensor> results = evaluation(wide);
  const DType unpacked_type = inputs[0].dtype();
  for (Tensor& result : results) {
    if (result && result.dtype() == unpacked_type) {
      result = Tensor::from_doubles(packed, result.extents(), result.to_doubles());
    }
  }
  return results;
}

std::vector<std::optional<Shape>> moved_contents(const InferContext& context,
                                                 const std::vector<size_t>& moved,
                                                 const Evaluation& evaluation) {
  std::vector<std::optional<Shape>> nothing(context.output_count);
  Shape elements;
  std::vector<Tensor> inputs(context.inputs.size());
  for (const size_t i : moved) {
    // An operator of floats, or of a big or unknown tensor, is the usual case: stop before any work.
    const auto contents = context.contents(i);
    if (!contents || !is_static(context.input(i).shape)) return nothing;
    const Extents extents = to_extents(context.input(i).shape);
    if (element_count(extents) != static_cast<int64_t>(contents->size())) return nothing;
    inputs[i] = positions(extents, static_cast<int64_t>(elements.size()));
    elements.insert(elements.end(), contents->begin(), contents->end());
    if (static_cast<int64_t>(elements.size()) > kMaxContents) return nothing;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (std::find(moved.begin(), moved.end(), i) != moved.end()) continue;
    const auto known = known_tensor(context, i);
    if (!known) return nothing;
    inputs[i] = *known;
  }
  EvaluateContext evaluate;
  evaluate.inputs = inputs;
  evaluate.output_count = context.output_count;
  const SymbolValues no_symbols;
  evaluate.symbols = &no_symbols;
  std::vector<std::optional<Shape>> all;
  for (const Tensor& result : evaluation(evaluate)) {
    if (!result || result.size() > kMaxContents || result.dtype() != DType::Int64) {
      all.emplace_back();
      continue;
    }
    Shape contents;
    for (const int64_t position : result.data<int64_t>())
      contents.push_back(elements[static_cast<size_t>(position)]);
    all.push_back(std::move(contents));
  }
  all.resize(std::max(all.size(), context.output_count));
  return all;
}

}  // namespace lathe
