// SPDX-License-Identifier: Apache-2.0
#include "ir/dtype.h"

#include <string>

#include "base/error.h"

namespace lathe {

const std::vector<DTypeInfo>& all_dtypes() {
  static const std::vector<DTypeInfo> table = {
      {DType::Float32, "float32", "Float", "fp32", 32, true, true},
      {DType::UInt8, "uint8", "UInt8", "uint8", 8, false, false},
      {DType::Int8, "int8", "Int8", "int8", 8, false, true},
      {DType::UInt16, "uint16", "UInt16", "uint16", 16, false, false},
      {DType::Int16, "int16", "Int16", "int16", 16, false, true},
      {DType::Int32, "int32", "Int32", "int32", 32, false, true},
      {DType::Int64, "int64", "Int64", "int64", 64, false, true},
      {DType::Bool, "bool", "Bool", "bool", 8, false, false},
      {DType::Float16, "float16", "Half", "fp16", 16, true, true},
      {DType::Float64, "float64", "Double", "fp64", 64, true, true},
      {DType::UInt32, "uint32", "UInt32", "uint32", 32, false, false},
      {DType::UInt64, "uint64", "UInt64", "uint64", 64, false, false},
      {DType::BFloat16, "bfloat16", "BFloat16", "bf16", 16, true, true},
      {DType::Float8E4M3FN, "float8e4m3fn", "FP8", "fp8", 8, true, true},
      {DType::Float8E4M3FNUZ, "float8e4m3fnuz", "FP8E4M3FNUZ", "fp8e4m3fnuz", 8, true, true},
      {DType::Float8E5M2, "float8e5m2", "FP8E5M2", "fp8e5m2", 8, true, true},
      {DType::Float8E5M2FNUZ, "float8e5m2fnuz", "FP8E5M2FNUZ", "fp8e5m2fnuz", 8, true, true},
      {DType::UInt4, "uint4", "UInt4", "uint4", 4, false, false},
      {DType::Int4, "int4", "Int4", "int4", 4, false, true},
      {DType::Float4E2M1, "float4e2m1", "FP4", "fp4", 4, true, true},
      {DType::Float8E8M0, "float8e8m0", "E8M0", "e8m0", 8, true, false},
      {DType::UInt2, "uint2", "UInt2", "uint2", 2, false, false},
      {DType::Int2, "int2", "Int2", "int2", 2, false, true},
  };
  return table;
}

const DTypeInfo& dtype_info(DType dtype) {
  static const DTypeInfo undefined = {
      DType::Undefined, "undefined", "Undefined", "undefined", 0, false, false};
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype == dtype) return info;
  }
  check(dtype == DType::Undefined,
        "dtype_info: no such element type: " + std::to_string(static_cast<int>(dtype)));
  return undefined;
}

std::string_view dtype_name(DType dtype) {
  return dtype_info(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

bool is_float(DType dtype) {
  return dtype_info(dtype).is_float;
}

bool is_integer(DType dtype) {
  return dtype != DType::Undefined && dtype != DType::Bool && !dtype_info(dtype).is_float;
}

int64_t dtype_bytes(DType dtype, int64_t elements) {
  const int64_t bits = dtype_info(dtype).bits;
  return bits >= 8 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

}  // namespace lathe
