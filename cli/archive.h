// SPDX-License-Identifier: Apache-2.0
//
// Engine archives (.tea): a ZIP file with the files of one engine, to mail or to keep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explorer/core/readers.h"

namespace lathe::cli {

// Of all files of an archive together: a layer file of 100,000 layers has some 200 MB.
inline constexpr uint64_t kMostArchivedBytes = uint64_t{1} << 30;

bool is_archive(const std::string& path);

// Files by their names without folders; replaces an archive of that name once all of them are in.
void write_archive(const std::string& path, const std::vector<std::string>& files);

// Those of its files that say something of an engine; engines, pictures and pages are left alone. Throws
// Input for a damaged archive and for one without any.
std::vector<explorer::InputFile> read_archive(const std::string& path,
                                              uint64_t most_bytes = kMostArchivedBytes);

}  // namespace lathe::cli
