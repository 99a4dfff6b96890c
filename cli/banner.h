// SPDX-License-Identifier: Apache-2.0
//
// The option banner: sections and lines of TensorRT 10.4, which log parsers read key by key.
#pragma once

#include "arguments/options.h"
#include "report/log.h"

namespace lathe::cli {

void print_option_banner(Log& log, const Options& options);

}  // namespace lathe::cli
