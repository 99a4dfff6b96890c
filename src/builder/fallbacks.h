// SPDX-License-Identifier: Apache-2.0
//
// What a build says of layers that run on the reference (tune/fallback.h).
#pragma once

#include "builder/options.h"

namespace lathe {

// A warning for each kind of operator, with its share of the layers' time where they were timed, and a
// verbose line for each layer. With fail_on_fallback an error that names all of them instead.
void report_fallbacks(const PlanVariant& variant, bool timed, const BuildOptions& options,
                      Observer& observer);

}  // namespace lathe
