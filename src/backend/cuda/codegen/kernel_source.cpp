// SPDX-License-Identifier: Apache-2.0
//
// Arguments and text of a generated kernel.
#include "backend/cuda/codegen/kernel_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "lathe_device_text/ordered.h"
#include "lathe_device_text/pointwise.h"
#include "lathe_device_text/primitives.h"
#include "lathe_device_text/small_floats.h"
#include "lathe_device_text/storage.h"
#include "lathe_device_text/wide_pointwise.h"

namespace lathe::cuda {

std::string_view storage_name(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "float";
    case DType::Float16:
      return "f16";
    case DType::BFloat16:
      return "bf16";
    case DType::Int64:
      return "long long";
    case DType::Int32:
      return "int";
    case DType::UInt32:
      return "unsigned int";
    case DType::Int16:
      return "short";
    case DType::UInt16:
      return "unsigned short";
    case DType::Int8:
      return "signed char";
    case DType::UInt8:
      return "unsigned char";
    case DType::Bool:
      return "boolean";
    case DType::Float64:
      return "double";
    case DType::UInt64:
      return "unsigned long long";
    case DType::Float8E4M3FN:
      return "e4m3fn";
    case DType::Float8E4M3FNUZ:
      return "e4m3fnuz";
    case DType::Float8E5M2:
      return "e5m2";
    case DType::Float8E5M2FNUZ:
      return "e5m2fnuz";
    case DType::Float8E8M0:
      return "e8m0";
    default:
      return {};
  }
}

bool is_small_float(DType dtype) {
  return is_float(dtype) && dtype_info(dtype).bits <= 8;
}

std::string_view compute_name(DType dtype) {
  if (dtype == DType::Float64) return "double";
  if (dtype == DType::UInt64) return "unsigned long long";
  return is_float(dtype) ? "float" : "long long";
}

std::string float_literal(double value) {
  const auto x = static_cast<float>(value);
  if (std::isnan(x)) return "not_a_number()";
  if (std::isinf(x)) return x < 0 ? "-infinity()" : "infinity()";
  char buffer[40];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".";
  text += "f";
  return x < 0 ? "(" + text + ")" : text;
}

std::string double_literal(double value) {
  if (std::isnan(value) || std::isinf(value)) return "(double)" + float_literal(value);
  char buffer[40];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".";
  return value < 0 ? "(" + text + ")" : text;
}

std::string filled_in(std::string_view text,
                      const std::vector<std::pair<std::string_view, std::string>>& names) {
  std::string out(text);
  for (const auto& [from, to] : names)
    for (size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + to.size()))
      out.replace(at, from.size(), to);
  return out;
}

std::string_view early_loads() {
  return device_text::primitives::kEarlyLoads;
}

std::string_view byte_products() {
  return device_text::primitives::kByteProducts;
}

std::string_view rounded_products() {
  return device_text::primitives::kRoundedProducts;
}

void KernelBuilder::constants(const std::vector<std::pair<std::string_view, int64_t>>& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += (text.empty() ? "constexpr int " : ", ") + std::string(name) + " = " + std::to_string(value);
  global(text + ";");
}

std::string KernelBuilder::argument(KernelArg arg, const std::string& name, const std::string& type) {
  kernel_.args.push_back(std::move(arg));
  parameters_.push_back(type + " " + name);
  return name;
}

std::string KernelBuilder::input(size_t i, DType dtype) {
  const std::string name = "in" + std::to_string(i);
  if (known_.count(name)) return name;
  check(!storage_name(dtype).empty(), "no storage type for an operand");
  known_[name] = name;
  if (!grids_.contains(name)) uses(dtype);
  return argument({.kind = KernelArg::Kind::Input, .index = i, .value = {}, .block = {}}, name,
                  "const " + stored_type(name, dtype) + "*");
}

std::string KernelBuilder::output(size_t i, DType dtype) {
  const std::string name = "out" + std::to_string(i);
  if (known_.count(name)) return name;
  check(!storage_name(dtype).empty(), "no storage type for a result");
  known_[name] = name;
  if (!grids_.contains(name)) uses(dtype);
  return argument({.kind = KernelArg::Kind::Output, .index = i, .value = {}, .block = {}}, name,
                  stored_type(name, dtype) + "*");
}

std::string KernelBuilder::stored_type(const std::string& operand, DType dtype) const {
  const auto it = grids_.find(operand);
  return it == grids_.end() ? std::string(storage_name(dtype)) : it->second;
}

void KernelBuilder::set_input_grid(size_t i, const ByteGrid& grid) {
  const std::string name = "in" + std::to_string(i), type = grids_[name] = "quantum_" + name;
  const std::string zero = ", " + float_literal(grid.zero) + ")",
                    scaled = " * " + float_literal(grid.scale) + "; }";
  global("struct " + type + " { unsigned char bits; };\nDEV float widen(" + type + " x) { return " +
         (grid.has_floats() ? "from_e4m3(x.bits)" : "from_byte(x.bits" + zero) + scaled);
  global("template <> struct OfWords<" + type +
         "> {\nstatic constexpr bool kThere = true;\nDEV static float number(u32 w, int i) { return " +
         (grid.has_floats() ? "e4m3_of_word(w, i)" : "byte_of_word(w, i" + zero) + scaled + "\n};");
}

void KernelBuilder::set_output_grid(size_t i, const ByteGrid& grid) {
  const std::string name = "out" + std::to_string(i), type = grids_[name] = "quantum_" + name;
  global("struct " + type + " { unsigned char bits; };\ntemplate <> struct Narrow<" + type +
         "> { DEV static " + type + " from(float x) { return " + type + "{" +
         (grid.has_floats() ? "to_e4m3(x)" : "low_byte(x)") + "}; } };");
  if (!grid.has_floats()) return;
  // Chosen before the general forms, which convert one number at a time.
  global("template <int V> DEV void store(" + type +
         "* p, const float (&x)[V]) { store_e4m3(&p->bits, x); }\n" + "DEV void store_pair(" + type +
         "* p, const float (&x)[2]) { store_e4m3(&p->bits, x); }");
}

std::string number_as_quantum(const std::string& number, const ByteGrid& grid) {
  if (grid.has_floats()) return number + " * " + float_literal(1 / static_cast<double>(grid.scale));
  return "fmaf(" + number + ", " + float_literal(1 / static_cast<double>(grid.scale)) + ", " +
         float_literal(12582912 + static_cast<double>(grid.zero)) + ")";
}

std::string KernelBuilder::scratch(const Dim& bytes, std::string_view type) {
  const std::string key = "scratch " + bytes.to_string();
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const std::string name = "scratch" + std::to_string(known_.size());
  known_[key] = name;
  return argument({.kind = KernelArg::Kind::Scratch, .index = 0, .value = bytes, .block = {}}, name,
                  std::string(type) + "*");
}

std::string KernelBuilder::packed(std::string_view block, std::string_view type) {
  const std::string name = "packed_" + std::string(block);
  if (known_.count(name)) return name;
  known_[name] = name;
  return argument({.kind = KernelArg::Kind::Packed, .index = 0, .value = {}, .block = std::string(block)},
                  name, "const " + std::string(type) + "*");
}

std::string KernelBuilder::map_argument(KernelArg arg, TensorView view) {
  const std::string name = "map" + std::to_string(parameters_.size());
  arg.view = std::move(view);
  return argument(std::move(arg), name, "const __grid_constant__ TensorMap");
}

std::string KernelBuilder::input_map(size_t i, TensorView view) {
  return map_argument({.kind = KernelArg::Kind::Input, .index = i, .value = {}, .block = {}},
                      std::move(view));
}

std::string KernelBuilder::scratch_map(const Dim& bytes, TensorView view) {
  return map_argument({.kind = KernelArg::Kind::Scratch, .index = 0, .value = bytes, .block = {}},
                      std::move(view));
}

std::string KernelBuilder::packed_map(std::string_view block, TensorView view) {
  return map_argument({.kind = KernelArg::Kind::Packed, .index = 0, .value = {}, .block = std::string(block)},
                      std::move(view));
}

std::string KernelBuilder::number(const Dim& dim) {
  if (dim.is_constant()) {
    const std::string text = std::to_string(dim.value());
    return dim.value() < 0 ? "(" + text + ")" : text;
  }
  const std::string key = dim.to_string();
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const std::string name = "n" + std::to_string(known_.size());
  known_[key] = name;
  argument({.kind = KernelArg::Kind::Number, .index = 0, .value = dim, .block = {}}, name + "_", "long long");
  casts_.push_back("const idx " + name + " = (idx)" + name + "_;");
  return name;
}

constexpr std::string_view kPlace = "constexpr int kPlace = 0;";

std::string KernelSource::source_for(LaunchPlace place) const {
  std::string form = source;
  if (!overlap.takes_order) return form;
  const size_t number = form.find(kPlace) + kPlace.size() - 2;
  form[number] = static_cast<char>('0' + static_cast<int>(place));
  return form;
}

KernelSource KernelBuilder::finish() {
  if (kernel_.overlap.takes_order)
    argument({.kind = KernelArg::Kind::Late, .index = 0, .value = {}, .block = {}}, "late", "const u32");
  std::string& s = kernel_.source;
  s = std::string("typedef ") + (wide_ ? "long long" : "int") + " idx;\n";
  s += std::string("constexpr bool kFastMath = ") + (fast_ ? "true" : "false") + ";\n";
  if (kernel_.overlap.takes_order) (s += kPlace) += '\n';
  s += device_text::storage::kStorage;
  if (std::any_of(types_.begin(), types_.end(), is_small_float)) {
    s += std::string("constexpr bool kSaturates = ") + (cast_.saturate ? "true" : "false") +
         ";\nconstexpr int kRoundsPowers = " + std::to_string(static_cast<int>(cast_.round)) + ";\n";
    s += device_text::small_floats::kSmallFloats;
  }
  s += device_text::pointwise::kPointwise;
  if (types_.contains(DType::Float64)) s += device_text::wide_pointwise::kDoubles;
  if (types_.contains(DType::UInt64)) s += device_text::wide_pointwise::kUnsigned;
  s += globals_;
  s += "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(kernel_.threads) +
       (kernel_.resident > 0 ? ", " + std::to_string(kernel_.resident) : "") + ") " + kernel_.entry + "(";
  for (size_t i = 0; i < parameters_.size(); ++i) s += (i ? ", " : "") + parameters_[i];
  s += ") {\n";
  for (const std::string& cast : casts_) s += cast + "\n";
  if (kernel_.overlap.takes_order) {
    s += device_text::ordered::kStart;
    s += "const auto work = [&] {\n";
    if (!waits_itself_) s += "wait_for_operands();\n";
    s += body_;
    s += "};\n";
    s += device_text::ordered::kEnd;
  } else {
    s += "allow_next_kernel();\n";
    if (!waits_itself_) s += "wait_for_previous_kernel();\n";
    s += body_;
  }
  s += "}\n";
  hardware_.insert(0, device_text::primitives::kPrimitives);
  kernel_.hardware_bytes = hardware_.size();
  s.insert(0, hardware_);
  return std::move(kernel_);
}

}  // namespace lathe::cuda
