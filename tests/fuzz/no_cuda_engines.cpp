// SPDX-License-Identifier: Apache-2.0
#include "engine_files.h"

namespace fuzz {

void add_cuda_engines(const std::vector<Source>&, std::vector<EngineFile>&) {}

}  // namespace fuzz
