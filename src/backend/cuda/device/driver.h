// SPDX-License-Identifier: Apache-2.0
//
// The functions of NVIDIA's driver that Lathe calls, found with dlopen: a package with this backend runs
// where there is no driver. The driver API is all that is needed (kernels come from NVRTC), so there is no
// CUDA runtime and no nvcc.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

// Not in cuda.h, and the header that has them is in no package that we need otherwise.
extern "C" {
CUresult CUDAAPI cuProfilerStart();
CUresult CUDAAPI cuProfilerStop();
}

namespace lathe::cuda {

// cuda.h renames some functions (cuMemAlloc is cuMemAlloc_v2), and the name to look up is the renamed one.
// That is why the table is a macro: the preprocessor alone knows those names.
#define LATHE_DRIVER_FUNCTIONS(X)      \
  X(cuInit)                            \
  X(cuDriverGetVersion)                \
  X(cuGetErrorName)                    \
  X(cuGetErrorString)                  \
  X(cuDeviceGet)                       \
  X(cuDeviceGetCount)                  \
  X(cuDeviceGetName)                   \
  X(cuDeviceGetAttribute)              \
  X(cuDeviceTotalMem)                  \
  X(cuDeviceGetUuid)                   \
  X(cuDevicePrimaryCtxRetain)          \
  X(cuDevicePrimaryCtxRelease)         \
  X(cuDevicePrimaryCtxSetFlags)        \
  X(cuCtxSetCurrent)                   \
  X(cuCtxSynchronize)                  \
  X(cuMemGetInfo)                      \
  X(cuMemAlloc)                        \
  X(cuMemFree)                         \
  X(cuMemHostAlloc)                    \
  X(cuMemFreeHost)                     \
  X(cuMemcpyHtoD)                      \
  X(cuMemcpyDtoH)                      \
  X(cuMemcpyHtoDAsync)                 \
  X(cuMemcpyDtoHAsync)                 \
  X(cuMemcpyDtoDAsync)                 \
  X(cuMemcpy2DAsync)                   \
  X(cuMemsetD8Async)                   \
  X(cuMemsetD32Async)                  \
  X(cuStreamCreate)                    \
  X(cuStreamDestroy)                   \
  X(cuStreamSynchronize)               \
  X(cuStreamWaitEvent)                 \
  X(cuStreamBeginCapture)              \
  X(cuStreamEndCapture)                \
  X(cuStreamGetCaptureInfo)            \
  X(cuStreamBeginCaptureToGraph)       \
  X(cuStreamUpdateCaptureDependencies) \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuEventCreate)                     \
  X(cuEventDestroy)                    \
  X(cuEventRecord)                     \
  X(cuEventSynchronize)                \
  X(cuEventElapsedTime)                \
  X(cuGraphAddNode)                    \
  X(cuGraphConditionalHandleCreate)    \
  X(cuGraphInstantiate)                \
  X(cuGraphGetNodes)                   \
  X(cuGraphLaunch)                     \
  X(cuGraphUpload)                     \
  X(cuGraphDestroy)                    \
  X(cuGraphExecDestroy)                \
  X(cuGraphExecUpdate)                 \
  X(cuGraphNodeGetDependencies)        \
  X(cuGraphNodeGetType)                \
  X(cuGraphKernelNodeGetParams)        \
  X(cuGraphExecKernelNodeSetParams)    \
  X(cuLinkCreate)                      \
  X(cuLinkAddFile)                     \
  X(cuLinkAddData)                     \
  X(cuLinkComplete)                    \
  X(cuLinkDestroy)                     \
  X(cuModuleLoadDataEx)                \
  X(cuModuleUnload)                    \
  X(cuModuleGetFunction)               \
  X(cuFuncSetAttribute)                \
  X(cuFuncGetAttribute)                \
  X(cuProfilerStart)                   \
  X(cuProfilerStop)                    \
  X(cuLaunchKernelEx)                  \
  X(cuTensorMapEncodeTiled)            \
  X(cuTensorMapEncodeIm2col)

struct Driver {
#define LATHE_MEMBER(function) decltype(&::function) function = nullptr;
  LATHE_DRIVER_FUNCTIONS(LATHE_MEMBER)
#undef LATHE_MEMBER

  // Opens libcuda.so.1 and calls cuInit. Null when that fails; `reason` then says what is missing, for a
  // person.
  static std::shared_ptr<const Driver> open(std::string& reason);

  // Throws System: "<what>: out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  void require(CUresult result, std::string_view what) const {
    if (result != CUDA_SUCCESS) fail(result, what);
  }
  std::string describe(CUresult result) const;

 private:
  [[noreturn]] void fail(CUresult result, std::string_view what) const;
};

}  // namespace lathe::cuda
