// SPDX-License-Identifier: Apache-2.0
//
// The compiled network on the GPU: one kernel with its constants per layer, and the constants that layers
// read in place. Immutable, shared by all executions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernel.h"
#include "backend/program.h"
#include "backend/segments.h"

namespace lathe::cuda {

struct ProgramLayer {
  NodeId node = kNoNode;
  std::unique_ptr<LayerKernel> kernel;  // null: a view, nothing runs
  // The symbols that decide what it is prepared for; nothing where bodies may name others.
  std::optional<std::vector<std::string>> symbols;
};

class CudaProgram final : public Program, public std::enable_shared_from_this<CudaProgram> {
 public:
  CudaProgram(ProgramSpec spec, std::shared_ptr<const Device> device);

  std::unique_ptr<Execution> create_execution() const override;
  int64_t weight_bytes() const override { return weight_bytes_; }

  const Graph& graph() const { return *spec_.graph; }
  const ProgramSpec& spec() const { return spec_; }
  const std::vector<ProgramLayer>& layers() const { return layers_; }
  const std::shared_ptr<const Device>& device() const { return device_; }
  const Segments& segments() const { return segments_; }
  // Device address of a constant that is read in place; null for others.
  const std::byte* constant(ValueId id) const {
    return static_cast<const std::byte*>(constants_[static_cast<size_t>(id)].data());
  }

 private:
  void make_kernels();
  void upload_constants();

  ProgramSpec spec_;
  std::shared_ptr<const Device> device_;
  std::vector<ProgramLayer> layers_;
  std::vector<DeviceMemory> constants_;  // by ValueId
  Segments segments_;
  int64_t weight_bytes_ = 0;
};

// Calls body(0..count-1) on a few threads of its own, and rethrows the first error: compiling a kernel takes
// 0.05 to 0.5 s.
void for_each_parallel(size_t count, const std::function<void(size_t)>& body);

}  // namespace lathe::cuda
