// SPDX-License-Identifier: Apache-2.0
//
// For tests: what a call that must not succeed says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace lathe {

// The text of the error that `body` throws, which must be one of input; "no error" when it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace lathe
