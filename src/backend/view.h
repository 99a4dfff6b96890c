// SPDX-License-Identifier: Apache-2.0
//
// Layers that move nothing: the output is a piece of the input's memory (Reshape, Identity, Slice and Split
// along the outermost axis, Gather of one index, a Transpose that an image's format makes up for), or the
// inputs are pieces of the output's (Concat). The memory plan places them, nothing runs. The tactics are the
// same on every backend, but for the formats that it has and how it wants addresses.
#pragma once

#include <span>
#include <vector>

#include "backend/tactic.h"

namespace lathe {

inline constexpr std::string_view kViewRunner = "View";

struct ViewRules {
  std::vector<Format> formats = {kLinear};  // of tensors with three dims or more
  int64_t alignment_bytes = 1;              // a piece must begin at a multiple of this
  bool small_floats = false;                // kernels read and write bytes of E4M3's grids
};
// (N, C, spatial...) to (N, spatial..., C): an image in channels-last format is that already.
inline bool puts_channels_last(const Ints& perm) {
  bool moved = perm.size() >= 3 && perm[0] == 0 && perm.back() == 1;
  for (size_t d = 1; moved && d + 1 < perm.size(); ++d) moved = perm[d] == static_cast<int64_t>(d) + 1;
  return moved;
}

// The other way round: the last dim takes the place of the channels.
inline bool puts_channels_second(const Ints& perm) {
  bool moved = perm.size() >= 3 && perm[0] == 0 && perm[1] == static_cast<int64_t>(perm.size()) - 1;
  for (size_t d = 2; moved && d < perm.size(); ++d) moved = perm[d] == static_cast<int64_t>(d) - 1;
  return moved;
}

std::vector<Tactic> list_views(const LayerQuery& query, const ViewRules& rules);

// The types in which a layer may hold elements that it only moves: those of layer_types(), and bytes where
// what it reads and what it gives lie on one grid: integers, and floats of 8 bits where kernels have them.
std::vector<DType> moved_types(const LayerQuery& query, bool small_floats = false);
// Whether elements of that type may lie in the format: bytes of a grid lie in no blocked one, because kernels
// of bytes have none.
bool may_lie(const LayerQuery& query, DType type, const Format& format);

}  // namespace lathe
