// SPDX-License-Identifier: Apache-2.0
//
// Protobuf's wire format: a cursor over bytes that somebody else holds (a mapped file), and the few functions
// that write.
//
// Own code instead of a library because lengths here are 64 bits wide (a model may pass 2 GB; the usual
// readers stop at 4 GB without a word), every mistake must name its place ("graph.node[12].attribute[0], byte
// 4711"), and the whole format is four kinds of value. Nothing is copied; a length is checked against what is
// left before anything uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::onnx {

// Where in the message tree a reader stands: a chain of frames on the stack, turned into text only for an
// error.
struct WireLocation {
  const WireLocation* parent = nullptr;
  std::string_view field;  // "node"
  int64_t index = -1;      // of a repeated field
  const std::byte* file_begin = nullptr;
  std::string to_string() const;  // "graph.node[12]"
  int depth() const;
};

enum class WireType : uint8_t {
  Varint = 0,
  Fixed64 = 1,
  Bytes = 2,
  StartGroup = 3,
  EndGroup = 4,
  Fixed32 = 5
};

class WireReader {
 public:
  WireReader(std::span<const std::byte> bytes, const WireLocation& where)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), where_(where) {}

  // Moves to the next field; false at the end of the message. The value must be read or skipped before the
  // next call.
  bool next();
  uint32_t field() const { return field_; }
  WireType type() const { return type_; }
  const WireLocation& where() const { return where_; }

  // Each throws an Input error that names the place when the field has another wire type or passes the end.
  uint64_t varint();
  int64_t int64() { return static_cast<int64_t>(varint()); }
  float float32();
  std::span<const std::byte> bytes();
  std::string_view string();
  void skip();
  // Repeated scalars, packed or one by one.
  void append(std::vector<int64_t>& out);
  void append(std::vector<uint64_t>& out);
  void append(std::vector<int32_t>& out);
  void append(std::vector<float>& out);
  void append(std::vector<double>& out);

  [[noreturn]] void fail(std::string_view what) const;

 private:
  void expect(WireType type) const;
  uint64_t raw_varint();
  template <class T>
  T fixed();
  template <class T>
  void append_varints(std::vector<T>& out);
  template <class T>
  void append_fixed(std::vector<T>& out, WireType single);

  const std::byte* at_;
  const std::byte* end_;
  const WireLocation& where_;
  uint32_t field_ = 0;
  WireType type_ = WireType::Varint;
};

// Writing: bytes are appended to `out`.
void put_varint(std::string& out, uint64_t value);
void put_key(std::string& out, uint32_t field, WireType type);
void put_bytes(std::string& out, uint32_t field, std::string_view bytes);
void put_int(std::string& out, uint32_t field, int64_t value);
int varint_size(uint64_t value);

}  // namespace lathe::onnx
