// SPDX-License-Identifier: Apache-2.0
//
// Does a variant that was read from a file fit together? Hashes only say that the file is as its writer left
// it. What is checked here holds for every backend: afterwards a program that runs the variant reads and
// writes inside of its memory as long as its kernels do, and kernels believe only what their backend offers
// for the layer (each backend compares at compile).
#pragma once

#include "plan/plan.h"

namespace lathe {

// Throws Input unless what a file says holds.
void require(bool condition, const std::string& what);

// Absent: of a plan that was stripped of its weights; what has its bytes is not asked then.
enum class WeightBytes { Present, Absent };
// Throws Input, or what a part throws; the caller says which file it was.
void check_variant(const PlanVariant& variant, WeightBytes weights = WeightBytes::Present);

}  // namespace lathe
