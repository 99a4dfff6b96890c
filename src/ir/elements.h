// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing tensor elements of any type as double or int64, in runs. Evaluation is written once
// over these two wide types; what is particular to a storage type (bf16, fp8, packed int4, saturation) stands
// here and nowhere else.
//
// uint64 travels in int64 as the same 64 bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/floats.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

namespace lathe {

// Weights may point into a file, where nothing is aligned.
template <class T>
T load_unaligned(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// --- codecs: how one element of a type is read and written. `Wide` is what it is read as.
template <class T>
struct PlainCodec {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T,
                                  std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  static constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
  static constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
  static Wide get(const std::byte* data, int64_t i) { return load_unaligned<T>(data, i); }
  static void put(std::byte* data, int64_t i, Wide value) {
    reinterpret_cast<T*>(data)[i] = static_cast<T>(value);
  }
};

struct BoolCodec {
  using Wide = int64_t;
  static constexpr bool kFloat = false;
  static constexpr double kLow = 0, kHigh = 1;
  static Wide get(const std::byte* data, int64_t i) { return data[i] != std::byte{0}; }
  static void put(std::byte* data, int64_t i, Wide value) { data[i] = std::byte{value != 0}; }
};

template <float (*Decode)(uint16_t), uint16_t (*Encode)(float)>
struct HalfCodec {
  using Wide = float;
  static constexpr bool kFloat = true;
  static float get(const std::byte* data, int64_t i) { return Decode(load_unaligned<uint16_t>(data, i)); }
  static void put(std::byte* data, int64_t i, float value) {
    reinterpret_cast<uint16_t*>(data)[i] = Encode(value);
  }
};

template <Fp8Kind Kind>
struct Fp8Codec {
  using Wide = float;
  static constexpr bool kFloat = true;
  static float get(const std::byte* data, int64_t i) {
    return fp8_to_float(static_cast<uint8_t>(data[i]), Kind);
  }
  static void put(std::byte* data, int64_t i, float value) { put(data, i, value, true); }
  static void put(std::byte* data, int64_t i, float value, bool saturate) {
    data[i] = static_cast<std::byte>(float_to_fp8(value, Kind, saturate));
  }
};

// Codes of 4 or 2 bits that share a byte, lowest bits first.
template <int Bits>
struct Packed {
  static constexpr int kPerByte = 8 / Bits, kMask = (1 << Bits) - 1;
  static int get(const std::byte* data, int64_t i) {
    return (static_cast<int>(data[i / kPerByte]) >> (i % kPerByte * Bits)) & kMask;
  }
  static void put(std::byte* data, int64_t i, int code) {
    const int shift = static_cast<int>(i % kPerByte) * Bits;
    const int kept = static_cast<int>(data[i / kPerByte]) & ~(kMask << shift);
    data[i / kPerByte] = static_cast<std::byte>(kept | ((code & kMask) << shift));
  }
};

template <int Bits, bool Signed>
struct PackedIntCodec {
  using Wide = int64_t;
  static constexpr bool kFloat = false;
  static constexpr int kValues = 1 << Bits;
  static constexpr double kLow = Signed ? -kValues / 2 : 0, kHigh = (Signed ? kValues / 2 : kValues) - 1;
  static Wide get(const std::byte* data, int64_t i) {
    const int code = Packed<Bits>::get(data, i);
    return Signed && code >= kValues / 2 ? code - kValues : code;
  }
  static void put(std::byte* data, int64_t i, Wide value) {
    Packed<Bits>::put(data, i, static_cast<int>(value & (kValues - 1)));
  }
};

struct Fp4Codec {
  using Wide = float;
  static constexpr bool kFloat = true;
  static float get(const std::byte* data, int64_t i) {
    return fp4_to_float(static_cast<uint8_t>(Packed<4>::get(data, i)));
  }
  static void put(std::byte* data, int64_t i, float value) { Packed<4>::put(data, i, float_to_fp4(value)); }
};

struct E8M0Codec {
  using Wide = float;
  static constexpr bool kFloat = true;
  static float get(const std::byte* data, int64_t i) { return e8m0_to_float(static_cast<uint8_t>(data[i])); }
  static void put(std::byte* data, int64_t i, float value) {
    data[i] = static_cast<std::byte>(float_to_e8m0(value));
  }
};

// Calls f.operator()<Codec>() for the type.
template <class F>
decltype(auto) with_codec(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32:
      return f.template operator()<PlainCodec<float>>();
    case DType::Float64:
      return f.template operator()<PlainCodec<double>>();
    case DType::Float16:
      return f.template operator()<HalfCodec<fp16_to_float, float_to_fp16>>();
    case DType::BFloat16:
      return f.template operator()<HalfCodec<bf16_to_float, float_to_bf16>>();
    case DType::Int8:
      return f.template operator()<PlainCodec<int8_t>>();
    case DType::UInt8:
      return f.template operator()<PlainCodec<uint8_t>>();
    case DType::Int16:
      return f.template operator()<PlainCodec<int16_t>>();
    case DType::UInt16:
      return f.template operator()<PlainCodec<uint16_t>>();
    case DType::Int32:
      return f.template operator()<PlainCodec<int32_t>>();
    case DType::UInt32:
      return f.template operator()<PlainCodec<uint32_t>>();
    case DType::Int64:
      return f.template operator()<PlainCodec<int64_t>>();
    case DType::UInt64:
      return f.template operator()<PlainCodec<uint64_t>>();
    case DType::Bool:
      return f.template operator()<BoolCodec>();
    case DType::Int4:
      return f.template operator()<PackedIntCodec<4, true>>();
    case DType::UInt4:
      return f.template operator()<PackedIntCodec<4, false>>();
    case DType::Int2:
      return f.template operator()<PackedIntCodec<2, true>>();
    case DType::UInt2:
      return f.template operator()<PackedIntCodec<2, false>>();
    case DType::Float4E2M1:
      return f.template operator()<Fp4Codec>();
    case DType::Float8E8M0:
      return f.template operator()<E8M0Codec>();
    case DType::Float8E4M3FN:
      return f.template operator()<Fp8Codec<Fp8Kind::E4M3FN>>();
    case DType::Float8E4M3FNUZ:
      return f.template operator()<Fp8Codec<Fp8Kind::E4M3FNUZ>>();
    case DType::Float8E5M2:
      return f.template operator()<Fp8Codec<Fp8Kind::E5M2>>();
    case DType::Float8E5M2FNUZ:
      return f.template operator()<Fp8Codec<Fp8Kind::E5M2FNUZ>>();
    case DType::Undefined:
      break;
  }
  throw_input_error("a tensor has no element type");
}

// --- runs of elements [begin, begin + count)
void load_doubles(const Tensor& tensor, int64_t begin, int64_t count, double* out);
void load_int64s(const Tensor& tensor, int64_t begin, int64_t count, int64_t* out);  // floats are truncated
void load_doubles(DType dtype, const std::byte* data, int64_t begin, int64_t count, double* out);
void load_int64s(DType dtype, const std::byte* data, int64_t begin, int64_t count, int64_t* out);

// The destination of a parallel evaluation: writers on several threads may store runs that share no byte (for
// types of 4 and 2 bits: runs that begin at multiples of four).
class ElementWriter {
 public:
  explicit ElementWriter(Tensor& tensor) : ElementWriter(tensor.dtype(), tensor.mutable_bytes().data()) {}
  ElementWriter(DType dtype, std::byte* data) : dtype_(dtype), data_(data) {}
  // Integers truncate toward zero and saturate, bool is "not zero", fp8 saturates when asked to.
  void store_doubles(int64_t begin, int64_t count, const double* values, bool saturate = true) const;
  // Integers keep their low bits. `from_unsigned`: the values are uint64 bits (matters for float types).
  void store_int64s(int64_t begin, int64_t count, const int64_t* values, bool from_unsigned = false) const;

 private:
  DType dtype_;
  std::byte* data_;
};

// Toward zero; NaN gives 0, what is out of range the nearest.
int64_t truncate_to_int64(double value);
// Bits of an integer type are kept, the rest is thrown away: what arithmetic in that type does on overflow.
int64_t wrap_integer(int64_t value, DType dtype);

}  // namespace lathe
