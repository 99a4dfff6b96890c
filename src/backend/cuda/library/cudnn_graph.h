// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's backend interface: an operation graph of descriptors, the configurations that its heuristics
// propose for it, and execution plans. The C interface is used directly; NVIDIA's C++ front end costs 20 to
// 40 s of compile time a file.
//
// A configuration is named by its engine and knobs ("e41_k2-3_k27-1"), so it can be found again for other
// shapes and in another process. Heuristics need no GPU: a described device passes its properties as JSON.
#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernel.h"

namespace lathe::cuda {

// One descriptor, destroyed with its owner.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Device& device, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  cudnnBackendDescriptor_t handle() const { return handle_; }
  // Setting throws Input with cuDNN's own words: a refusal of this problem.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  void set_ints(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  void set_type(cudnnBackendAttributeName_t name, cudnnDataType_t type);
  void set_float(cudnnBackendAttributeName_t name, float value);
  void set_bool(cudnnBackendAttributeName_t name, bool value);
  void set_descriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void finalize(std::string_view what);
  // Up to `count` values of an attribute; returns how many there are. 0 when it cannot be read.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              void* values) const;

 private:
  void require(cudnnStatus_t status, std::string_view what) const;

  const Device& device_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

using CudnnNode = std::shared_ptr<CudnnDescriptor>;

// How cuDNN is to run a graph: one of its engines, with a choice for each of the engine's knobs.
struct CudnnConfig {
  int64_t engine = 0;
  std::vector<std::pair<int, int64_t>> knobs;  // type and value, in cuDNN's order
  bool compiled_at_run_time = false;           // by cuDNN, 0.3 s or more
  bool tensor_cores = false;                   // FP32 operands become TF32

  static constexpr int kMostKnobs = 48;
  std::string name() const;  // "e41_k2-3_k27-1"
  // As parameters of a tactic, behind those that it has already; and back: what an engine file says may be
  // none.
  void add_to(TacticParams& params) const;
  static CudnnConfig of(const TacticParams& params);
};

// A graph under construction. Tensors are given by their logical extents (N, C, spatial...) and strides.
class CudnnGraph {
 public:
  explicit CudnnGraph(const Device& device) : device_(device) {}

  CudnnNode tensor(int64_t id, cudnnDataType_t type, const Extents& extents, const Extents& strides);
  CudnnNode virtual_tensor(cudnnDataType_t type, const Extents& extents, const Extents& strides);
  struct Window {
    std::vector<int64_t> pads_begin, pads_end, strides, dilations;
  };
  void convolution(const CudnnNode& x, const CudnnNode& w, const CudnnNode& y, const Window& window);
  struct PointwiseMode {
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    std::optional<float> lower_clip, upper_clip, elu_alpha, swish_beta;
  };
  // y = mode(x) or mode(x, b).
  void pointwise(const PointwiseMode& mode, const CudnnNode& x, const CudnnNode& b, const CudnnNode& y);
  void finish();

  // The configurations that the heuristics propose, best guess first, without those that are not
  // deterministic or give up accuracy (Winograd, FP16 sums; tensor cores for FP32 where TF32 is not allowed).
  std::vector<CudnnConfig> configs(bool allow_tf32) const;

  // An executable plan of the configuration. Throws Input when cuDNN refuses it for this graph.
  std::shared_ptr<CudnnDescriptor> plan(const CudnnConfig& config) const;
  static size_t scratch_bytes(const CudnnDescriptor& plan);

 private:
  CudnnNode make(cudnnBackendDescriptorType_t type) {
    return std::make_shared<CudnnDescriptor>(device_, type);
  }
  std::shared_ptr<CudnnDescriptor> device_descriptor() const;

  const Device& device_;
  int64_t next_virtual_ = 1000;
  std::vector<CudnnNode> kept_, operations_;
  CudnnNode graph_;
};

cudnnDataType_t cudnn_type(DType dtype);

// Enqueues a plan. `ids` and `addresses` are of its tensors.
void enqueue_cudnn_plan(const Device& device, const CudnnDescriptor& plan, const std::vector<int64_t>& ids,
                        const std::vector<const void*>& addresses, void* scratch, CUstream stream);

}  // namespace lathe::cuda
