// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/gemm.h"

#include <fmt/format.h>

#include "backend/cuda/device/libraries.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return CUDA_R_16F;
    case DType::BFloat16:
      return CUDA_R_16BF;
    default:
      check(dtype == DType::Float32, "cuBLASLt: a type that this tactic does not list");
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t epilogue_of(const GemmProblem& p) {
  if (p.relu) return p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  if (p.gelu_tanh) return p.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

Gemm::Gemm(const Device& device, const GemmProblem& problem, int rank) : device_(device), problem_(problem) {
  check(device.is_present() && device.libraries->cublaslt != nullptr, "cuBLASLt needs a GPU");
  make_descriptors(problem);
  choose(rank);
}

Gemm::~Gemm() {
  const CublasLt& lt = *device_.libraries->cublaslt;
  lt.cublasLtMatmulDescDestroy(operation_);
  for (const cublasLtMatrixLayout_t layout : {a_, b_, result_}) lt.cublasLtMatrixLayoutDestroy(layout);
}

void Gemm::require(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_system_error(fmt::format("cuBLASLt, {} ({}x{}x{}, batch {}): {}", what, problem_.m, problem_.n,
                                 problem_.k, problem_.batch,
                                 device_.libraries->cublaslt->cublasLtGetStatusString(status)));
}

void Gemm::make_descriptors(const GemmProblem& p) {
  const CublasLt& lt = *device_.libraries->cublaslt;
  require(lt.cublasLtMatmulDescCreate(&operation_, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                      CUDA_R_32F),
          "describing a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    require(lt.cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
            "describing a product");
  };
  // The first operand is b, the second a.
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
  if (p.bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(p.result));
    if (p.batch > 1) set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, p.stride_bias);
  }
  const auto layout = [&](cublasLtMatrixLayout_t& made, DType type, int64_t rows, int64_t columns,
                          int64_t stride) {
    require(lt.cublasLtMatrixLayoutCreate(&made, data_type(type), static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns), rows),
            "describing a matrix");
    if (p.batch == 1) return;
    const auto count = static_cast<int32_t>(p.batch);
    require(
        lt.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "describing a batch");
    require(lt.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                sizeof stride),
            "describing a batch");
  };
  layout(b_, p.source, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.stride_b);
  layout(a_, p.source, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.stride_a);
  layout(result_, p.result, p.n, p.m, p.m * p.n);
}

void Gemm::choose(int rank) {
  const CublasLt& lt = *device_.libraries->cublaslt;
  cublasLtMatmulPreference_t preference = nullptr;
  require(lt.cublasLtMatmulPreferenceCreate(&preference), "asking for algorithms");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    require(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
            "asking for algorithms");
  };
  const uint64_t scratch = kScratchBytes;
  // Split sums are added in the type of the accumulators, in a fixed order.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = 16;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, scratch);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(rank) + 1);
  int count = 0;
  const cublasStatus_t status =
      lt.cublasLtMatmulAlgoGetHeuristic(device_.handles->cublaslt, operation_, b_, a_, result_, result_,
                                        preference, rank + 1, found.data(), &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count <= rank)
    throw_input_error(fmt::format("cuBLASLt has {} algorithms for {}x{}x{} (batch {})",
                                  status == CUBLAS_STATUS_SUCCESS ? count : 0, problem_.m, problem_.n,
                                  problem_.k, problem_.batch));
  algorithm_ = found[static_cast<size_t>(rank)].algo;
  scratch_bytes_ = found[static_cast<size_t>(rank)].workspaceSize;
}

void Gemm::enqueue(const void* a, const void* b, const void* bias, const void* residual, void* result,
                   void* scratch, CUstream stream) const {
  const CublasLt& lt = *device_.libraries->cublaslt;
  const float one = 1, beta = problem_.residual ? 1 : 0;
  cublasLtMatmulDesc_t operation = operation_;
  // The address of the bias is part of the description; it never changes for one layer, so setting it again
  // is harmless.
  if (problem_.bias)
    require(
        lt.cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
        "setting the bias");
  require(lt.cublasLtMatmul(device_.handles->cublaslt, operation, &one, b, b_, a, a_, &beta,
                            problem_.residual ? residual : result, result_, result, result_, &algorithm_,
                            scratch, scratch_bytes_, stream),
          "a product");
}

}  // namespace lathe::cuda
