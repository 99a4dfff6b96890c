// SPDX-License-Identifier: Apache-2.0
//
// Around the body of a kernel that takes an order among its neighbours (LaunchOrder): `late` is its argument,
// kPlace the form that it is compiled for. `return` leaves only `work`: the first block always comes to the
// end, and waits there.

//# kStart
const bool is_late = kPlace == 2 && (late & 1);
const auto wait_for_operands = [&] {
  if constexpr (kPlace != 2) wait_for_previous_kernel();
  if constexpr (kPlace == 1) allow_next_kernel();
};
const auto wait_for_results = [&] {
  if (is_late) wait_for_previous_kernel();
};
const auto wait_for_input = [&](int i) {
  if (kPlace == 2 && (late >> (1 + i) & 1)) wait_for_previous_kernel();
};
if constexpr (kPlace != 1) allow_next_kernel();

//# kEnd
work();
if (kPlace == 2 && blockIdx.x + blockIdx.y + blockIdx.z == 0) wait_for_previous_kernel();
