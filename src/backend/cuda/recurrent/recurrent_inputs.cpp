// SPDX-License-Identifier: Apache-2.0
//
// What x gives to the gates: one product over all steps, before the first step. 16-bit types run on tensor
// cores, FP32 on plain multiply-adds, exactly. Tiles are small where the layer has few rows, so that all
// multiprocessors have one.
#include "backend/cuda/recurrent/recurrent_plan.h"

#include <cmath>

#include "ir/symbol_extents.h"
#include "lathe_device_text/recurrent_inputs.h"

namespace lathe::cuda {
namespace {

constexpr int kColumns = 64;  // w is filled up to whole tiles

int64_t round_up(int64_t a, int64_t b) {
  return (a + b - 1) / b * b;
}
int64_t padded_width(const RecurrentSizes& s) {
  return round_up(std::max<int64_t>(s.width, 1), 64);
}

// Shared: the constants of both kernels, and the bias of a column.
void begin(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const RecurrentSizes& s,
           const RecurrentWeights& weights, int rows, int columns) {
  const DType type = tactic.inputs[kX].dtype;
  const int64_t n = s.gates * s.hidden;
  const bool biased = tactic.inputs.size() > kBias && tactic.inputs[kBias].dtype != DType::Undefined;
  // The bias of the state is added here, too, but for the gate whose product with the state is scaled first.
  const auto* gru = std::get_if<GRU>(&query.layer().op);
  const int64_t added = gru != nullptr && gru->linear_before_reset ? 2 * s.hidden : n;
  b.kernel().grid = {ceil_div(s.steps * s.batch, Dim(rows)), Dim(round_up(n, kColumns) / columns), 1};
  b.global("typedef " + std::string(storage_name(type)) + " T;\nconstexpr int TM = " + std::to_string(rows) +
           ", TN = " + std::to_string(columns) + ", N = " + std::to_string(n) +
           ", I = " + std::to_string(s.width) + ", KP = " + std::to_string(padded_width(s)) +
           ", ADDED = " + std::to_string(added) + ";\nconstexpr bool VECTORS = " +
           (s.width % full_vector(type) == 0 && s.width > 0 ? "true" : "false") + ";");
  b.line("#define X_ROWS " + b.input(kX, type) + "\n#define W_ROWS " +
         weights.pointer(b, 0, storage_name(type)) + "\n#define GIVEN " + b.scratch(weights.bytes, "float") +
         "\nconst idx M = " + b.number(s.steps * s.batch) +
         ", row0 = (idx)blockIdx.x * TM;\n"
         "const int column0 = blockIdx.y * TN;");
  if (biased) {
    const std::string bias = b.input(kBias, tactic.inputs[kBias].dtype);
    b.line("const auto bias = [&](int n) { return widen(" + bias + "[n]) + (n < ADDED ? widen(" + bias +
           "[N + n]) : 0.f); };");
  } else {
    b.line("const auto bias = [](int) { return 0.f; };");
  }
}

}  // namespace

KernelSource recurrent_inputs_kernel(const LayerQuery& query, const Tactic& tactic, const RecurrentSizes& s,
                                     const RecurrentWeights& weights, const Device& device) {
  const DType type = tactic.inputs[kX].dtype;
  const SymbolValues opt = query.opt_values();
  const auto rows = static_cast<double>(upper_extent(s.steps * s.batch, opt));
  const double large = std::ceil(rows / 64) * static_cast<double>(s.gates * s.hidden) / 64;
  const int tile = large < device.properties.multiprocessors ? 32 : 64;
  KernelBuilder b = start_kernel(query, tactic, "recurrent_inputs", type);
  if (is_half(type)) {
    b.kernel().threads = 128;
    b.kernel().shared_bytes = 3 * (tile + kColumns) * 72 * 2;
    b.global(std::string("#define MULTIPLY ") + (type == DType::Float16 ? "multiply_f16" : "multiply_bf16"));
    begin(b, query, tactic, s, weights, tile, kColumns);
    b.line(device_text::recurrent_inputs::kTensor);
  } else {
    b.kernel().shared_bytes = 2 * tile * 36 * 4;
    begin(b, query, tactic, s, weights, tile, tile);
    b.line(device_text::recurrent_inputs::kPlain);
  }
  return b.finish();
}

int64_t recurrent_inputs_rows(const RecurrentSizes& s) {
  return round_up(s.gates * s.hidden, kColumns);
}
int64_t recurrent_inputs_count(const RecurrentSizes& s) {
  return recurrent_inputs_rows(s) * padded_width(s);
}

PackedBlock recurrent_inputs_block(const RecurrentSizes& s, DType type, const Tensor& w) {
  const int64_t n = s.gates * s.hidden, rows = recurrent_inputs_rows(s), pitch = padded_width(s);
  return {dtype_bytes(type, rows * pitch), [=] {
            const std::vector<double> values = w.to_doubles();
            std::vector<double> packed(static_cast<size_t>(rows * pitch), 0.0);
            for (int64_t i = 0; i < n; ++i)
              std::copy_n(values.begin() + i * s.width, s.width, packed.begin() + i * pitch);
            const Tensor t = Tensor::from_doubles(type, {rows * pitch}, packed);
            return std::vector<std::byte>(t.bytes().begin(), t.bytes().end());
          }};
}

}  // namespace lathe::cuda
