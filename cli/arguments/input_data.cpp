// SPDX-License-Identifier: Apache-2.0
#include "arguments/input_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <deque>
#include <filesystem>
#include <limits>
#include <set>

#include "arguments/numpy_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/floats.h"
#include "image/image.h"

namespace lathe::cli {
namespace {

// x <- 16807 x mod (2^31 - 1), as std::minstd_rand0; the maps to numbers are those of the standard library
// that trtexec is built with, so that its inputs and ours are equal.
class Generator {
 public:
  double unit() { return static_cast<double>(next() - 1) / 2147483646.0; }
  // 0 .. count-1, of which one draw reaches the first two billion.
  int64_t below(int64_t count) {
    constexpr int64_t kSpan = 2147483645;
    count = std::clamp<int64_t>(count, 1, kSpan);
    const int64_t scale = kSpan / count;
    int64_t value = 0;
    do {
      value = next() - 1;
    } while (value >= count * scale);
    return value / scale;
  }

 private:
  int64_t next() { return state_ = state_ * 16807 % 2147483647; }
  int64_t state_ = 1;
};

template <class T, class Make>
void fill(Tensor& tensor, Make make) {
  for (T& element : tensor.mutable_data<T>()) element = static_cast<T>(make());
}

bool passes_integers_on(const Op& op) {
  return std::holds_alternative<Cast>(op) || std::holds_alternative<Reformat>(op) ||
         std::holds_alternative<ReshapeOp>(op) || std::holds_alternative<Transpose>(op) ||
         std::holds_alternative<Slice>(op) || std::holds_alternative<Expand>(op) ||
         std::holds_alternative<Split>(op) || std::holds_alternative<Concat>(op) ||
         std::holds_alternative<Tile>(op) || std::holds_alternative<Pointwise>(op) ||
         std::holds_alternative<PointwiseChain>(op) || std::holds_alternative<Gather>(op);
}

// The length of the axis that a node indexes with `value`; 0: it is not used as an index.
int64_t indexed_length(const Graph& graph, const Node& node, ValueId value) {
  if (node.inputs.size() < 2 || node.inputs[1] != value) return 0;
  int64_t axis = 0;
  if (const auto* gather = std::get_if<Gather>(&node.op)) {
    axis = gather->axis;
  } else if (const auto* elements = std::get_if<GatherElements>(&node.op)) {
    axis = elements->axis;
  } else {
    return 0;
  }
  const Shape& shape = graph.value(node.inputs[0]).shape;
  const auto index = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  if (index >= shape.size()) return 0;
  return shape[index].is_constant() ? shape[index].value() : 1;  // of an unknown length only 0 is safe
}

bool is_mask_name(const std::string& name) {
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower.find("mask") != std::string::npos;
}

std::string unfit(const std::string& file, int64_t wanted, int64_t found) {
  return fmt::format(
      "Unexpected file size for input file: {}. Note: Input binding size is: {} bytes but the file size is "
      "{} bytes. Double "
      "check the size and datatype of the provided data.",
      file, wanted, found);
}

Tensor load_raw(const std::string& file, DType dtype, const Extents& extents) {
  const auto mapped = MappedFile::open(file);
  Tensor tensor = Tensor::allocate(dtype, extents);
  const size_t wanted = tensor.bytes().size(), found = mapped->bytes().size();
  if (found != wanted && found != 2 * wanted) {
    throw_input_error(unfit(file, static_cast<int64_t>(wanted), static_cast<int64_t>(found)));
  }
  if (wanted > 0) std::memcpy(tensor.mutable_bytes().data(), mapped->bytes().data(), wanted);
  return tensor;
}

// Strings with zeros behind their ends, as many bytes as the input has room for; as they are where they do
// not fit.
Tensor with_room(const Tensor& strings, const Extents& extents) {
  const int64_t longest = strings.extents().back(), room = extents.empty() ? 0 : extents.back();
  Extents widened = strings.extents();
  widened.back() = room;
  if (longest >= room || widened != extents) return strings;
  Tensor tensor = Tensor::allocate(DType::UInt8, extents);
  const auto from = static_cast<size_t>(longest), to = static_cast<size_t>(room);
  const size_t count = tensor.bytes().size() / to;
  for (size_t i = 0; i < count && from > 0; ++i)
    std::memcpy(tensor.mutable_bytes().data() + i * to, strings.bytes().data() + i * from, from);
  return tensor;
}

}  // namespace

ValueRange integer_range(const Graph& graph, ValueId input) {
  int64_t shortest = std::numeric_limits<int64_t>::max();
  std::deque<ValueId> queue{input};
  std::set<ValueId> seen{input};
  while (!queue.empty()) {
    const ValueId value = queue.front();
    queue.pop_front();
    for (const NodeId id : graph.users(value)) {
      const Node& node = graph.node(id);
      const int64_t length = indexed_length(graph, node, value);
      if (length > 0) shortest = std::min(shortest, length);
      if (length > 0 || !passes_integers_on(node.op)) continue;
      for (const ValueId output : node.outputs) {
        if (output != kNoValue && is_integer(graph.value(output).dtype) && seen.insert(output).second)
          queue.push_back(output);
      }
    }
  }
  if (shortest != std::numeric_limits<int64_t>::max()) return {0, std::max<int64_t>(shortest - 1, 0)};
  if (is_mask_name(graph.value(input).name)) return {1, 1};
  return {};
}

Tensor random_tensor(DType dtype, const Extents& extents, const ValueRange& range) {
  Tensor tensor = Tensor::allocate(dtype, extents);
  Generator generator;
  const auto real = [&] { return static_cast<float>(2 * generator.unit() - 1); };
  const uint64_t others = static_cast<uint64_t>(range.high) - static_cast<uint64_t>(range.low);
  const auto count =
      static_cast<int64_t>(std::min<uint64_t>(others, std::numeric_limits<int64_t>::max() - 1) + 1);
  const auto whole = [&] { return range.low + generator.below(count); };
  const bool is_default = range == ValueRange{};
  switch (dtype) {
    case DType::Float32:
      fill<float>(tensor, real);
      break;
    case DType::Float64:
      fill<double>(tensor, real);
      break;
    case DType::Float16:
      fill<uint16_t>(tensor, [&] { return float_to_fp16(real()); });
      break;
    case DType::BFloat16:
      fill<uint16_t>(tensor, [&] { return float_to_bf16(real()); });
      break;
    case DType::Int8:
      fill<int8_t>(tensor, whole);
      break;
    case DType::Int16:
      fill<int16_t>(tensor, whole);
      break;
    case DType::Int32:
      fill<int32_t>(tensor, whole);
      break;
    case DType::Int64:
      fill<int64_t>(tensor, whole);
      break;
    case DType::UInt16:
      fill<uint16_t>(tensor, [&] { return is_default ? generator.below(256) : whole(); });
      break;
    case DType::UInt32:
      fill<uint32_t>(tensor, [&] { return is_default ? generator.below(256) : whole(); });
      break;
    case DType::UInt64:
      fill<uint64_t>(tensor, [&] { return is_default ? generator.below(256) : whole(); });
      break;
    case DType::UInt8:
      fill<uint8_t>(tensor, [&] { return is_default ? generator.below(256) : whole(); });
      break;
    case DType::Bool:
      fill<uint8_t>(tensor, [&] { return is_default ? generator.below(2) : whole(); });
      break;
    case DType::Float8E4M3FN:
      fill<uint8_t>(tensor, [&] { return float_to_fp8(real(), Fp8Kind::E4M3FN); });
      break;
    case DType::Float8E4M3FNUZ:
      fill<uint8_t>(tensor, [&] { return float_to_fp8(real(), Fp8Kind::E4M3FNUZ); });
      break;
    case DType::Float8E5M2:
      fill<uint8_t>(tensor, [&] { return float_to_fp8(real(), Fp8Kind::E5M2); });
      break;
    case DType::Float8E5M2FNUZ:
      fill<uint8_t>(tensor, [&] { return float_to_fp8(real(), Fp8Kind::E5M2FNUZ); });
      break;
    case DType::Float8E8M0:
      fill<uint8_t>(tensor, [&] { return float_to_e8m0(std::fabs(real())); });
      break;
    case DType::Int4:
    case DType::UInt4:
    case DType::Int2:
    case DType::UInt2:
    case DType::Float4E2M1:
      for (auto& byte : tensor.mutable_bytes()) byte = static_cast<std::byte>(generator.below(256));
      break;
    case DType::Undefined:
      check(false, "random values need a type");
  }
  return tensor;
}

Tensor load_input(const std::string& file, std::string_view input, DType dtype, const Extents& extents,
                  std::string_view preprocess) {
  if (!std::filesystem::is_regular_file(file)) throw_input_error(fmt::format("Cannot open file {}!", file));
  if (is_image_file(file)) {
    const std::string_view usual = is_float(dtype) ? "imagenet" : "pixels";
    return read_image(file, dtype, extents, preprocess_of(preprocess.empty() ? usual : preprocess));
  }
  const auto extension = std::filesystem::path(file).extension();
  NumpyArray array;
  if (extension == ".npy") {
    array = parse_npy(MappedFile::open(file)->bytes(), file);
  } else if (extension == ".npz") {
    constexpr size_t kHeaderRoom = 1 << 16;
    array = read_npz(file, input,
                     static_cast<size_t>(dtype_bytes(DType::Float64, element_count(extents))) + kHeaderRoom);
  } else {
    return load_raw(file, dtype, extents);
  }
  const Tensor tensor = array.has_strings ? with_room(array.tensor, extents) : array.tensor;
  if (tensor.dtype() != dtype || tensor.extents() != extents) {
    throw_input_error(
        fmt::format("{}: holds {} {}, but input {} takes {} {} (see --shapes, and numpy's astype)", file,
                    dtype_name(tensor.dtype()), to_string(tensor.extents()), input, dtype_name(dtype),
                    to_string(extents)));
  }
  return tensor;
}

}  // namespace lathe::cli
