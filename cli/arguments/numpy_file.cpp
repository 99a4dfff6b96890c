// SPDX-License-Identifier: Apache-2.0
#include "arguments/numpy_file.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"

namespace lathe::cli {
namespace {

[[noreturn]] void throw_bad(std::string_view source, std::string_view what) {
  throw_input_error(fmt::format("{}: not a usable .npy array: {}", source, what));
}

// The text after 'key': in the header's dictionary.
std::string_view header_value(std::string_view header, std::string_view key, std::string_view source) {
  const std::string quoted = fmt::format("'{}':", key);
  const auto at = header.find(quoted);
  if (at == std::string_view::npos) throw_bad(source, fmt::format("its header has no {}", key));
  std::string_view rest = header.substr(at + quoted.size());
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return rest;
}

// A string's place in an array of `S7` or `<U7`; nothing for other types.
struct StringField {
  bool is_unicode = false;  // UTF-32, else bytes
  int64_t characters = 0;
  int64_t bytes() const { return characters * (is_unicode ? 4 : 1); }
};

std::optional<StringField> string_field(std::string_view descr, std::string_view source) {
  if (descr.size() < 4 || (descr.substr(1, 2) != "|S" && descr.substr(1, 2) != "<U")) return std::nullopt;
  StringField field{.is_unicode = descr[2] == 'U'};
  constexpr int64_t kMost = 1 << 28;
  const auto [end, error] = std::from_chars(descr.data() + 3, descr.data() + descr.size(), field.characters);
  if (error != std::errc() || field.characters < 0 || field.characters > kMost)
    throw_bad(source, fmt::format("its strings have the type {}", descr.substr(0, descr.find(','))));
  return field;
}

void append_utf8(uint32_t point, std::string& text) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  const auto follow = [&](int shift) { put(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    follow(6);
  } else {
    put(0xf0 | point >> 18);
    follow(12);
    follow(6);
  }
  follow(0);
}

// Ends where NumPy's strings end: at the last character that is no zero.
std::string read_string(const StringField& field, const char* stored, std::string_view source) {
  std::string text;
  if (!field.is_unicode) {
    text.assign(stored, static_cast<size_t>(field.characters));
  } else {
    for (int64_t i = 0; i < field.characters; ++i) {
      uint32_t point = 0;
      std::memcpy(&point, stored + 4 * i, sizeof point);
      if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        throw_bad(source, fmt::format("U+{:X} is no character", point));
      append_utf8(point, text);
    }
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

Tensor strings_from(const StringField& field, Extents extents, std::string_view data,
                    std::string_view source) {
  const auto count = static_cast<size_t>(element_count(extents));
  std::vector<std::string> strings;
  size_t longest = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto at = i * static_cast<size_t>(field.bytes());
    strings.push_back(read_string(field, data.data() + at, source));
    longest = std::max(longest, strings.back().size());
  }
  extents.push_back(static_cast<int64_t>(longest));
  Tensor tensor = Tensor::allocate(DType::UInt8, std::move(extents));
  for (size_t i = 0; i < count; ++i)
    std::memcpy(tensor.mutable_bytes().data() + i * longest, strings[i].data(), strings[i].size());
  return tensor;
}

DType dtype_from_descr(std::string_view descr, std::string_view source) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"<f4", DType::Float32}, {"<f2", DType::Float16}, {"<f8", DType::Float64}, {"|i1", DType::Int8},
      {"|u1", DType::UInt8},   {"<i2", DType::Int16},   {"<u2", DType::UInt16},  {"<i4", DType::Int32},
      {"<u4", DType::UInt32},  {"<i8", DType::Int64},   {"<u8", DType::UInt64},  {"|b1", DType::Bool}};
  for (const auto& [name, dtype] : kTypes) {
    if (descr.size() > name.size() + 1 && descr.substr(1, name.size()) == name) return dtype;
  }
  throw_bad(source,
            fmt::format("element type {} is not supported (little-endian numbers, bools and strings are)",
                        descr.substr(0, descr.find(','))));
}

// "(1, 3, 8)" with sizes that a file of `available` elements, at most, can hold.
Extents shape_from(std::string_view text, size_t available, std::string_view source) {
  const auto close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos)
    throw_bad(source, "its shape is not a tuple");
  text = text.substr(1, close - 1);
  Extents extents;
  int64_t count = 1;
  while (!text.empty()) {
    const auto comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    if (item.empty()) continue;
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), extent);
    if (error != std::errc() || extent < 0)
      throw_bad(source, fmt::format("its shape has the entry '{}'", item));
    if (extents.size() >= 32) throw_bad(source, "it has more than 32 dimensions");
    if (extent > 0 && count > static_cast<int64_t>(available) / extent)
      throw_bad(source, "its shape needs more data than the file has");
    count *= extent;
    extents.push_back(extent);
  }
  return extents;
}

struct ZipCloser {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

zip_int64_t find_entry(zip_t* zip, std::string_view name, const std::string& source) {
  const zip_int64_t count = zip_get_num_entries(zip, 0);
  std::string names;
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* entry = zip_get_name(zip, static_cast<zip_uint64_t>(i), 0);
    if (entry == nullptr) continue;
    if (std::string_view(entry) == std::string(name) + ".npy" || entry == name) return i;
    if (i < 20) names += (names.empty() ? "" : ", ") + std::string(entry);
  }
  if (count == 1) return 0;
  throw_input_error(fmt::format("{}: no array named {} in it; it has: {}", source, name,
                                names.empty() ? "nothing" : names));
}

}  // namespace

NumpyArray parse_npy(std::span<const std::byte> bytes, std::string_view source) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) throw_bad(source, "it does not begin with NumPy's mark");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  const size_t major = byte(6);
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (major < 1 || major > 3 || text.size() < 8 + length_bytes) throw_bad(source, "its version is unknown");
  size_t header_size = 0;
  for (size_t i = 0; i < length_bytes; ++i) header_size |= byte(8 + i) << (8 * i);
  const size_t data_begin = 8 + length_bytes + header_size;
  if (header_size > text.size() || data_begin > text.size())
    throw_bad(source, "its header is longer than the file");
  const std::string_view header = text.substr(8 + length_bytes, header_size);
  const std::string_view descr = header_value(header, "descr", source);
  const std::optional<StringField> field = string_field(descr, source);
  if (!header_value(header, "fortran_order", source).starts_with("False")) {
    throw_bad(source, "it is stored column by column; save numpy.ascontiguousarray(x) instead");
  }
  const size_t available = text.size() - data_begin;
  const std::string_view shape = header_value(header, "shape", source);
  if (field) {
    const size_t room = available / static_cast<size_t>(std::max<int64_t>(field->bytes(), 1));
    return {strings_from(*field, shape_from(shape, room, source), text.substr(data_begin), source), true};
  }
  const DType dtype = dtype_from_descr(descr, source);
  Tensor tensor = Tensor::allocate(dtype, shape_from(shape, available, source));
  if (tensor.bytes().size() > available) {
    throw_bad(source, fmt::format("its shape {} needs {} bytes, {} are there", to_string(tensor.extents()),
                                  tensor.bytes().size(), available));
  }
  if (!tensor.bytes().empty()) {
    std::memcpy(tensor.mutable_bytes().data(), bytes.data() + data_begin, tensor.bytes().size());
  }
  return {tensor};
}

NumpyArray read_npz(const std::filesystem::path& path, std::string_view name, size_t limit_bytes) {
  const std::string source = path.string();
  int code = 0;
  const std::unique_ptr<zip_t, ZipCloser> zip(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (zip == nullptr) throw_input_error(fmt::format("{}: not a readable .npz file", source));
  const zip_int64_t entry = find_entry(zip.get(), name, source);
  const std::unique_ptr<zip_file_t, ZipFileCloser> file(
      zip_fopen_index(zip.get(), static_cast<zip_uint64_t>(entry), 0));
  if (file == nullptr) throw_input_error(fmt::format("{}: {} cannot be unpacked", source, name));
  std::vector<std::byte> bytes;
  std::vector<std::byte> piece(1 << 16);
  for (;;) {
    const zip_int64_t count = zip_fread(file.get(), piece.data(), piece.size());
    if (count < 0) throw_input_error(fmt::format("{}: {} is damaged", source, name));
    if (count == 0) break;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
    if (bytes.size() > limit_bytes)
      throw_input_error(fmt::format("{}: {} is larger than the input takes", source, name));
  }
  return parse_npy(bytes, source + ":" + std::string(name));
}

}  // namespace lathe::cli
