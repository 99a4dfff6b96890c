// SPDX-License-Identifier: Apache-2.0
//
// What the kernels that sample images share.
#pragma once

#include "backend/cuda/codegen/own_tactic.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {

// Yes, if these operands are floats that kernels read.
inline Support expect_floats(const Tactic& t, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs)
    if (i < t.inputs.size() && t.inputs[i].dtype != DType::Undefined && !is_kernel_float(t.inputs[i].dtype))
      return Support::no("no kernel for " + std::string(dtype_name(t.inputs[i].dtype)));
  return {};
}

// Into how many parts the channels go, so that `blocks` blocks for each fill the machine four times: a thread
// walks over the channels of a part.
inline Dim parts_of_channels(const LayerQuery& query, const Dim& blocks, const Dim& channels,
                             const DeviceProperties& gpu) {
  const SymbolValues opt = query.opt_values();
  const int64_t each = std::max<int64_t>(1, upper_extent(blocks, opt)),
                most = std::max<int64_t>(1, upper_extent(channels, opt));
  const int64_t wanted = (int64_t{8} * gpu.multiprocessors + each - 1) / each;
  return Dim(std::clamp<int64_t>(wanted, 1, std::min<int64_t>(most, 1024)));
}

// A product whose left operand is sampled: a block has 64 positions of the result and 64 filters of a group,
// takes K in steps of sixteen into shared memory, and multiplies in FP32. The kernel has the constants
// POSITIONS, AREA (of an image), F (filters), GF (of a group), K, and BIAS(filter).
//
// sampled_positions() defines row0, f0, group, and the thread's position, image and place. Behind it the
// kernel defines sample(k), a number for that position, and filter_at(f, k), for f < GF and k < K;
// sampled_product() does the rest, up to finish1().
std::string_view sampled_positions();
std::string_view sampled_product();

// What Conv and ConvTranspose share, in linear format: the tactics for types that are allowed; the kernel up
// to sampled_positions(), with FROM, FILTERS, TAPS (of a filter) and GC (channels of a group) besides; and
// sample(k), where `places` works out where the position's window lies, and `meet` adds the pixel of `tap` to
// `offset` and the image's extents to `plane`, the last dim first, or returns 0.
std::vector<Tactic> list_sampled_conv(const LayerQuery& query, std::string_view runner,
                                      const std::string& name, int64_t groups);
KernelBuilder start_sampled_conv(const LayerQuery& query, const Tactic& tactic, const std::string& name,
                                 int64_t groups, const Dim& channels, const Dim& taps);
std::string sample_taps(const std::string& places, const std::string& meet, int64_t groups);

}  // namespace lathe::cuda
