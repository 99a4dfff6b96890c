// SPDX-License-Identifier: Apache-2.0
//
// A queue of runs and the thread that works it off.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "lathe/runtime.h"

struct lathe::v1::Stream::Impl {
  Impl() : thread([this](const std::stop_token& stop) { work(stop); }) {}

  void push(std::function<void()> job) {
    const std::lock_guard lock(mutex);
    jobs.push_back(std::move(job));
    changed.notify_all();
  }
  // The first error, once.
  std::exception_ptr wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return jobs.empty(); });
    return std::exchange(error, nullptr);
  }

 private:
  // What was enqueued is finished even when the stream ends: memory that it names is the caller's.
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return !jobs.empty(); })) {
      std::function<void()> job = std::exchange(jobs.front(), nullptr);
      const bool failed = error != nullptr;
      lock.unlock();
      std::exception_ptr problem;
      try {
        if (!failed) job();
      } catch (...) {
        problem = std::current_exception();
      }
      job = nullptr;
      lock.lock();
      if (problem) error = problem;
      jobs.pop_front();
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::function<void()>> jobs;  // the first one is running
  std::exception_ptr error;
  std::jthread thread;  // the last member: it ends before what it uses
};
