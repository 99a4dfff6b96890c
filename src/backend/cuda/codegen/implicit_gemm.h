// SPDX-License-Identifier: Apache-2.0
//
// Convolutions, transposed convolutions and matrix products as one kind of problem: rows of A (pixels of the
// result, or rows of a matrix) times columns of B (output channels), K long, for several groups or batches.
// What differs is where an element of A lies.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

struct ImplicitGemm {
  // One spatial dim of a convolution.
  struct Axis {
    Dim in, out, pad_begin, in_stride;
    int64_t kernel = 1, stride = 1, dilation = 1;
  };
  // How B lies in memory: packed constant or "columns" [n][k]; "rows" [k][n].
  enum class BLayout : uint8_t { Packed, Columns, Rows };

  DType type = DType::Float32;
  // The left operand is bytes of a grid, the right one bytes, too: sums of signed bytes are whole numbers,
  // those of floats of 8 bits are floats. The scale of their column makes numbers of them.
  bool on_grid = false;
  Dim m, n, k;         // of one batch
  Dim batches = 1;     // groups of a convolution, or batches of a product
  Dim row_length = 0;  // of the result: n, or all channels
  bool is_conv = false, transposed = false;
  std::vector<Axis> axes;              // convolution
  Dim image_stride = 0, channels = 0;  // channels: of a group
  Walk batch_walk;                     // product: strides of A and B per batch dim
  BLayout b_layout = BLayout::Packed;
  bool has_bias = false;
  DType bias_type = DType::Undefined;

  // Elements of K in 128 bytes: what the copy engine brings at once.
  int step() const { return 128 / dtype_size(type); }
};

inline constexpr int64_t kPackedMultiple = 64;  // K of packed weights, in elements

// The layer as such a problem, or why not.
Support describe_gemm(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& problem);
// [group or matrix of a stack][n][K padded with zeros], in `type`; K runs over taps and, inside, channels,
// these padded to a multiple.
PackedBlock gemm_weights_block(const Op& op, const Tensor& weights, DType type, int64_t channel_multiple = 1);
// What a product of bytes reads besides the left operand: "w", as above, the "scale" of each column, and the
// "start" of its sum, which stands for the zero point of the left operand; starts go on behind the last
// column, as far as a tile may.
void add_grid_blocks(const LayerQuery& query, int64_t channel_multiple, LayerSource& source);
// Whether tensor cores multiply the layer's bytes; no says what is in the way.
Support multiplies_bytes(const LayerQuery& query, const ImplicitGemm& problem);
// Defines start_sums(sum, column): the sums of a warpgroup's 64 rows from `column` on, as they start in part
// `split` of K; in kernels of stages.cuh. `dealt`: columns lie as stay.cuh deals them.
void define_start_sums(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& problem,
                       bool dealt = false);

// Says in `tactic` how weights and bias of a layer in `type` are given: weights packed when they are
// constant, the bias as it is; refuses a bias of another kind.
void list_weights(const LayerQuery& query, DType type, Tactic& tactic);
// The size of the result is known only when data is.
bool has_data_dependent_dims(const LayerQuery& query);

// The problem at the profile's optimum, for estimates.
struct GemmSizes {
  double m = 0, n = 0, k = 0, batches = 1;
};
GemmSizes sizes_at_opt(const ImplicitGemm& problem, const LayerQuery& query);
// The eight variants with the least estimated times, fastest first.
template <class Variant>
std::vector<Variant> most_promising(std::vector<std::pair<double, Variant>> estimated) {
  std::stable_sort(estimated.begin(), estimated.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Variant> best;
  for (size_t i = 0; i < estimated.size() && i < 8; ++i) best.push_back(estimated[i].second);
  return best;
}
// Columns of the result, at most `limit`, that one thread stores at once.
int result_vector(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& problem, int limit,
                  int splits);

// Text of the kernel, shared by the tensor core and the multiply-add version.
class GemmWriter {
 public:
  GemmWriter(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& problem,
             int threads, int bm, int bn, int bk, int splits);

  // The type of an element in kernels that copy tiles: of bytes of grids Byte, which the kernel defines.
  std::string element() const;
  // Elements that one thread fetches at once: 16 bytes by asynchronous copies, or 1.
  int a_chunk() const { return a_chunk_; }
  int b_chunk() const { return b_chunk_; }
  bool b_is_rows() const { return problem_.b_layout == ImplicitGemm::BLayout::Rows; }
  // Defines m0, n0, batch, split, first and last k tile, the state of the rows that a thread fetches, and the
  // lambdas fetch_a(tile, to) and fetch_b(tile, to). `pitch`: elements between rows in shared memory.
  void prologue(int a_pitch, int b_pitch);
  // Defines start(column): what the sums of a column begin with in part `split` of K.
  void define_start();
  // Defines result(row, column, v): bias and epilogue, or a partial sum when K is split.
  void result(int v);
  // For several vectors at a time: place(row, column), where the result lies or -1 when there is none; and
  // bias and epilogue as `tail` (Tail::emit_apply). Both read `batch`.
  void result_in_place(int v);
  // The kernel that adds up partial sums.
  static KernelSource sum_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& problem,
                                 int splits);
  static Dim scratch_bytes(const LayerQuery& query, int splits);

 private:
  void rows_of_a();
  void fetch_a(int pitch);
  void fetch_b(int pitch);

  KernelBuilder& b_;
  const LayerQuery& query_;
  const Tactic& tactic_;
  const ImplicitGemm& problem_;
  int threads_, bm_, bn_, bk_, splits_;
  int a_chunk_ = 1, b_chunk_ = 1;
};

}  // namespace lathe::cuda
