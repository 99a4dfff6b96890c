// SPDX-License-Identifier: Apache-2.0
#include "report/outputs.h"

#include <fmt/format.h>

#include <cctype>

#include "base/file.h"
#include "ir/strings.h"
#include "report/json_text.h"

namespace lathe {
namespace {

std::string dims_text(const Tensor& tensor, const char* separator) {
  return fmt::format("{}", fmt::join(tensor.extents(), separator));
}

// The dims of its values.
std::string value_dims(const NamedTensor& named) {
  Extents dims = named.tensor.extents();
  if (named.is_string) dims.pop_back();
  return fmt::format("{}", fmt::join(dims, "x"));
}

// Gives all values, row-major, with separators between them, piece by piece to `take`; `number` makes the
// text of one.
template <class Number, class Take>
void write_values(const NamedTensor& named, std::string_view separator, Number number, Take take) {
  const Tensor& tensor = named.tensor;
  bool is_first = true;
  const auto add = [&](const std::string& value) {
    if (!is_first) take(separator);
    is_first = false;
    take(value);
  };
  if (named.is_string) {
    const Strings strings(tensor);
    for (int64_t i = 0; i < strings.count(); ++i) add(json_string(strings[i]));
  } else if (is_integer(tensor.dtype()) || tensor.dtype() == DType::Bool) {
    for (const int64_t value : tensor.to_int64s()) add(std::to_string(value));
  } else {
    for (const double value : tensor.to_doubles()) add(number(value));
  }
}

}  // namespace

void print_outputs(Log& log, const std::vector<NamedTensor>& outputs) {
  for (const NamedTensor& output : outputs) {
    log.info(fmt::format("{}: ({})", output.name, value_dims(output)));
    std::string line;
    write_values(output, " ", format_number, [&](std::string_view piece) { line += piece; });
    log.info(line);
  }
}

void write_outputs_json(FileWriter& file, const std::vector<NamedTensor>& outputs) {
  file.write("[\n");
  bool first = true;
  for (const NamedTensor& output : outputs) {
    file.write(fmt::format("{} {{ \"name\" : {}\n  , \"dimensions\" : \"{}\"\n  , \"values\" : [ ",
                           first ? " " : ",", json_string(output.name), value_dims(output)));
    write_values(output, ", ", format_json_number, [&](std::string_view piece) { file.write(piece); });
    file.write(" ]\n  }\n");
    first = false;
  }
  file.write("]\n");
}

std::string raw_file_name(const NamedTensor& tensor, bool is_input) {
  constexpr size_t kLongest = 150;
  std::string name;
  for (const char c : tensor.name) {
    const bool usual = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._-,").find(c) != std::string_view::npos;
    name += usual ? c : '_';
  }
  if (name.size() > kLongest)
    name = name.substr(0, kLongest / 2) + "..." + name.substr(name.size() - kLongest / 2);
  return fmt::format("{}.{}.{}.{}.raw", name, is_input ? "input" : "output", dims_text(tensor.tensor, "."),
                     dtype_info(tensor.tensor.dtype()).trt_arg);
}

void write_raw_file(Log& log, const NamedTensor& tensor, bool is_input, const std::filesystem::path& folder) {
  const auto path = folder / raw_file_name(tensor, is_input);
  log.info(fmt::format("Writing file for {} binding {} (with datatype {} and dimensions {}) to {}",
                       is_input ? "input" : "output", tensor.name, dtype_info(tensor.tensor.dtype()).trt_arg,
                       dims_text(tensor.tensor, "."), path.string()));
  const auto bytes = tensor.tensor.bytes();
  write_file_in_place(path, [&](FileWriter& file) { file.write(bytes); });
}

}  // namespace lathe
