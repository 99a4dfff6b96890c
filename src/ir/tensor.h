// SPDX-License-Identifier: Apache-2.0
//
// A host tensor: type, extents and shared bytes, always in linear format. Weights may point into a mapped
// file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "ir/dtype.h"
#include "ir/shape.h"

namespace lathe {

template <class T>
constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::Float32; }
template <> constexpr DType dtype_of<double>() { return DType::Float64; }
template <> constexpr DType dtype_of<int8_t>() { return DType::Int8; }
template <> constexpr DType dtype_of<uint8_t>() { return DType::UInt8; }
template <> constexpr DType dtype_of<int16_t>() { return DType::Int16; }
template <> constexpr DType dtype_of<uint16_t>() { return DType::UInt16; }
template <> constexpr DType dtype_of<int32_t>() { return DType::Int32; }
template <> constexpr DType dtype_of<uint32_t>() { return DType::UInt32; }
template <> constexpr DType dtype_of<int64_t>() { return DType::Int64; }
template <> constexpr DType dtype_of<uint64_t>() { return DType::UInt64; }
template <> constexpr DType dtype_of<bool>() { return DType::Bool; }

struct Recipe;

// Constants of up to so many bytes keep their bytes in an engine file, too, when they were packed or could be
// made again: a tactic may look at them at run time.
inline constexpr int64_t kKeptConstantBytes = 64 << 10;

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled, 64-byte aligned.
  static Tensor allocate(DType dtype, Extents extents);
  // Bytes owned by somebody else (a mapped file): `keep_alive` holds them.
  static Tensor wrap(DType dtype, Extents extents, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> keep_alive);
  // Type and extents of a constant whose bytes were packed elsewhere: an engine does not keep them twice.
  // Reading elements is an internal error.
  static Tensor without_bytes(DType dtype, Extents extents);
  template <class T>
  static Tensor from(Extents extents, const std::vector<T>& values);
  static Tensor scalar_f32(float value) { return from<float>({}, {value}); }
  static Tensor scalar_i64(int64_t value) { return from<int64_t>({}, {value}); }

  explicit operator bool() const { return dtype_ != DType::Undefined; }
  DType dtype() const { return dtype_; }
  const Extents& extents() const { return extents_; }
  int64_t rank() const { return static_cast<int64_t>(extents_.size()); }
  int64_t size() const { return element_count(extents_); }  // elements
  std::span<const std::byte> bytes() const { return {data_.get(), byte_count_}; }
  // False for without_bytes().
  bool has_bytes() const { return data_ != nullptr; }
  // Only while nobody else shares the bytes (they were allocated by us, not wrapped).
  std::span<std::byte> mutable_bytes();

  // Elements as T; T's size must be that of the element type (uint16_t reads float16/bfloat16 bits, uint8_t
  // bool).
  template <class T>
  std::span<const T> data() const;
  template <class T>
  std::span<T> mutable_data();

  // How the elements follow from other tensors, where that is known (ir/recipe.h); it says nothing of the
  // extents. Whoever writes the elements forgets it.
  const std::shared_ptr<const Recipe>& recipe() const { return recipe_; }
  Tensor with_recipe(std::shared_ptr<const Recipe> recipe) const;
  // Type, extents and recipe alone.
  Tensor forgotten() const;

  // Same bytes, other extents (same element count).
  Tensor reshaped(Extents extents) const;
  // Any numeric type (float8 and int4 too) widened to double / int64; bool gives 0 or 1.
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_int64s() const;  // floats are truncated
  // The opposite: rounds and saturates as ONNX's Cast does.
  static Tensor from_doubles(DType dtype, Extents extents, std::span<const double> values);

 private:
  DType dtype_ = DType::Undefined;
  Extents extents_;
  std::shared_ptr<const std::byte> data_;
  std::shared_ptr<const Recipe> recipe_;
  size_t byte_count_ = 0;
  bool writable_ = false;
};

template <class T>
Tensor Tensor::from(Extents extents, const std::vector<T>& values) {
  Tensor t = allocate(dtype_of<T>(), std::move(extents));
  check(static_cast<int64_t>(values.size()) == t.size(), "Tensor::from: value count differs from extents");
  auto out = t.mutable_data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return t;
}

template <class T>
std::span<const T> Tensor::data() const {
  check(static_cast<int>(sizeof(T)) * 8 == dtype_info(dtype_).bits, "Tensor::data: element size differs");
  check(has_bytes() || size() == 0, "Tensor::data: the bytes of this constant were packed and not kept");
  return {reinterpret_cast<const T*>(data_.get()), static_cast<size_t>(size())};
}

template <class T>
std::span<T> Tensor::mutable_data() {
  check(static_cast<int>(sizeof(T)) * 8 == dtype_info(dtype_).bits, "Tensor::mutable_data: element size differs");
  return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<size_t>(size())};
}

}  // namespace lathe
