// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lathe {

// Makes the pages of memory that was not touched yet, in huge ones where the system grants them: a fault for
// every 4 KiB takes longer than filling them. Memory of less than a megabyte is left as it is.
void make_pages(std::byte* begin, size_t bytes);

}  // namespace lathe
