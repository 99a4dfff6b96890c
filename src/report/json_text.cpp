// SPDX-License-Identifier: Apache-2.0
#include "report/json_text.h"

#include "base/json.h"

namespace lathe {

std::string json_string(std::string_view text) {
  return dump_json(Json(std::string(text)), -1);
}

}  // namespace lathe
