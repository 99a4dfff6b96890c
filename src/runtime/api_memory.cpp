// SPDX-License-Identifier: Apache-2.0
//
// Allocators of the public API: the pool, and the library's own memory as an allocator.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/api_bridge.h"

namespace lathe::v1 {
namespace {

class HostAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment, void*) override {
    alignment = std::max(alignment, sizeof(void*));
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    return rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  }
  void deallocate(void* memory, void*) noexcept override { std::free(memory); }
};

// What a backend's own buffers are made of; they are aligned to 256 at least on GPUs, and to a page on the
// host.
class DeviceAllocator final : public Allocator {
 public:
  explicit DeviceAllocator(std::shared_ptr<const Backend> backend) : backend_(std::move(backend)) {}
  void* allocate(size_t bytes, size_t alignment, void*) override {
    return translate_errors([&]() -> void* {
      std::unique_ptr<Buffer> buffer = backend_->allocate(bytes + (backend_->is_host() ? 0 : alignment));
      const auto at = reinterpret_cast<uintptr_t>(buffer->data());
      void* const memory = reinterpret_cast<void*>((at + alignment - 1) / alignment * alignment);
      const std::lock_guard lock(mutex_);
      buffers_.emplace(memory, std::move(buffer));
      return memory;
    });
  }
  void deallocate(void* memory, void* stream) noexcept override {
    // A device's memory is freed when it has done all that it was given before.
    (void)stream;
    const std::lock_guard lock(mutex_);
    buffers_.erase(memory);
  }

 private:
  std::shared_ptr<const Backend> backend_;
  std::mutex mutex_;
  std::map<void*, std::unique_ptr<Buffer>> buffers_;
};

}  // namespace

std::shared_ptr<Allocator> device_allocator(const DeviceConfig& device) {
  return translate_errors([&]() -> std::shared_ptr<Allocator> {
    if (device.device == "cpu") return std::make_shared<HostAllocator>();
    return std::make_shared<DeviceAllocator>(open_backend(to_device_options(device)));
  });
}

struct MemoryPool::Impl {
  struct Piece {
    void* memory = nullptr;
    size_t bytes = 0, alignment = 1;
    void* stream = nullptr;  // that may still use it; null: none
  };

  std::shared_ptr<Allocator> source;
  size_t limit = 0;
  mutable std::mutex mutex;
  std::map<void*, Piece> used;
  std::vector<Piece> kept;  // as they came back
  size_t used_bytes = 0, kept_bytes = 0, peak_bytes = 0;

  // The smallest kept piece that will do; the last one that came back where several have its size.
  std::vector<Piece>::iterator find(size_t bytes, size_t alignment, void* stream) {
    auto best = kept.end();
    for (auto piece = kept.begin(); piece != kept.end(); ++piece) {
      const bool is_free = piece->stream == nullptr || piece->stream == stream;
      const bool fits = piece->bytes >= bytes && piece->bytes / 2 <= bytes && piece->alignment >= alignment;
      if (is_free && fits && (best == kept.end() || piece->bytes <= best->bytes)) best = piece;
    }
    return best;
  }
  size_t trim() {
    const size_t bytes = kept_bytes;
    for (const Piece& piece : kept) source->deallocate(piece.memory, piece.stream);
    kept.clear();
    kept_bytes = 0;
    return bytes;
  }
  Piece take(size_t bytes, size_t alignment, void* stream) {
    if (const auto piece = find(bytes, alignment, stream); piece != kept.end()) {
      const Piece taken = *piece;
      kept.erase(piece);
      kept_bytes -= taken.bytes;
      return taken;
    }
    const auto is_too_much = [&] {
      return limit > 0 && (bytes > limit || used_bytes + kept_bytes > limit - bytes);
    };
    if (is_too_much()) trim();
    if (is_too_much()) return {};
    void* memory = source->allocate(bytes, alignment, stream);
    if (memory == nullptr && trim() > 0) memory = source->allocate(bytes, alignment, stream);
    return {memory, bytes, alignment, nullptr};
  }
};

MemoryPool::MemoryPool(std::shared_ptr<Allocator> source, size_t limit_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->source = source ? std::move(source) : std::make_shared<HostAllocator>();
  impl_->limit = limit_bytes;
}

MemoryPool::~MemoryPool() {
  impl_->trim();
  for (const auto& [memory, piece] : impl_->used) impl_->source->deallocate(memory, nullptr);
}

void* MemoryPool::allocate(size_t bytes, size_t alignment, void* stream) {
  const std::lock_guard lock(impl_->mutex);
  const Impl::Piece piece = impl_->take(bytes, alignment, stream);
  if (piece.memory == nullptr) return nullptr;
  impl_->used.emplace(piece.memory, piece);
  impl_->used_bytes += piece.bytes;
  impl_->peak_bytes = std::max(impl_->peak_bytes, impl_->used_bytes);
  return piece.memory;
}

void MemoryPool::deallocate(void* memory, void* stream) noexcept {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->used.find(memory);
  if (found == impl_->used.end()) return;  // not of this pool
  Impl::Piece piece = found->second;
  piece.stream = stream;
  impl_->used.erase(found);
  impl_->used_bytes -= piece.bytes;
  impl_->kept_bytes += piece.bytes;
  impl_->kept.push_back(piece);
}

size_t MemoryPool::trim() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->trim();
}
size_t MemoryPool::used_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->used_bytes;
}
size_t MemoryPool::kept_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->kept_bytes;
}
size_t MemoryPool::peak_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->peak_bytes;
}

}  // namespace lathe::v1
