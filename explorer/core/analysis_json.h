// SPDX-License-Identifier: Apache-2.0
//
// analysis.json, as docs/schema/analysis.schema.json describes it.
#pragma once

#include "explorer/core/comparison.h"

namespace lathe::explorer {

Json analysis_json(const Analysis& analysis);
// One entry of its hardware samples; those of a .hardware.json file are the same.
Json sample_json(const HardwareSample& sample);

}  // namespace lathe::explorer
