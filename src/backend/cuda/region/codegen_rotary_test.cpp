// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily rotary_family();
namespace {

TEST(CudaRotary, PairsWidthsAndSeveralOperands) {
  std::vector<LayerCase> cases;
  for (const bool interleaved : {false, true})
    for (const int64_t width : {16, 12}) {  // all of a row turns, or a part
      cases.push_back({.op = Rotary{interleaved},
                       .inputs = {{.extents = {5, width}, .constant = true},
                                  {.extents = {5, width}, .constant = true},
                                  {.extents = {2, 3, 5, 16}}},
                       .allowed_types = {DType::Float16}});
      cases.push_back({.op = Rotary{interleaved},
                       .inputs = {{.extents = {2, 5, 1, width}},
                                  {.extents = {2, 5, 1, width}},
                                  {.extents = {2, 5, 4, 16}},
                                  {.extents = {2, 5, 2, 16}}},
                       .outputs = 2});
    }
  EXPECT_EQ(check_generated(rotary_family(), cases), 4 * (2 + 1));
}

}  // namespace
}  // namespace lathe::cuda
