// SPDX-License-Identifier: Apache-2.0
//
// Memory of a device from the caller: an Allocator of his, or a MemoryPool.
//
//   auto pool = std::make_shared<MemoryPool>();
//   Runtime runtime(logger, {.allocator = pool});   // weights, activations, scratch, copies of inputs
//   context.set_allocator(pool);                    // activations, for the time of a run
#pragma once

#include <cstddef>
#include <memory>

namespace lathe::v1 {

// Gives memory of one device. Called by any thread, by several at a time.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes, never 0, at a multiple of `alignment`, which is a power of two and at most 4096.
  // Null or an exception: there are none, and the build, load or run fails.
  //
  // `stream`: null, or the CUstream on which the memory is used first. Then it need not be ready before what
  // that stream has been given is done (cuMemAllocAsync).
  virtual void* allocate(size_t bytes, size_t alignment, void* stream) = 0;
  // `stream`: null: nobody uses the memory any more. Else the CUstream that may still use it, until it has
  // done what it has been given (cuMemFreeAsync).
  virtual void deallocate(void* memory, void* stream) noexcept = 0;
};

// Keeps what is given back, for whoever asks next: repeated runs, contexts and loads take nothing of the
// source. A piece is taken again where it is at most twice as large as what is asked for; one that a stream
// may still use, by that stream alone.
class MemoryPool final : public Allocator {
 public:
  // Null: memory of the host. Pieces for more than `limit_bytes` in all, those that are kept included, are
  // refused, after the pool has given back what it keeps; 0: no limit.
  explicit MemoryPool(std::shared_ptr<Allocator> source = nullptr, size_t limit_bytes = 0);
  // Gives everything back. What is still in use must not be.
  ~MemoryPool() override;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  void* allocate(size_t bytes, size_t alignment, void* stream) override;
  void deallocate(void* memory, void* stream) noexcept override;
  // Gives back to the source what nobody uses. Returns its bytes.
  size_t trim();

  size_t used_bytes() const;  // of pieces in use
  size_t kept_bytes() const;  // of pieces that wait for the next one who asks
  size_t peak_bytes() const;  // the most that was in use at a time

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::v1
