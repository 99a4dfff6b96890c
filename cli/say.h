// SPDX-License-Identifier: Apache-2.0
//
// What commands print, with fmt's formats: names that would act on a terminal are made visible
// (base/printable.h).
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "base/printable.h"

namespace lathe::cli {

template <class... Args>
void say_to(std::FILE* file, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = printable(fmt::format(format, std::forward<Args>(args)...));
  std::fwrite(text.data(), 1, text.size(), file);
}

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_to(stdout, format, std::forward<Args>(args)...);
}

}  // namespace lathe::cli
