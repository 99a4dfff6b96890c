// SPDX-License-Identifier: Apache-2.0
//
// What convolutions that read patches of a linear image have in common: their operands as FP32. Images and
// weights of 16 bits are widened once by the whole team; so are rows of weights that share few cache sets
// copied. Then each member works on its units.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cpu/conv/patches.h"
#include "backend/cpu/tile/packed_rows.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "ir/elements.h"

namespace lathe::cpu {

class PreparedPatches : public PreparedLayer {
 public:
  Patches patches;
  int64_t batch = 0, groups = 1, channels = 0, filters = 0;  // channels and filters of a group
  DType type = DType::Float32, weight_type = DType::Float32, bias_type = DType::Undefined;
  const float* packed = nullptr;  // constant filters, rows of packed_stride()
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  explicit PreparedPatches(std::vector<WindowAxis> axes) : patches(std::move(axes)) {}

  size_t scratch_bytes() const override {
    return static_cast<size_t>(image_floats() + weight_floats() + member_floats() * threads) * 4;
  }
  bool meets(int count) const override { return count > 1 && copies(); }
  int members(int available) const override {
    const double copied =
        static_cast<double>(batch * groups * k()) * static_cast<double>(patches.positions());
    const double ns = copied * static_cast<double>(filters) / 40 + copied / 10;
    available = std::min(available, threads);
    return copies() ? all_or_one(ns, available) : members_for(ns, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    auto* image = reinterpret_cast<float*>(args.scratch);
    float* weights = image + image_floats();
    const Operands operands{.image = widens_image() ? image : static_cast<const float*>(args.inputs[0]),
                            .weights = packed             ? packed
                                       : copies_weights() ? weights
                                                          : static_cast<const float*>(args.inputs[1]),
                            .own = weights + weight_floats()};
    if (!copies()) return run_units(args, operands, worker);
    worker.share(worker.count, [&](const Worker& part) { copy_operands(args, image, weights, part); });
    worker.share(worker.count, [&](const Worker& part) { run_units(args, operands, part); });
  }

 protected:
  struct Operands {
    const float *image, *weights;
    float* own;  // member_floats() for each member
  };
  virtual int64_t member_floats() const = 0;
  virtual void run_units(const LayerArgs& args, const Operands& operands, const Worker& worker) const = 0;

  int64_t k() const { return channels * patches.taps(); }
  int64_t weight_stride() const { return packed || copies_weights() ? packed_stride(k()) : k(); }
  float bias_of(const LayerArgs& args, int64_t filter) const {
    float bias = 0;
    if (bias_type != DType::Undefined) widen(args.inputs[2], bias_type, filter, 1, &bias);
    return bias;
  }

 private:
  bool widens_image() const { return type != DType::Float32; }
  // Rows that lie a multiple of 1 KB apart share few cache sets.
  bool copies_weights() const {
    return !packed &&
           (weight_type != DType::Float32 || (filters > 4 && packed_stride(k()) != round_up(k(), 16)));
  }
  bool copies() const { return widens_image() || copies_weights(); }
  int64_t image_floats() const {
    return widens_image() ? round_up(batch * groups * channels * patches.pixels(), 16) : 0;
  }
  int64_t weight_floats() const { return copies_weights() ? groups * filters * weight_stride() : 0; }

  void widen(const void* base, DType stored, int64_t at, int64_t n, float* to) const {
    const auto* from = static_cast<const std::byte*>(base) + dtype_bytes(stored, at);
    const PointwiseTable& convert = pointwise_table(isa);
    if (stored == DType::Float32)
      std::copy_n(reinterpret_cast<const float*>(from), n, to);
    else
      (stored == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(
          reinterpret_cast<const uint16_t*>(from), to, n);
  }
  void copy_operands(const LayerArgs& args, float* image, float* weights, const Worker& worker) const {
    if (widens_image()) {
      const Worker::Range planes = worker.slice(batch * groups * channels);
      const int64_t pixels = patches.pixels();
      widen(args.inputs[0], type, planes.begin * pixels, (planes.end - planes.begin) * pixels,
            image + planes.begin * pixels);
    }
    if (!copies_weights()) return;
    const Worker::Range rows = worker.slice(groups * filters);
    for (int64_t row = rows.begin; row < rows.end; ++row)
      widen(args.inputs[1], weight_type, row * k(), k(), weights + row * weight_stride());
  }
};

}  // namespace lathe::cpu
