// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "runners.h"

namespace lathe::conformance {

std::unique_ptr<Runner> make_described_runner(const std::string&) {
  throw_input_error("this build has no CUDA backend, which plans for a described GPU (make cuda)");
}

}  // namespace lathe::conformance
