// SPDX-License-Identifier: Apache-2.0
//
// Matrix products through cuBLASLt: result = activation(a b + residual + bias), row-major, possibly a batch
// of them.
//
// cuBLASLt thinks in column-major matrices, so it is asked for the transposed product: result^T = b^T a^T. It
// is asked for several algorithms, and number `rank` of its list is a tactic: the list is the same for one
// version of the library on one kind of GPU, which is what a target is.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "backend/cuda/kernel.h"

namespace lathe::cuda {

struct GemmProblem {
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;  // a is stored (k, m), b is stored (n, k)
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0,
          stride_bias = 0;  // elements from one product of the batch to the next; 0: the same
  DType source = DType::Float32, result = DType::Float32;
  bool tf32 = false;  // FP32 operands are rounded to TF32
  bool bias = false, residual = false, relu = false, gelu_tanh = false;

  bool operator==(const GemmProblem&) const = default;
};

// One cuBLASLt call with fixed shapes. Immutable after construction.
class Gemm {
 public:
  static constexpr size_t kScratchBytes = 32 << 20;

  // Number `rank` of cuBLASLt's algorithms for the problem, best guess first. Throws Input when it offers
  // fewer.
  Gemm(const Device& device, const GemmProblem& problem, int rank);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  size_t scratch_bytes() const { return scratch_bytes_; }
  void enqueue(const void* a, const void* b, const void* bias, const void* residual, void* result,
               void* scratch, CUstream stream) const;

 private:
  void make_descriptors(const GemmProblem& problem);
  void choose(int rank);
  void require(cublasStatus_t status, std::string_view what) const;

  const Device& device_;
  const GemmProblem problem_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t scratch_bytes_ = 0;
};

}  // namespace lathe::cuda
