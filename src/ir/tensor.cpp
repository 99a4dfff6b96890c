// SPDX-License-Identifier: Apache-2.0
//
// Bytes are held by one shared pointer whether they are ours or a mapped file's; only ours may be written.
#include "ir/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "base/floats.h"

namespace lathe {
namespace {

constexpr size_t kAlignment = 64;

// Calls f(T{}) with the C++ type that stores `dtype`; small floats and int4 are handled by the callers.
template <class F>
bool with_plain_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32:
      f(float{});
      return true;
    case DType::Float64:
      f(double{});
      return true;
    case DType::UInt8:
      f(uint8_t{});
      return true;
    case DType::Int8:
      f(int8_t{});
      return true;
    case DType::UInt16:
      f(uint16_t{});
      return true;
    case DType::Int16:
      f(int16_t{});
      return true;
    case DType::UInt32:
      f(uint32_t{});
      return true;
    case DType::Int32:
      f(int32_t{});
      return true;
    case DType::UInt64:
      f(uint64_t{});
      return true;
    case DType::Int64:
      f(int64_t{});
      return true;
    default:
      return false;
  }
}

Fp8Kind fp8_kind(DType dtype) {
  switch (dtype) {
    case DType::Float8E4M3FN:
      return Fp8Kind::E4M3FN;
    case DType::Float8E4M3FNUZ:
      return Fp8Kind::E4M3FNUZ;
    case DType::Float8E5M2:
      return Fp8Kind::E5M2;
    default:
      check(dtype == DType::Float8E5M2FNUZ, "not an FP8 type");
      return Fp8Kind::E5M2FNUZ;
  }
}

int int4_at(std::span<const std::byte> bytes, int64_t i, bool is_signed) {
  const int byte = std::to_integer<int>(bytes[static_cast<size_t>(i / 2)]);
  const int nibble = i % 2 ? byte >> 4 : byte & 15;
  return is_signed && nibble >= 8 ? nibble - 16 : nibble;
}

// An element of a type that C++ has no name for.
double small_element(DType dtype, std::span<const std::byte> bytes, int64_t i) {
  const auto byte = [&] { return std::to_integer<uint8_t>(bytes[static_cast<size_t>(i)]); };
  const auto half = [&] {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    return bits;
  };
  switch (dtype) {
    case DType::Bool:
      return byte() ? 1 : 0;
    case DType::Float16:
      return fp16_to_float(half());
    case DType::BFloat16:
      return bf16_to_float(half());
    case DType::Int4:
      return int4_at(bytes, i, true);
    case DType::UInt4:
      return int4_at(bytes, i, false);
    default:
      return fp8_to_float(byte(), fp8_kind(dtype));
  }
}

// Rounds toward zero and saturates; NaN gives 0.
template <class T>
T saturate_to(double value) {
  if (std::isnan(value)) return 0;
  const double truncated = std::trunc(value);
  // The largest 64-bit integers are no doubles: compare with the power of two above them.
  if (truncated >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
  if (truncated <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(truncated);
}

void store_small_element(DType dtype, std::span<std::byte> bytes, int64_t i, double value) {
  const auto store_half = [&](uint16_t bits) { std::memcpy(bytes.data() + 2 * i, &bits, 2); };
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::Bool:
      bytes[static_cast<size_t>(i)] = std::byte(value != 0);
      return;
    case DType::Float16:
      store_half(float_to_fp16(narrow));
      return;
    case DType::BFloat16:
      store_half(float_to_bf16(narrow));
      return;
    case DType::Int4:
    case DType::UInt4: {
      const int low = dtype == DType::Int4 ? -8 : 0;
      const double clamped = std::fmax(low, std::fmin(low + 15, std::isnan(value) ? 0 : std::trunc(value)));
      const int nibble = static_cast<int>(clamped) & 15;
      std::byte& byte = bytes[static_cast<size_t>(i / 2)];
      byte = i % 2 ? (byte & std::byte(0x0f)) | std::byte(nibble << 4)
                   : (byte & std::byte(0xf0)) | std::byte(nibble);
      return;
    }
    default:
      bytes[static_cast<size_t>(i)] = std::byte(float_to_fp8(narrow, fp8_kind(dtype)));
      return;
  }
}

}  // namespace

Tensor Tensor::allocate(DType dtype, Extents extents) {
  check(dtype != DType::Undefined, "Tensor::allocate: undefined element type");
  Tensor t;
  const int64_t elements = element_count(extents);
  if (elements > std::numeric_limits<int64_t>::max() / 16) {
    throw_input_error("a tensor of " + to_string(extents) + " elements does not fit into memory");
  }
  t.byte_count_ = static_cast<size_t>(dtype_bytes(dtype, elements));
  const size_t rounded =
      std::max<size_t>((t.byte_count_ + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  auto* bytes = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (!bytes) {
    throw_system_error("out of memory: " + std::to_string(rounded) + " bytes for a " +
                       std::string(dtype_name(dtype)) + " tensor of " + to_string(extents));
  }
  std::memset(bytes, 0, rounded);
  t.data_ = std::shared_ptr<const std::byte>(
      bytes, [](const std::byte* p) { std::free(const_cast<std::byte*>(p)); });
  t.dtype_ = dtype;
  t.extents_ = std::move(extents);
  t.writable_ = true;
  return t;
}

Tensor Tensor::wrap(DType dtype, Extents extents, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> keep_alive) {
  check(static_cast<int64_t>(bytes.size()) == dtype_bytes(dtype, element_count(extents)),
        "Tensor::wrap: byte count differs from type and extents");
  Tensor t;
  t.dtype_ = dtype;
  t.extents_ = std::move(extents);
  t.byte_count_ = bytes.size();
  t.data_ = std::shared_ptr<const std::byte>(std::move(keep_alive), bytes.data());
  return t;
}

Tensor Tensor::without_bytes(DType dtype, Extents extents) {
  Tensor t;
  t.dtype_ = dtype;
  t.extents_ = std::move(extents);
  return t;
}

std::span<std::byte> Tensor::mutable_bytes() {
  check(writable_ && data_.use_count() == 1, "Tensor::mutable_bytes: the bytes are shared or not ours");
  return {const_cast<std::byte*>(data_.get()), byte_count_};
}

Tensor Tensor::reshaped(Extents extents) const {
  check(element_count(extents) == size(), "Tensor::reshaped: " + to_string(extents_) + " to " +
                                              to_string(extents) + " changes the element count");
  Tensor t = *this;
  t.extents_ = std::move(extents);
  return t;
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> values(static_cast<size_t>(size()));
  const bool plain = with_plain_type(dtype_, [&]<class T>(T) {
    const auto in = data<T>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(in[i]);
  });
  if (plain) return values;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = small_element(dtype_, bytes(), static_cast<int64_t>(i));
  return values;
}

std::vector<int64_t> Tensor::to_int64s() const {
  if (dtype_ == DType::UInt64) {
    std::vector<int64_t> values;
    for (uint64_t v : data<uint64_t>()) values.push_back(static_cast<int64_t>(v));
    return values;
  }
  if (dtype_ == DType::Int64) {
    const auto in = data<int64_t>();
    return {in.begin(), in.end()};
  }
  std::vector<int64_t> values;
  for (double v : to_doubles()) values.push_back(saturate_to<int64_t>(v));
  return values;
}

Tensor Tensor::from_doubles(DType dtype, Extents extents, std::span<const double> values) {
  Tensor t = allocate(dtype, std::move(extents));
  check(static_cast<int64_t>(values.size()) == t.size(),
        "Tensor::from_doubles: value count differs from extents");
  const bool plain = with_plain_type(dtype, [&]<class T>(T) {
    auto out = t.mutable_data<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        out[i] = saturate_to<T>(values[i]);
      } else {
        out[i] = static_cast<T>(values[i]);
      }
    }
  });
  if (plain) return t;
  const auto bytes = t.mutable_bytes();
  for (size_t i = 0; i < values.size(); ++i)
    store_small_element(dtype, bytes, static_cast<int64_t>(i), values[i]);
  return t;
}

}  // namespace lathe
