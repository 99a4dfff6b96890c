// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "builder/builder.h"
#include "sources.h"

namespace fuzz {

struct EngineFile {
  std::string name;
  std::shared_ptr<const lathe::Backend> backend;
  std::vector<std::byte> bytes;
};

lathe::Network parse(lathe::Builder& builder, const Source& source);
// Symbols from 1 to 16; with a second profile, which leaves no choice.
std::vector<lathe::OptimizationProfile> profiles_of(const lathe::Network& network, bool two);

void add_cpu_engines(const std::vector<Source>& models, int threads, std::vector<EngineFile>& files);
// Nothing where this build has no CUDA backend (no_cuda_engines.cpp).
void add_cuda_engines(const std::vector<Source>& models, std::vector<EngineFile>& files);

}  // namespace fuzz
