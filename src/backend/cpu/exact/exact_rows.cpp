// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/exact/exact_rows.h"

#include <algorithm>

#include "ir/elements.h"

namespace lathe::cpu {
namespace {

ExactTable::Load vector_load(const ExactTable& t, DType type) {
  switch (type) {
    case DType::Bool:
      return t.load_bool;
    case DType::Int8:
      return t.load_i8;
    case DType::UInt8:
      return t.load_u8;
    case DType::Int16:
      return t.load_i16;
    case DType::UInt16:
      return t.load_u16;
    case DType::Int32:
      return t.load_i32;
    case DType::UInt32:
      return t.load_u32;
    case DType::Int64:
    case DType::UInt64:
      return t.load_i64;
    case DType::Float32:
      return t.load_f32;
    case DType::Float64:
      return t.load_f64;
    default:
      return nullptr;
  }
}

ExactTable::StoreIntegers exact_store(const ExactTable& t, DType from, DType to) {
  switch (to) {
    case DType::Bool:
      return t.store_bool;
    case DType::Int8:
    case DType::UInt8:
      return t.store_8;
    case DType::Int16:
    case DType::UInt16:
      return t.store_16;
    case DType::Int32:
    case DType::UInt32:
      return t.store_32;
    case DType::Int64:
    case DType::UInt64:
      return t.store_64;
    case DType::Float32:
      return from == DType::UInt64 ? nullptr : t.store_f32;
    case DType::Float64:
      return from == DType::UInt64 ? nullptr : t.store_f64;
    default:
      return nullptr;
  }
}

// The numbers of a slot from element i on; both kinds have 8 bytes.
ExactSlot slot_behind(ExactSlot slot, int64_t i) {
  return {.integers = slot.integers + i};
}

}  // namespace

void ExactWalk::Operand::load_run(const void* data, int64_t at, int64_t n, ExactSlot out) const {
  if (load != nullptr) return load(data, at, n, out.integers);
  const auto* bytes = static_cast<const std::byte*>(data);
  if (is_float(type))
    load_doubles(type, bytes, at, n, out.reals);
  else
    load_int64s(type, bytes, at, n, out.integers);
}

void ExactWalk::load(const ExactTable& table, size_t i, const void* data, int64_t begin, int64_t n,
                     Extents& index, ExactSlot out) const {
  const Operand& operand = operands[i];
  if (operand.dense) return operand.load_run(data, begin, n, out);
  if (operand.single) {
    operand.load_run(data, 0, 1, out);
    return table.fill(out.integers, n);
  }
  const size_t outer = extents.size() - 1;
  const int64_t row = extents.back(), stride = operand.strides.back();
  int64_t column = begin % row, rest = begin / row, start = 0;
  index.resize(outer);
  for (size_t d = outer; d-- > 0; rest /= extents[d]) {
    index[d] = rest % extents[d];
    start += index[d] * operand.strides[d];
  }
  for (int64_t done = 0; done < n; column = 0) {
    const int64_t count = std::min(n - done, row - column), at = start + column * stride;
    const ExactSlot to = slot_behind(out, done);
    if (stride == 0) {
      operand.load_run(data, at, 1, to);
      table.fill(to.integers, count);
    } else if (stride == 1) {
      operand.load_run(data, at, count, to);
    } else {
      for (int64_t k = 0; k < count; ++k) operand.load_run(data, at + k * stride, 1, slot_behind(to, k));
    }
    done += count;
    for (size_t d = outer; d-- > 0;) {
      start += operand.strides[d];
      if (++index[d] < extents[d]) break;
      start -= operand.strides[d] * extents[d];
      index[d] = 0;
    }
  }
}

ExactWalk exact_walk(const ExactTable& table, const Extents& extents, const std::vector<Extents>& strides,
                     const std::vector<DType>& types) {
  ExactWalk walk;
  for (const DType type : types)
    walk.operands.push_back({.type = type, .strides = {0}, .load = vector_load(table, type)});
  bool begun = false;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    // An inner dim continues the one before it when that holds for every operand.
    bool joins = true;
    for (size_t i = 0; i < strides.size(); ++i)
      joins = joins && (!begun || walk.operands[i].strides.back() == strides[i][d] * extents[d]);
    if (begun && !joins) {
      walk.extents.push_back(1);
      for (ExactWalk::Operand& operand : walk.operands) operand.strides.push_back(0);
    }
    begun = true;
    walk.extents.back() *= extents[d];
    for (size_t i = 0; i < strides.size(); ++i) walk.operands[i].strides.back() = strides[i][d];
  }
  for (ExactWalk::Operand& operand : walk.operands) {
    operand.single = operand.dense = true;
    int64_t expected = 1;
    for (size_t d = walk.extents.size(); d-- > 0; expected *= walk.extents[d]) {
      operand.single &= operand.strides[d] == 0;
      operand.dense &= operand.strides[d] == expected;
    }
  }
  return walk;
}

void store_exact(const ExactTable& table, ExactSlot values, DType from, void* data, DType to, int64_t begin,
                 int64_t n, bool saturate) {
  const ElementWriter writer(to, static_cast<std::byte*>(data));
  if (is_float(from)) {
    if (to == DType::Float32) return table.store_real_f32(values.reals, begin, n, data);
    if (to == DType::Float64) return table.store_real_f64(values.reals, begin, n, data);
    return writer.store_doubles(begin, n, values.reals, saturate);
  }
  if (const auto store = exact_store(table, from, to)) return store(values.integers, begin, n, data);
  writer.store_int64s(begin, n, values.integers, from == DType::UInt64);
}

void wrap_exact(const ExactTable& table, DType type, int64_t* values, int64_t n) {
  switch (type) {
    case DType::Int8:
      return table.wrap_i8(values, n);
    case DType::UInt8:
      return table.wrap_u8(values, n);
    case DType::Int16:
      return table.wrap_i16(values, n);
    case DType::UInt16:
      return table.wrap_u16(values, n);
    case DType::Int32:
      return table.wrap_i32(values, n);
    case DType::UInt32:
      return table.wrap_u32(values, n);
    default:
      return;
  }
}

}  // namespace lathe::cpu
