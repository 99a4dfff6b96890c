// SPDX-License-Identifier: Apache-2.0
//
// Bytes are held by one shared pointer whether they are ours or a mapped file's; only ours may be written.
#include "ir/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "base/make_pages.h"
#include "ir/elements.h"

namespace lathe {
namespace {

constexpr size_t kAlignment = 64;

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
                           std::string(dtype_name(dtype)) + " tensor of " + to_string(extents),
                       ErrorCode::FailedAllocation);
  }
  make_pages(bytes, rounded);
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
  recipe_.reset();
  return {const_cast<std::byte*>(data_.get()), byte_count_};
}

Tensor Tensor::with_recipe(std::shared_ptr<const Recipe> recipe) const {
  Tensor t = *this;
  t.recipe_ = std::move(recipe);
  return t;
}

Tensor Tensor::forgotten() const {
  return without_bytes(dtype_, extents_).with_recipe(recipe_);
}

Tensor Tensor::reshaped(Extents extents) const {
  check(element_count(extents) == size(), "Tensor::reshaped: " + to_string(extents_) + " to " +
                                              to_string(extents) + " changes the element count");
  Tensor t = *this;
  t.extents_ = std::move(extents);
  return t;
}

namespace {

void require_bytes(const Tensor& tensor) {
  check(tensor.has_bytes() || tensor.size() == 0, "the bytes of this constant were packed and not kept");
}

}  // namespace

std::vector<double> Tensor::to_doubles() const {
  require_bytes(*this);
  std::vector<double> values(static_cast<size_t>(size()));
  load_doubles(*this, 0, size(), values.data());
  return values;
}

std::vector<int64_t> Tensor::to_int64s() const {
  require_bytes(*this);
  std::vector<int64_t> values(static_cast<size_t>(size()));
  load_int64s(*this, 0, size(), values.data());
  return values;
}

Tensor Tensor::from_doubles(DType dtype, Extents extents, std::span<const double> values) {
  Tensor t = allocate(dtype, std::move(extents));
  check(static_cast<int64_t>(values.size()) == t.size(),
        "Tensor::from_doubles: value count differs from extents");
  ElementWriter(t).store_doubles(0, t.size(), values.data());
  return t;
}

}  // namespace lathe
