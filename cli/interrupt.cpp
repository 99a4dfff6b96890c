// SPDX-License-Identifier: Apache-2.0
//
// The signals are blocked in all threads, and one thread waits for them: so it may take locks and remove
// folders, which a signal handler must not do.
#include "interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/no_threads.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// A signal is for the whole process, and so is this. It is never destroyed: the waiting thread uses it to the
// end.
struct SignalState {
  std::mutex mutex;
  std::stop_source stop;
  int stoppable = 0;  // works that would hear a request to stop
  int signal = 0;
  std::vector<fs::path> folders;
};
SignalState& state() {
  static SignalState& the_state = *new SignalState;
  return the_state;
}

// Those that the program's parent does not ignore: `nohup` and shells in the background have reasons.
sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

void wait_for_signals(const sigset_t& signals) {
  for (int signal = 0; sigwait(&signals, &signal) == 0;) {
    std::unique_lock lock(state().mutex);
    const bool is_first = state().signal == 0;
    state().signal = signal;
    if (is_first && state().stoppable > 0) {
      state().stop.request_stop();
      continue;
    }
    std::error_code ignored;
    for (const fs::path& folder : state().folders) fs::remove_all(folder, ignored);
    end_by_signal(signal);  // with the lock, so that no folder is made meanwhile
  }
}

}  // namespace

void watch_interrupts() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  state();
  try {
    std::thread(wait_for_signals, signals).detach();
  } catch (const std::system_error& error) {
    throw_no_threads(1, error);
  }
}

int interrupt_signal() {
  const std::lock_guard lock(state().mutex);
  return state().signal;
}

void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::raise(signal);
  _exit(128 + signal);  // not reached
}

Stoppable::Stoppable() {
  const std::lock_guard lock(state().mutex);
  ++state().stoppable;
}

Stoppable::~Stoppable() {
  const std::lock_guard lock(state().mutex);
  --state().stoppable;
}

std::stop_token Stoppable::token() const {
  return state().stop.get_token();
}

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  if (error) throw_system_error("no place for temporary files: $TMPDIR, or /tmp without it, is no folder");
  std::string pattern = (place / (prefix + "-XXXXXX")).string();
  const std::lock_guard lock(state().mutex);
  if (mkdtemp(pattern.data()) == nullptr)
    throw_system_error("cannot create a folder in '" + place.string() +
                       "': " + std::generic_category().message(errno));
  path_ = pattern;
  state().folders.push_back(path_);
}

TemporaryFolder::~TemporaryFolder() {
  const std::lock_guard lock(state().mutex);
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  std::erase(state().folders, path_);
}

}  // namespace lathe::cli
