// SPDX-License-Identifier: Apache-2.0
//
// Between the public API (lathe::v1) and the library: conversions, and the one place where exceptions change
// their type.
#pragma once

#include <memory>
#include <new>

#include "backend/all.h"
#include "base/error.h"
#include "base/interrupted.h"
#include "ir/tensor.h"
#include "lathe/runtime.h"
#include "plan/optimization_profile.h"
#include "plugin/registry.h"
#include "runtime/engine.h"

namespace lathe {

template <class F>
decltype(auto) translate_errors(F&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw v1::Error(static_cast<v1::ErrorKind>(error.kind()), static_cast<v1::ErrorCode>(error.code()),
                    {.what = error.message(),
                     .where = error.context(),
                     .node = error.node(),
                     .op_type = error.op_type()});
  } catch (const Interrupted&) {
    throw v1::Error(v1::ErrorKind::Cancelled,
                    "the build was cancelled; what it has measured is in the timing cache");
  } catch (const std::bad_alloc&) {
    throw v1::Error(v1::ErrorKind::System, v1::ErrorCode::FailedAllocation, {.what = "out of memory"});
  }
}

inline DType to_dtype(v1::DataType type) {
  return static_cast<DType>(type);
}
inline v1::DataType to_data_type(DType dtype) {
  return static_cast<v1::DataType>(dtype);
}
std::vector<v1::TensorInfo> to_public(const std::vector<TensorInfo>& infos);
DeviceOptions to_device_options(const v1::DeviceConfig& config);
// Shares the bytes of `tensor`, which must outlive the result.
Tensor borrow(const v1::HostTensor& tensor, const std::string& name);

}  // namespace lathe

struct lathe::v1::Engine::Impl {
  std::shared_ptr<const lathe::Engine> engine;
};

struct lathe::v1::PluginRegistry::Impl {
  std::shared_ptr<lathe::plugin::Registry> registry = std::make_shared<lathe::plugin::Registry>();
};

struct lathe::v1::Profiler::Impl {
  std::unique_ptr<LayerProfiler> profiler;
};
