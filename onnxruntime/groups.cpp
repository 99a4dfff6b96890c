// SPDX-License-Identifier: Apache-2.0
#include "groups.h"

#include <algorithm>
#include <map>

namespace lathe::onnxruntime_ep {

// A node's level is how often, at most, a path to it goes from a supported node into one that is not. Levels
// never fall along a path, so a path between two supported nodes of one level has supported nodes of that
// level alone.
std::vector<std::vector<size_t>> group_nodes(const std::vector<NodeEdges>& nodes,
                                             const std::vector<bool>& supported) {
  std::map<std::string, size_t, std::less<>> makers;
  std::vector<size_t> levels(nodes.size(), 0);
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& value : nodes[i].reads)
      if (const auto maker = makers.find(value); maker != makers.end()) {
        const bool leaves = supported[maker->second] && !supported[i];
        levels[i] = std::max(levels[i], levels[maker->second] + (leaves ? 1 : 0));
      }
    for (const std::string& value : nodes[i].makes) makers[value] = i;
    if (!supported[i]) continue;
    if (groups.size() <= levels[i]) groups.resize(levels[i] + 1);
    groups[levels[i]].push_back(i);
  }
  std::erase_if(groups, [](const std::vector<size_t>& group) { return group.empty(); });
  return groups;
}

}  // namespace lathe::onnxruntime_ep
