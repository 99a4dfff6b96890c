// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include "lathe_version.h"  // written by CMake into the build folder

namespace lathe {

std::string_view version() {
  return LATHE_VERSION;
}
std::string_view version_digits() {
  return LATHE_VERSION_DIGITS;
}
std::string_view release_date() {
  return LATHE_RELEASE_DATE;
}

}  // namespace lathe
