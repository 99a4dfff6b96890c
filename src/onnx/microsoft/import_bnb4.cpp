// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::MatMulBnb4: a product whose weights have 4 bits as bitsandbytes stores them. Each of the 16
// codes stands for one number of a table, and a block of weights in a row has one factor. No type of ours has
// such numbers, so the weights are written out when the model is read.
#include <array>
#include <bit>

#include "onnx/importers.h"
#include "onnx/microsoft/bits.h"

namespace lathe::onnx {

namespace {

// The sign is the highest bit; then, for each code, the fraction of the block's largest magnitude.
constexpr std::array<float, 16> kFp4 = {0.0f,      1.0f / 192, 2.0f / 3,  1.0f,        1.0f / 3,  0.5f,
                                        1.0f / 6,  0.25f,      -0.0f,     -1.0f / 192, -2.0f / 3, -1.0f,
                                        -1.0f / 3, -0.5f,      -1.0f / 6, -0.25f};
// Quantiles of a normal distribution between -1 and 1, with an exact zero (arXiv 2305.14314, appendix E).
constexpr std::array<float, 16> kNf4 = {-1.0f,          -0.6961928010f, -0.5250730515f, -0.3949174881f,
                                        -0.2844413817f, -0.1847734302f, -0.0910500363f, 0.0f,
                                        0.0795802996f,  0.1609302014f,  0.2461123019f,  0.3379152417f,
                                        0.4407098293f,  0.5626170039f,  0.7229568362f,  1.0f};

// The first code of a byte is in its high bits. `factors`: one per block of weights that lie one after the
// other.
Tensor written_out(const Tensor& codes, const std::vector<double>& factors,
                   const std::array<float, 16>& table, Extents extents, int64_t block) {
  Tensor weights = Tensor::allocate(DType::Float32, std::move(extents));
  const auto bytes = codes.data<uint8_t>();
  const auto out = weights.mutable_data<float>();
  for (size_t i = 0; i < out.size(); ++i) {
    const int code = i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
    out[i] = table[static_cast<size_t>(code)] * static_cast<float>(factors[i / static_cast<size_t>(block)]);
  }
  return weights;
}

// inputs: a, codes of b (N, K), factors of its blocks
Values import_matmul_bnb4(NodeImport& node) {
  const int64_t k = node.required_integer("K"), n = node.required_integer("N"),
                block = node.required_integer("block_size"), type = node.required_integer("quant_type");
  if (k < 1 || n < 1 || k > kMostWeights / n)
    node.fail("N is " + std::to_string(n) + " and K is " + std::to_string(k));
  if (block < 16 || !std::has_single_bit(static_cast<uint64_t>(block)))
    node.fail("block_size is " + std::to_string(block) + ", expected a power of 2 from 16 on");
  if (type != 0 && type != 1)
    node.fail("quant_type is " + std::to_string(type) + ", expected 0 (FP4) or 1 (NF4)");
  const Tensor codes = node.constant(1), factors = node.constant(2);
  if (!codes || !factors) throw_unsupported("its weights depend on an input; they must be constant");
  const int64_t count = n * k, blocks = (count - 1) / block + 1;
  if (codes.dtype() != DType::UInt8 || codes.size() != (count + 1) / 2)
    node.fail("its weights have " + std::to_string(codes.size()) + " bytes, expected " +
              std::to_string((count + 1) / 2) + " of uint8 for N and K");
  if (!is_float(factors.dtype()) || factors.size() != blocks)
    node.fail("absmax has " + std::to_string(factors.size()) + " elements, expected " +
              std::to_string(blocks));
  const Tensor weights = written_out(codes, factors.to_doubles(), type == 0 ? kFp4 : kNf4, {n, k}, block);
  const ValueId w = node.cast(node.constant(weights, "weights"), node.dtype(0), "weights_type");
  return {node.add(MatMul{.transpose_b = node.integer("transB", 1) != 0}, {node.in(0), w})};
}

}  // namespace

std::vector<Importer> microsoft_bnb4_importers() {
  return {{"MatMulBnb4", 1, kLatestOpset, import_matmul_bnb4, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
