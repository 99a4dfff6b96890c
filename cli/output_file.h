// SPDX-License-Identifier: Apache-2.0
//
// Files that a command is going to write: whether it can is said before the work, which may take minutes.
#pragma once

#include <string>

#include "base/file.h"

namespace lathe::cli {

enum class WriteMode {
  Replace,  // by rename: the folder has to be writable
  InPlace,  // an existing file has to be
};

// Why `file` cannot be written, "a.json cannot be written: there is no folder x"; empty when it can, or when
// it is empty.
std::string why_unwritable(const std::string& file, WriteMode mode);
// Throws Input with that reason. "-" is standard output.
void require_writable(const std::string& file, WriteMode mode = WriteMode::Replace);

// For -o of commands that write a model. Throws Input: no file is named (`example` is one), it exists and may
// not be replaced, or its folder does not exist.
void require_new_file(const std::string& file, const std::string& example, bool may_replace);

// A report of trtexec. One that cannot be written is an error here; trtexec ignores it silently. Nothing is
// formatted for a file that was not asked for.
template <class Write>
void export_file(const std::string& file, Write write) {
  if (!file.empty()) write_file_in_place(file, write);
}

}  // namespace lathe::cli
