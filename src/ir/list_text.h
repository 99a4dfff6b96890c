// SPDX-License-Identifier: Apache-2.0
//
// Lists in the text of graphs: [a, b, c].
#pragma once

#include <string>
#include <vector>

namespace lathe {

template <class T, class F>
std::string list_text(const std::vector<T>& items, const F& item_text) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + item_text(items[i]);
  return text + "]";
}

}  // namespace lathe
