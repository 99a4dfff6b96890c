// SPDX-License-Identifier: Apache-2.0
//
// A model after import: the portable graph and what is known of its origin.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
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
      formats;                    // of inputs and outputs whose memory is not linear (io_formats.h)
  bool has_fixed_shapes = false;  // read for the given shapes alone, since it is not supported with open dims

  std::vector<TensorInfo> inputs() const { return input_infos(*graph); }
  std::vector<TensorInfo> outputs() const { return output_infos(*graph); }
};

}  // namespace lathe
