// SPDX-License-Identifier: Apache-2.0
//
// What a session says of how its engines are to be built.
#pragma once

#include <string>

#include "lathe/builder.h"
#include "ort_api.h"

namespace lathe::onnxruntime_ep {

struct Options {
  v1::DeviceConfig device;
  v1::BuilderConfig build;
  std::string timing_cache_file;  // empty: none
};

// The options of this provider among the session's. Throws Error (Input) for an unknown one, or one that
// cannot be read.
Options read_options(const OrtSessionOptions& session, std::string_view provider);

}  // namespace lathe::onnxruntime_ep
