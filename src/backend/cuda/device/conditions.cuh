// SPDX-License-Identifier: Apache-2.0
//
// The numbers that conditional nodes of a CUDA graph obey (conditional_nodes.cpp). The whole of a source of
// its own, which is linked with CUDA's device runtime; one thread runs it.

//# kSetCondition
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);

// `go_on`: the condition. Of a loop, `iteration` is the number of the one that begins now, if there are fewer
// than `trips` of them behind it; both addresses are null for an If, and that of `trips` for a loop that its
// condition alone ends.
extern "C" __global__ void set_condition(unsigned long long handle, const bool* go_on, long long* iteration,
                                         const long long* trips, bool is_first) {
  bool goes_on = *go_on;
  if (iteration != nullptr) {
    const long long now = is_first ? 0 : *iteration + 1;
    *iteration = now;
    goes_on = goes_on && (trips == nullptr || now < *trips);
  }
  cudaGraphSetConditional(handle, goes_on ? 1u : 0u);
}
