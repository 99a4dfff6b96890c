// SPDX-License-Identifier: Apache-2.0
//
// A model after import: the portable graph and what is known of its origin.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lathe {

struct Network {
  std::shared_ptr<const Graph> graph;
  ModelMetadata model;
  double parse_seconds = 0;
  std::vector<std::string> warnings;  // of the importer
  std::map<std::string, Format, std::less<>>
      formats;  // of inputs and outputs whose memory is not linear (io_formats.h)
  std::set<std::string, std::less<>> strings;  // inputs and outputs that are strings
  bool has_fixed_shapes = false;  // read for the given shapes alone, since it is not supported with open dims

  std::vector<TensorInfo> inputs() const { return with_strings(input_infos(*graph)); }
  std::vector<TensorInfo> outputs() const { return with_strings(output_infos(*graph)); }

 private:
  std::vector<TensorInfo> with_strings(std::vector<TensorInfo> infos) const {
    for (TensorInfo& info : infos) info.is_string = strings.contains(info.name);
    return infos;
  }
};

}  // namespace lathe
