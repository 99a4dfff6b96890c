// SPDX-License-Identifier: Apache-2.0
//
// Element types: the one table. Numbers follow ONNX's TensorProto.DataType so that import and export are a
// cast.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lathe {

enum class DType : uint8_t {
  Undefined = 0,
  Float32 = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  Bool = 9,
  Float16 = 10,
  Float64 = 11,
  UInt32 = 12,
  UInt64 = 13,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,  // a power of two: no sign, no zero
  UInt2 = 25,
  Int2 = 26,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;      // ours and numpy's: "float32"
  std::string_view trt_name;  // TensorRT's short token in logs: "Float"
  std::string_view trt_arg;   // trtexec's token in options: "fp32"
  int bits;                   // storage per element; 4 and 2 are packed into bytes, lowest bits first
  bool is_float;
  bool is_signed;
};

const DTypeInfo& dtype_info(DType dtype);
const std::vector<DTypeInfo>& all_dtypes();
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
bool is_float(DType dtype);
bool is_integer(DType dtype);  // not bool
// Bytes of `elements` elements, rounded up (of 4 and 2 bits several share a byte).
int64_t dtype_bytes(DType dtype, int64_t elements);

}  // namespace lathe
