// SPDX-License-Identifier: Apache-2.0
//
// For tests: the message of the error that a call throws.
#pragma once

#include <string>

#include "base/error.h"

namespace lathe::cli {

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace lathe::cli
