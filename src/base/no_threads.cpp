// SPDX-License-Identifier: Apache-2.0
#include "base/no_threads.h"

#include <string>

#include "base/error.h"

namespace lathe {

void throw_no_threads(int count, const std::system_error& error) {
  throw_system_error(
      "cannot start " + std::to_string(count) + (count == 1 ? " thread (" : " threads (") +
          error.code().message() +
          "): each wants memory for its stack, 8 MiB of addresses as a rule (ulimit -s, -u and -v)",
      ErrorCode::FailedInitialization);
}

}  // namespace lathe
