// SPDX-License-Identifier: Apache-2.0
#include "onnx/wire.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace lathe::onnx {

static_assert(std::endian::native == std::endian::little,
              "the wire format is little endian and so are our hosts");

std::string WireLocation::to_string() const {
  std::string text = parent ? parent->to_string() : std::string();
  if (!field.empty()) {
    if (!text.empty()) text += '.';
    text += field;
    if (index >= 0) text += "[" + std::to_string(index) + "]";
  }
  return text;
}

int WireLocation::depth() const {
  return parent ? 1 + parent->depth() : 0;
}

void WireReader::fail(std::string_view what) const {
  std::string place = where_.to_string();
  if (place.empty()) place = "the model";
  std::string text = "damaged ONNX data in " + place;
  if (where_.file_begin) text += " near byte " + std::to_string(at_ - where_.file_begin);
  throw_input_error(text + ": " + std::string(what) +
                    "; the file is truncated, corrupt or not an ONNX model");
}

uint64_t WireReader::raw_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) fail("a number passes the end of its message");
    const auto byte = static_cast<uint8_t>(*at_++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than ten bytes");
}

bool WireReader::next() {
  if (at_ == end_) return false;
  const uint64_t key = raw_varint();
  const auto type = static_cast<uint8_t>(key & 7);
  if (type > 5 || type == 3 || type == 4 || (key >> 3) == 0 || (key >> 3) > 0x1fffffff) {
    fail("field " + std::to_string(key >> 3) + " with wire type " + std::to_string(type) + " cannot be");
  }
  field_ = static_cast<uint32_t>(key >> 3);
  type_ = static_cast<WireType>(type);
  return true;
}

void WireReader::expect(WireType type) const {
  if (type_ == type) return;
  fail("field " + std::to_string(field_) + " has wire type " + std::to_string(static_cast<int>(type_)) +
       " instead of " + std::to_string(static_cast<int>(type)));
}

uint64_t WireReader::varint() {
  expect(WireType::Varint);
  return raw_varint();
}

template <class T>
T WireReader::fixed() {
  if (static_cast<size_t>(end_ - at_) < sizeof(T)) fail("a number passes the end of its message");
  T value;
  std::memcpy(&value, at_, sizeof(T));
  at_ += sizeof(T);
  return value;
}

float WireReader::float32() {
  expect(WireType::Fixed32);
  return fixed<float>();
}

std::span<const std::byte> WireReader::bytes() {
  expect(WireType::Bytes);
  const uint64_t length = raw_varint();
  const auto left = static_cast<uint64_t>(end_ - at_);
  if (length > left) {
    fail("field " + std::to_string(field_) + " says " + std::to_string(length) + " bytes but only " +
         std::to_string(left) + " are left");
  }
  const std::byte* begin = at_;
  at_ += length;
  return {begin, static_cast<size_t>(length)};
}

std::string_view WireReader::string() {
  const auto b = bytes();
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

void WireReader::skip() {
  switch (type_) {
    case WireType::Varint:
      raw_varint();
      break;
    case WireType::Fixed64:
      fixed<uint64_t>();
      break;
    case WireType::Fixed32:
      fixed<uint32_t>();
      break;
    case WireType::Bytes:
      bytes();
      break;
    default:
      fail("a group, which ONNX does not have");
  }
}

template <class T>
void WireReader::append_varints(std::vector<T>& out) {
  if (type_ == WireType::Varint) {
    out.push_back(static_cast<T>(raw_varint()));
    return;
  }
  const auto packed = bytes();
  const std::byte* const resume = at_;
  const std::byte* const end = end_;
  at_ = packed.data();
  end_ = packed.data() + packed.size();
  while (at_ != end_) out.push_back(static_cast<T>(raw_varint()));
  at_ = resume;
  end_ = end;
}

template <class T>
void WireReader::append_fixed(std::vector<T>& out, WireType single) {
  if (type_ == single) {
    out.push_back(fixed<T>());
    return;
  }
  const auto packed = bytes();
  if (packed.size() % sizeof(T) != 0) fail("a packed list ends inside a number");
  const size_t old = out.size();
  out.resize(old + packed.size() / sizeof(T));
  if (!packed.empty()) std::memcpy(out.data() + old, packed.data(), packed.size());
}

void WireReader::append(std::vector<int64_t>& out) {
  append_varints(out);
}
void WireReader::append(std::vector<uint64_t>& out) {
  append_varints(out);
}
void WireReader::append(std::vector<int32_t>& out) {
  append_varints(out);
}
void WireReader::append(std::vector<float>& out) {
  append_fixed(out, WireType::Fixed32);
}
void WireReader::append(std::vector<double>& out) {
  append_fixed(out, WireType::Fixed64);
}

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, WireType type) {
  put_varint(out, (static_cast<uint64_t>(field) << 3) | static_cast<uint64_t>(type));
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, WireType::Bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_int(std::string& out, uint32_t field, int64_t value) {
  put_key(out, field, WireType::Varint);
  put_varint(out, static_cast<uint64_t>(value));
}

int varint_size(uint64_t value) {
  int size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

}  // namespace lathe::onnx
