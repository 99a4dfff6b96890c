// SPDX-License-Identifier: Apache-2.0
//
// NVRTC, cuDNN and cuBLASLt as tables of functions, opened when present. Each is a source of tactics (NVRTC:
// of every kernel of our own), none is required: what is missing is named once, with what it costs.
#pragma once

#include <cublasLt.h>
#include <cudnn_graph.h>
#include <nvrtc.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lathe::cuda {

// The tables below are macros so that member, type and the name to look up are written once.
#define LATHE_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                \
  X(nvrtcCreateProgram)          \
  X(nvrtcDestroyProgram)         \
  X(nvrtcCompileProgram)         \
  X(nvrtcGetCUBINSize)           \
  X(nvrtcGetCUBIN)               \
  X(nvrtcGetProgramLogSize)      \
  X(nvrtcGetProgramLog)          \
  X(nvrtcGetErrorString)

#define LATHE_CUDNN_FUNCTIONS(X)   \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)

#define LATHE_CUBLASLT_FUNCTIONS(X)       \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoGetIds)             \
  X(cublasLtMatmulAlgoInit)               \
  X(cublasLtMatmulAlgoCapGetAttribute)    \
  X(cublasLtMatmulAlgoConfigSetAttribute) \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoCheck)

#define LATHE_MEMBER(function) decltype(&::function) function = nullptr;
struct Nvrtc {
  LATHE_NVRTC_FUNCTIONS(LATHE_MEMBER)
  int version = 0;  // 13000
};
struct Cudnn {
  LATHE_CUDNN_FUNCTIONS(LATHE_MEMBER)
  int version = 0;  // 91400
};
struct CublasLt {
  LATHE_CUBLASLT_FUNCTIONS(LATHE_MEMBER)
  int version = 0;  // 130002
};
#undef LATHE_MEMBER

struct Libraries {
  // Null when absent.
  std::unique_ptr<const Nvrtc> nvrtc;
  std::unique_ptr<const Cudnn> cudnn;
  std::unique_ptr<const CublasLt> cublaslt;
  // CUDA's device runtime as a library of device code, beside NVRTC; empty when absent.
  std::string device_runtime;
  // One line for each absent library: what is missing and which tactics that costs.
  std::vector<std::string> missing;

  static std::shared_ptr<const Libraries> open();
};

// The libraries' own state on one device. cuDNN's handle serves one thread at a time: hold `mutex` while
// using it.
struct LibraryHandles {
  std::mutex mutex;
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t cublaslt = nullptr;
};

}  // namespace lathe::cuda
