// SPDX-License-Identifier: Apache-2.0
//
// ConvTranspose as a product and a sum, in linear format: weights of run time, automatic pads, sizes that the
// model says, 16-bit types, all of which oneDNN's kernels (onednn/onednn_deconv.cpp) do not have.
//
// The product of the transposed weights with the pixels gives what each tap of each filter has for each
// pixel; the result is the sum of these blocks (block_rows.h). A member takes a few filters of an image,
// whose blocks stay in L2, so that only the result is written. Operations: 2 * filters * taps * channels for
// each pixel at the rate of products, and an addition for each tap, filter and pixel. Before that pixels are
// packed into panels, and weights of run time are transposed, each once by the team.
#include <algorithm>
#include <limits>

#include "backend/cpu/sample/block_rows.h"
#include "backend/cpu/sample/sample.h"
#include "backend/cpu/tile/choose_gemm.h"
#include "backend/cpu/tile/packed_rows.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/transpose_tile.h"
#include "base/error.h"
#include "ops/transposed_window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kConvTransposeRunner = "ConvTranspose";
constexpr int64_t kConvTransposeChunk = 512;  // of K
constexpr int64_t kChannelsTogether = 16;     // channels whose weights are transposed together
constexpr int64_t kMemberRows = 28;           // rows of a member's product, about

class PreparedConvTranspose final : public PreparedLayer {
 public:
  BlockRows blocks;
  int64_t batch = 0, groups = 1, channels = 0, filters = 0;  // channels and filters of a group
  DType type = DType::Float32, weight_type = DType::Float32, bias_type = DType::Undefined;
  const float* packed = nullptr;  // constant weights
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  explicit PreparedConvTranspose(std::vector<WindowAxis> axes) : blocks(std::move(axes)) {}
  size_t scratch_bytes() const override {
    return static_cast<size_t>(panel_floats() + weight_floats() + member_floats() * threads) * 4;
  }
  bool meets(int n) const override { return n > 1; }
  int members(int available) const override {
    const double products = static_cast<double>(batch * groups * channels) * static_cast<double>(filters) *
                            static_cast<double>(blocks.taps() * blocks.count());
    return all_or_one(products / 40, std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    auto* panels = reinterpret_cast<float*>(args.scratch);
    float *weights = panels + panel_floats(), *own = weights + weight_floats();
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(batch * groups * channels);
      for (int64_t i = part.begin; i < part.end; ++i)
        pack_pixels(args, i, panels, own + w.index * member_floats());
    });
    if (!packed)
      worker.share(worker.count, [&](const Worker& w) {
        const int64_t steps = (channels + kChannelsTogether - 1) / kChannelsTogether;
        const Worker::Range part = w.slice(groups * steps);
        for (int64_t i = part.begin; i < part.end; ++i)
          transpose_weights(args, i / steps, i % steps * kChannelsTogether, weights,
                            own + w.index * member_floats());
      });
    worker.share(worker.count, [&](const Worker& w) {
      const int64_t parts = (filters + filters_together() - 1) / filters_together();
      const Worker::Range part = w.slice(batch * groups * parts);
      for (int64_t i = part.begin; i < part.end; ++i)
        run_filters(args, i / parts, i % parts * filters_together(), panels, packed ? packed : weights,
                    own + w.index * member_floats());
    });
  }

 private:
  int64_t width() const { return gemm_table(isa).panel; }
  int64_t panels_of_image() const { return (blocks.count() + width() - 1) / width(); }
  int64_t padded_pixels() const { return panels_of_image() * width(); }
  int64_t filters_together() const { return std::max<int64_t>(1, kMemberRows / blocks.taps()); }
  int64_t panel_floats() const { return round_up(batch * groups * channels * padded_pixels(), 16); }
  int64_t weight_floats() const {
    return packed ? 0 : round_up(groups * filters * blocks.taps() * packed_stride(channels), 16);
  }
  // Blocks of some filters and a row of the result; or pixels or weights in FP32.
  int64_t member_floats() const {
    const int64_t products = filters_together() * blocks.taps() * padded_pixels() +
                             blocks.band() * blocks.width() + blocks.line_floats();
    const int64_t weights = packed ? 0 : kChannelsTogether * filters * blocks.taps();
    return round_up(std::max({products, blocks.count(), weights}), 16);
  }

  const float* load_floats(const void* base, DType stored, int64_t at, int64_t n, float* wide) const {
    const auto* from = static_cast<const std::byte*>(base) + dtype_bytes(stored, at);
    if (stored == DType::Float32) return reinterpret_cast<const float*>(from);
    const PointwiseTable& convert = pointwise_table(isa);
    (stored == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(
        reinterpret_cast<const uint16_t*>(from), wide, n);
    return wide;
  }
  // Channel `row`, counted over images and groups. Pixels behind the last one are zero.
  void pack_pixels(const LayerArgs& args, int64_t row, float* panels, float* wide) const {
    const int64_t pixels = blocks.count();
    const float* from = load_floats(args.inputs[0], type, row * pixels, pixels, wide);
    float* image = panels + row / channels * channels * padded_pixels();
    for (int64_t p = 0; p < panels_of_image(); ++p) {
      float* to = image + (p * channels + row % channels) * width();
      const int64_t n = std::min(width(), pixels - p * width());
      std::copy_n(from + p * width(), n, to);
      std::fill(to + n, to + width(), 0.0f);
    }
  }
  void transpose_weights(const LayerArgs& args, int64_t group, int64_t channel, float* weights,
                         float* wide) const {
    const int64_t rows = filters * blocks.taps(), n = std::min(kChannelsTogether, channels - channel);
    const float* from =
        load_floats(args.inputs[1], weight_type, (group * channels + channel) * rows, n * rows, wide);
    const int64_t stride = packed_stride(channels);
    transpose_4byte_avx2(from, rows, weights + group * rows * stride + channel, stride, n, rows);
  }
  void run_filters(const LayerArgs& args, int64_t image, int64_t first, const float* panels,
                   const float* weights, float* own) const {
    const GemmTable& table = gemm_table(isa);
    const int64_t n = std::min(filters_together(), filters - first), taps = blocks.taps(), rows = n * taps;
    const int64_t stride = packed_stride(channels), pixels = padded_pixels();
    const float* a = weights + (image % groups * filters + first) * taps * stride;
    const float* b = panels + image * channels * pixels;
    for (int64_t k = 0; k < channels || k == 0; k += kConvTransposeChunk)
      for (int64_t r = 0; r < rows; r += table.tile_rows)
        for (int64_t p = 0; p < panels_of_image(); ++p) {
          float* c = own + r * pixels + p * width();
          table.multiply(std::min(table.tile_rows, rows - r), a + r * stride + k, stride,
                         b + (p * channels + k) * width(), std::min(kConvTransposeChunk, channels - k), c,
                         pixels, k > 0 ? c : nullptr, pixels);
        }
    float* sum = own + filters_together() * taps * pixels;
    for (int64_t f = 0; f < n; ++f) {
      float bias = 0;
      if (bias_type != DType::Undefined)
        bias = *load_floats(args.inputs[2], bias_type, image % groups * filters + first + f, 1, &bias);
      const int64_t lines = blocks.rows(), band = blocks.band(), width_of_row = blocks.width();
      for (int64_t row = 0; row < lines; row += band) {
        const int64_t end = std::min(row + band, lines), count = (end - row) * width_of_row;
        const int64_t at = ((image * filters + first + f) * lines + row) * width_of_row;
        float* to = epilogue->is_identity() ? static_cast<float*>(args.outputs[0]) + at : sum;
        blocks.sum(row, end, sample_table(isa), own + f * taps * pixels, Stored::F32, pixels, bias, to,
                   sum + band * width_of_row);
        epilogue->apply(args, to, count, at, 1, count, count);
      }
    }
  }
};

class ConvTransposeKernel final : public LayerKernel {
 public:
  ConvTransposeKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                      const PackContext& pack)
      : op_(std::get<ConvTranspose>(query.layer().op)),
        tactic_(tactic),
        has_bias_(query.layer().has_op_input(2)),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {
    const Value& w = query.graph.value(query.layer().inputs[1]);
    const Extents e = to_extents(w.shape);
    kernel_.assign(e.begin() + 2, e.end());
    filters_ = e[1];
    if (!w.is_constant()) return;
    const int64_t channels = e[0] / op_.groups, rows = filters_ * element_count(kernel_);
    const int64_t stride = packed_stride(channels),
                  bytes = dtype_bytes(DType::Float32, op_.groups * rows * stride);
    packed_ = pack.packed("weights", bytes, [&] {
      std::vector<std::byte> block(static_cast<size_t>(bytes));
      const std::vector<double> values = w.constant.to_doubles();
      auto* to = reinterpret_cast<float*>(block.data());
      for (int64_t c = 0; c < e[0]; ++c)
        for (int64_t r = 0; r < rows; ++r)
          to[(c / channels * rows + r) * stride + c % channels] =
              static_cast<float>(values[static_cast<size_t>(c * rows + r)]);
      return block;
    });
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& x = context.inputs[0];
    std::vector<WindowAxis> axes = resolve_transposed(op_, kernel_, Extents(x.begin() + 2, x.end()));
    for (WindowAxis& axis : axes) std::swap(axis.input, axis.output);
    auto p = std::make_unique<PreparedConvTranspose>(std::move(axes));
    p->batch = x[0];
    p->groups = op_.groups;
    p->channels = x[1] / op_.groups;
    p->filters = filters_;
    p->type = tactic_.inputs[0].dtype;
    p->weight_type = tactic_.inputs[1].dtype;
    if (has_bias_) p->bias_type = tactic_.inputs[2].dtype;
    if (!packed_.empty()) p->packed = reinterpret_cast<const float*>(packed_.data());
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  ConvTranspose op_;
  Tactic tactic_;
  bool has_bias_;
  Ints kernel_;
  int64_t filters_ = 0;
  Isa isa_;
  Epilogue epilogue_;
  std::span<const std::byte> packed_;
};

Support supports_conv_transpose(const LayerQuery& query, DType type, const std::vector<TensorType>& inputs) {
  const Node& node = query.layer();
  const Value& w = query.graph.value(node.inputs[1]);
  for (const Dim& dim : w.shape)
    if (!dim.is_constant() || dim.value() < 1)
      return Support::no("the weights' shape is not constant, or empty");
  if (query.graph.value(node.inputs[0]).is_constant()) return Support::no("the operand is a constant");
  return operands_in_vectors(query, type, inputs);
}

std::vector<Tactic> list_conv_transpose(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<ConvTranspose>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType linear{type, kLinear};
    Tactic t = typed_tactic(query, kConvTransposeRunner, "deconv_blocks_" + std::string(isa_suffix(machine)),
                            linear, linear);
    if (const Support s = supports_conv_transpose(query, type, t.inputs); !s.ok) t.support = s;
    if (query.graph.value(node.inputs[1]).is_constant()) t.inputs[1] = {};
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_conv_transpose(const LayerQuery& query, const Tactic& tactic,
                                                 const Machine& machine, const PackContext& pack) {
  return std::make_unique<ConvTransposeKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily conv_transpose_tactics() {
  return {kConvTransposeRunner, list_conv_transpose, make_conv_transpose};
}

}  // namespace lathe::cpu
