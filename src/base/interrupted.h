// SPDX-License-Identifier: Apache-2.0
//
// The end of work that its caller asked to stop.
#pragma once

#include <exception>

namespace lathe {

// Not an Error: what handles errors and goes on must not catch it.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

}  // namespace lathe
