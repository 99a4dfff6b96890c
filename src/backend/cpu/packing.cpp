// SPDX-License-Identifier: Apache-2.0
//
// Packed constants: found in the store when an engine was loaded, made and stored otherwise.
#include "backend/cpu/kernel.h"

namespace lathe::cpu {

std::span<const std::byte> PackContext::packed(std::string_view suffix,
                                               const std::function<std::vector<std::byte>()>& pack) const {
  std::string name = key;
  name += '/';
  name += suffix;
  const std::span<const std::byte> stored = blobs.find(name);
  if (!stored.empty()) return stored;
  return blobs.put(name, pack());
}

}  // namespace lathe::cpu
