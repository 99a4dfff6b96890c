// SPDX-License-Identifier: Apache-2.0
//
// Sequences of calls recorded from a stream, ready to be launched as one (CUDA graphs).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/cuda/device/gpu_kernel.h"

namespace lathe::cuda {

using OwnedGraph = std::shared_ptr<std::remove_pointer_t<CUgraph>>;

class RecordedGraph {
 public:
  // Records what `enqueue` puts on `stream`. Throws System when something in it cannot be recorded.
  RecordedGraph(const Device& device, CUstream stream, const std::function<void(CUstream)>& enqueue);
  // Of what was recorded.
  RecordedGraph(const Device& device, const OwnedGraph& graph);
  void launch(CUstream stream) const;
  size_t nodes() const { return nodes_; }
  size_t conditional_nodes() const { return conditional_nodes_; }  // of these, with graphs inside
  CUgraphExec executable() const { return executable_.get(); }

 private:
  std::shared_ptr<const Driver> driver_;
  std::shared_ptr<std::remove_pointer_t<CUgraphExec>> executable_;
  size_t nodes_ = 0, conditional_nodes_ = 0;
};

// A graph of steps that remembers which of its nodes each step made, so that a few steps can get other
// arguments and sizes: of a decoder's step, the layers that know how long the past is.
class SteppedGraph {
 public:
  struct Calls {
    std::function<void(size_t step, CUstream stream)> enqueue;
    // The launches of enqueue(), if it makes nothing else.
    std::function<bool(size_t step, const LaunchVisitor& visitor)> visit;
  };

  // Records steps 0 to `steps` - 1 in order. Throws System when something in them cannot be recorded, or
  // makes a conditional node, which CUDA does not update.
  SteppedGraph(const Device& device, CUstream recorder, size_t steps, const Calls& calls);
  // From now on launch() enqueues these steps, in ascending order, with the calls that they make now; what
  // was launched before stays as it was. False when those differ in more than arguments and sizes: then the
  // graph must not be launched any more. Throws as the constructor.
  bool update(CUstream recorder, std::span<const size_t> changed, const Calls& calls);
  void launch(CUstream stream) const { graph_.launch(stream); }
  size_t nodes() const { return graph_.nodes(); }

 private:
  struct Recording {
    OwnedGraph graph;
    std::vector<std::vector<CUgraphNode>> nodes;  // of each step, in order
    bool is_chain = true;                         // each node waits for the one in front: `nodes` is right
  };

  Recording record(CUstream recorder, std::span<const size_t> steps, const Calls& calls) const;
  // The nodes that were made between two ends of the recording.
  bool collect(CUgraphNode end, CUgraphNode before, std::vector<CUgraphNode>& nodes) const;
  // The step's kernels as they are now; false: it is not of kernels alone, or of others.
  bool put_launches(size_t step, const Calls& calls) const;
  bool put_recorded(std::span<const size_t> changed, const Recording& recording) const;

  std::shared_ptr<const Driver> driver_;
  Recording recording_;  // its nodes name those of the executable
  RecordedGraph graph_;
};

}  // namespace lathe::cuda
