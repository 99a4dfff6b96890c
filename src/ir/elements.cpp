// SPDX-License-Identifier: Apache-2.0
//
// Runs of elements as double or int64, see elements.h.

#include "ir/elements.h"

namespace lathe {

namespace {

// ONNX leaves out-of-range conversions to integers open; saturation is the only choice that cannot surprise
// twice.
template <class Codec>
typename Codec::Wide truncate_to(double value) {
  if (std::isnan(value)) return 0;
  if (value <= Codec::kLow) return static_cast<typename Codec::Wide>(Codec::kLow);
  if constexpr (std::is_same_v<typename Codec::Wide, uint64_t>) {
    return value >= 0x1p64 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(value);
  } else {
    // The largest int64 is no double: kHigh is then the power of two above it.
    if (value < Codec::kHigh) return static_cast<int64_t>(value);
    return Codec::kHigh >= 0x1p63 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(Codec::kHigh);
  }
}

template <class Codec>
constexpr bool kIsFp8 = requires(std::byte* data, float value) {
  Codec::put(data, 0, value, true);
};

}  // namespace

int64_t truncate_to_int64(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value <= -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

void load_doubles(const Tensor& tensor, int64_t begin, int64_t count, double* out) {
  load_doubles(tensor.dtype(), tensor.bytes().data(), begin, count, out);
}

void load_doubles(DType dtype, const std::byte* data, int64_t begin, int64_t count, double* out) {
  with_codec(dtype, [&]<class Codec>() {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(Codec::get(data, begin + i));
  });
}

void load_int64s(const Tensor& tensor, int64_t begin, int64_t count, int64_t* out) {
  load_int64s(tensor.dtype(), tensor.bytes().data(), begin, count, out);
}

void load_int64s(DType dtype, const std::byte* data, int64_t begin, int64_t count, int64_t* out) {
  with_codec(dtype, [&]<class Codec>() {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (Codec::kFloat) {
        out[i] = truncate_to_int64(static_cast<double>(Codec::get(data, begin + i)));
      } else {
        out[i] = static_cast<int64_t>(Codec::get(data, begin + i));
      }
    }
  });
}

void ElementWriter::store_doubles(int64_t begin, int64_t count, const double* values, bool saturate) const {
  with_codec(dtype_, [&]<class Codec>() {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kIsFp8<Codec>) {
        Codec::put(data_, begin + i, static_cast<float>(values[i]), saturate);
      } else if constexpr (Codec::kFloat) {
        Codec::put(data_, begin + i, static_cast<typename Codec::Wide>(values[i]));
      } else if constexpr (std::is_same_v<Codec, BoolCodec>) {
        Codec::put(data_, begin + i, values[i] != 0);  // NaN is true, as in numpy
      } else {
        Codec::put(data_, begin + i, truncate_to<Codec>(values[i]));
      }
    }
  });
}

void ElementWriter::store_int64s(int64_t begin, int64_t count, const int64_t* values,
                                 bool from_unsigned) const {
  with_codec(dtype_, [&]<class Codec>() {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (Codec::kFloat) {
        using Wide = typename Codec::Wide;
        Codec::put(data_, begin + i,
                   from_unsigned ? static_cast<Wide>(static_cast<uint64_t>(values[i]))
                                 : static_cast<Wide>(values[i]));
      } else {
        Codec::put(data_, begin + i, static_cast<typename Codec::Wide>(values[i]));
      }
    }
  });
}

int64_t wrap_integer(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::Int8:
      return static_cast<int8_t>(value);
    case DType::UInt8:
      return static_cast<uint8_t>(value);
    case DType::Int16:
      return static_cast<int16_t>(value);
    case DType::UInt16:
      return static_cast<uint16_t>(value);
    case DType::Int32:
      return static_cast<int32_t>(value);
    case DType::UInt32:
      return static_cast<uint32_t>(value);
    case DType::Bool:
      return value != 0;
    default:
      return value;
  }
}

}  // namespace lathe
