// SPDX-License-Identifier: Apache-2.0
//
// Index operands of gathering and scattering layers: int32 or int64, negative ones counted from the end.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "ir/dtype.h"

namespace lathe::cpu {

class IndexReader {
 public:
  // `layer`: "name (Operator)", for the error of an index that is out of range.
  IndexReader(std::string layer, DType type) : layer_(std::move(layer)), wide_(type == DType::Int64) {}

  int64_t at(const void* indices, int64_t i, int64_t extent) const {
    const int64_t given =
        wide_ ? static_cast<const int64_t*>(indices)[i] : int64_t{static_cast<const int32_t*>(indices)[i]};
    const int64_t wrapped = given < 0 ? given + extent : given;
    if (static_cast<uint64_t>(wrapped) >= static_cast<uint64_t>(extent)) refuse(given, extent);
    return wrapped;
  }

 private:
  [[noreturn]] void refuse(int64_t given, int64_t extent) const {
    throw_input_error(layer_ + ": index " + std::to_string(given) + " is outside [" +
                      std::to_string(-extent) + ", " + std::to_string(extent - 1) + "]");
  }
  std::string layer_;
  bool wide_;
};

inline bool is_index_type(DType type) {
  return type == DType::Int32 || type == DType::Int64;
}

}  // namespace lathe::cpu
