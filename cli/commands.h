// SPDX-License-Identifier: Apache-2.0
//
// The programs of this binary. Each gets the words after its name and returns the exit code; what they throw
// ends in main.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace lathe::cli {

using Words = std::vector<std::string>;

// `program`: argv[0] as typed, for the banner.
int run_trtexec(const std::string& program, const Words& words);
// The same with all lines in a file.
int run_trtexec(const std::string& program, const Words& words, std::FILE* log_file);

int run_zoo(const Words& words);
int run_inspect(const Words& words);
int run_diff(const Words& words);
int run_retune(const Words& words);
int run_quantize(const Words& words);
int run_autocast(const Words& words);
int run_why(const Words& words);
int run_edit(const Words& words);
int run_explore(const Words& words);
int run_process(const Words& words);
int run_completion(const Words& words);
int run_man(const Words& words);

}  // namespace lathe::cli
