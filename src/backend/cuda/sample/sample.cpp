// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/sample/sample.h"

#include "lathe_device_text/sampled_product.h"

namespace lathe::cuda {

std::string_view sampled_positions() {
  return device_text::sampled_product::kPositions;
}

std::string_view sampled_product() {
  return device_text::sampled_product::kProduct;
}

}  // namespace lathe::cuda
