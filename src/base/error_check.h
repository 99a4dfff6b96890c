// SPDX-License-Identifier: Apache-2.0
//
// For tests: what a call that must not succeed says, and what it should say.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

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

inline void expect_says(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace lathe
