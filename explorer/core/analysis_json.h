// SPDX-License-Identifier: Apache-2.0
//
// analysis.json, as docs/schema/analysis.schema.json describes it.
#pragma once

#include "explorer/core/comparison.h"

namespace lathe::explorer {

Json analysis_json(const Analysis& analysis);

}  // namespace lathe::explorer
