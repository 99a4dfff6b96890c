// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "base/error.h"

namespace fuzz {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the worker tells while it lives and after it died.
struct Shared {
  std::atomic<int64_t> next{0};    // the case that is under way or comes next
  std::atomic<double> started{0};  // when it began; 0: none is under way
  std::atomic<int64_t> accepted{0}, refused{0}, findings{0};
  std::atomic<bool> done{false};
};

class Supervisor {
 public:
  Supervisor(const std::string& command, const Limits& limits, const std::function<Case()>& prepare)
      : command_(command), limits_(limits), prepare_(prepare) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared_ = new (memory) Shared();
    shared_->next = limits.first;
    if (limits.seconds > 0) end_ = now() + limits.seconds;
  }

  Tally run() {
    while (!shared_->done && !over()) run_worker();
    return {shared_->next - limits_.first, shared_->findings + lost_, shared_->accepted, shared_->refused};
  }

 private:
  bool over() const {
    return (end_ > 0 && now() >= end_) ||
           (limits_.count >= 0 && shared_->next >= limits_.first + limits_.count);
  }

  void report(int64_t n, const std::string& what) const {
    std::fprintf(stderr, "FINDING case %ld: %s\n  again: %s --case=%ld\n", static_cast<long>(n), what.c_str(),
                 command_.c_str(), static_cast<long>(n));
  }

  void run_worker() {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("cannot fork");
    if (child == 0) {
      work();
      std::fflush(nullptr);
      _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      const double started = shared_->started;
      if (started > 0 && now() - started > limits_.case_seconds) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return lose("takes more than " + std::to_string(static_cast<int>(limits_.case_seconds)) + " s");
      }
      const timespec pause{0, 20'000'000};
      nanosleep(&pause, nullptr);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (shared_->started == 0 && shared_->next == limits_.first)
      throw std::runtime_error("the worker did not come to its first case");
    lose(WIFSIGNALED(status) ? std::string("signal ") + strsignal(WTERMSIG(status))
                             : "ended with exit code " + std::to_string(WEXITSTATUS(status)));
  }
  // The case that was under way has ended the process.
  void lose(const std::string& why) {
    report(shared_->next, why);
    ++lost_;
    ++shared_->next;
    shared_->started = 0;
  }

  void work() {
    const Case run_case = prepare_();
    while (!over()) {
      const int64_t n = shared_->next;
      shared_->started = now();
      const std::string finding = run_one(run_case, n);
      if (!finding.empty()) {
        report(n, finding);
        ++shared_->findings;
      }
      shared_->started = 0;
      ++shared_->next;
    }
    shared_->done = true;
  }
  std::string run_one(const Case& run_case, int64_t n) {
    try {
      ++(run_case(n) == Outcome::Accepted ? shared_->accepted : shared_->refused);
      return {};
    } catch (const lathe::Error& error) {
      if (error.kind() == lathe::ErrorKind::Internal) return std::string("internal error: ") + error.what();
      ++shared_->refused;  // Input, or no memory for what it asks
      return {};
    } catch (const std::exception& error) {
      return std::string("not an error of ours: ") + error.what();
    }
  }

  const std::string command_;
  const Limits limits_;
  const std::function<Case()>& prepare_;
  Shared* shared_ = nullptr;
  double end_ = 0;
  int64_t lost_ = 0;
};

}  // namespace

Tally run_cases(const std::string& command, const Limits& limits, const std::function<Case()>& prepare) {
  return Supervisor(command, limits, prepare).run();
}

}  // namespace fuzz
