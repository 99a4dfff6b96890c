// SPDX-License-Identifier: Apache-2.0
//
// What Ctrl-C (SIGINT) and SIGTERM do. Work that has something to save asks for a stop token: the first
// signal then only asks it to stop, and the program ends by that signal when the work has saved what it has.
// Everywhere else, and at the second signal, the program ends at once. Temporary folders are removed in
// either case.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

namespace lathe::cli {

// Starts the thread that waits for the signals. Called once by main, before any other thread exists.
void watch_interrupts();

// The signal that asked to stop; 0: none.
int interrupt_signal();
// Ends the program by that signal, so that a shell sees why it ended.
[[noreturn]] void end_by_signal(int signal);

// While one lives, the first signal asks its token to stop instead of ending the program.
class Stoppable {
 public:
  Stoppable();
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;
  std::stop_token token() const;
};

// A new folder in the system's place for them; it is gone when the object is, or the program.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lathe::cli
