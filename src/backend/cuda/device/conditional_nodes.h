// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a CUDA graph with graphs inside that run if, or as long as, a number on the GPU says so. So a
// graph holds what otherwise the host decides between two graphs.
//
// The number is set by a kernel in front of the node, and in a loop by another behind each iteration. That
// kernel calls CUDA's device runtime, which no kernel of NVRTC has by itself: see KernelCache::linked().
#pragma once

#include <functional>

#include "backend/cuda/device/gpu_kernel.h"

namespace lathe::cuda {

// Whether what is enqueued on the stream goes into a graph.
bool is_recorded(const Device& device, CUstream stream);

// While it lives, the calling thread may allocate memory, load kernels and wait for other streams, although
// it records one.
class RelaxedRecording {
 public:
  explicit RelaxedRecording(const Device& device);
  ~RelaxedRecording();
  RelaxedRecording(const RelaxedRecording&) = delete;
  RelaxedRecording& operator=(const RelaxedRecording&) = delete;

 private:
  std::shared_ptr<const Driver> driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

class ConditionalNodes {
 public:
  // Enqueues on the stream that it is given, which is recorded.
  using Record = std::function<void(CUstream)>;
  // Addresses of numbers on the GPU that stay where they are.
  struct LoopNumbers {
    const void* go_on = nullptr;  // bool, before the first iteration and from each for the next
    void* iteration = nullptr;    // int64, the number of the iteration in progress
    const void* trips = nullptr;  // int64, the most iterations; null: as many as go_on says
  };

  // `device` outlives this.
  ConditionalNodes(const Device& device, BlobStore& blobs);
  // No, with the reason, where no kernel can set a condition.
  const Support& support() const { return support_; }

  // Behind what is recorded on the stream. Throw what the calls throw, and System where CUDA refuses.
  // `condition`: the address of a bool.
  void add_if(CUstream recorder, const void* condition, const Record& then, const Record& otherwise) const;
  void add_loop(CUstream recorder, const LoopNumbers& numbers, const Record& body) const;

 private:
  struct Condition {
    CUgraphConditionalHandle handle = 0;
    CUgraph graph = nullptr;
  };
  Condition make_condition(CUstream recorder) const;
  void set(const Condition& condition, const LoopNumbers& numbers, bool is_first, CUstream recorder) const;
  void add(CUstream recorder, const Condition& condition, CUgraphConditionalNodeType type,
           std::span<const Record> bodies) const;

  const Device& device_;
  Support support_;
  GpuKernel set_condition_;
};

}  // namespace lathe::cuda
