// SPDX-License-Identifier: Apache-2.0
//
// The standard library's "no memory" says neither how much was wanted nor for what. Stages that know it say
// it.
#pragma once

#include <new>
#include <string_view>

#include "base/error.h"

namespace lathe {

// Calls `body`. Where it finds no memory: a System error "out of memory: <what for>", with figures.
// `what_for()` makes the text.
template <class WhatFor, class Body>
auto with_memory_for(const WhatFor& what_for, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw_system_error("out of memory: " + what_for(), ErrorCode::FailedAllocation);
  }
}

}  // namespace lathe
