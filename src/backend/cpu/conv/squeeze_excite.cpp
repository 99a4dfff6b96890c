// SPDX-License-Identifier: Apache-2.0
//
// Squeeze-and-excite where channels are contiguous (channels-last and blocked). A member takes the part of an
// image that it probably wrote in the layer before: channels of blocked formats, pixels of channels-last
// ones; what another core wrote comes at a quarter of the speed. It sums its part, multiplies the means into
// the first product, and the members exchange their shares of its sums when they meet. The gates and the
// product with them follow while the data is in its cache. With images enough for everybody, a member takes
// whole images and nobody meets.
//
// Bytes: the input twice, of which the second time mostly from L2, the result once, the weights once (by
// every member for channels-last).
#include <cstring>

#include "backend/cpu/conv/squeeze_excite_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

namespace {

constexpr std::string_view kSqueezeExciteRunner = "SqueezeExcite";
constexpr int64_t kLine = 16;  // floats in a cache line: members write to lines of their own

const SqueezeExciteTable& squeeze_excite_table(Isa isa) {
  if (isa >= Isa::Avx512Bf16) return squeeze_excite_table_avx512_bf16();
  return isa == Isa::Avx2 ? squeeze_excite_table_avx2() : squeeze_excite_table_avx512();
}

// Where the packed weights lie, in floats: [channel][padded middle], [middle], [vector of
// channels][middle][lane], [channel].
struct SqueezeExciteWeights {
  int64_t channels = 0, middle = 0;  // as in the network
  int64_t padded_channels = 0, padded_middle = 0;
  int64_t first_bias() const { return padded_channels * padded_middle; }
  int64_t second() const { return first_bias() + padded_middle; }
  int64_t second_bias() const { return second() + padded_channels * middle; }
  int64_t floats() const { return second_bias() + padded_channels; }
};

SqueezeExciteWeights layout_of(int64_t channels, int64_t middle, int64_t lanes) {
  return {channels, middle, round_up(channels, lanes), round_up(middle, kLine)};
}

class PreparedSqueezeExcite final : public PreparedLayer {
 public:
  int64_t images = 1, pixels = 1;
  SqueezeExciteWeights layout;
  const float* weights = nullptr;
  TensorType type;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::unique_ptr<PointwiseEvaluator> squeeze, excite;  // null: the identity

  int64_t lanes() const { return squeeze_excite_table(isa).lanes; }
  bool by_images(int count) const { return images % count == 0 || images >= 4 * static_cast<int64_t>(count); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(shared_floats() + threads * member_floats()) * sizeof(float);
  }
  int members(int available) const override {
    const double elements = static_cast<double>(images * pixels * layout.channels),
                 products = static_cast<double>(2 * images * layout.channels * layout.middle);
    const int wanted = members_for(0.12 * elements + 0.05 * products, available);
    if (by_images(wanted)) return wanted;
    return wanted > 1 ? available : 1;
  }
  bool meets(int count) const override { return count > 1 && !by_images(count); }

  void run(const LayerArgs& args, const Worker& worker) const override {
    auto* shared = reinterpret_cast<float*>(args.scratch);
    float* middle = shared + shared_floats() + worker.index * member_floats();
    float* values = middle + layout.padded_middle;
    if (by_images(worker.count)) {
      const Worker::Range part = worker.slice(images);
      const Share all{{0, layout.padded_channels}, {0, pixels}};
      for (int64_t n = part.begin; n < part.end; ++n) {
        share_of_middle(args, n, all, values, middle);
        finish(args, n, all, middle, 1, middle, values);
      }
      return;
    }
    Share share{{0, layout.padded_channels}, {0, pixels}};
    if (is_blocked())
      share.channels = worker.slice(layout.padded_channels, lanes());
    else
      share.pixels = worker.slice(pixels);
    for (int64_t n = 0; n < images; ++n)
      share_of_middle(args, n, share, values, shared + (n * threads + worker.index) * layout.padded_middle);
    worker.barrier();
    for (int64_t n = 0; n < images; ++n)
      finish(args, n, share, shared + n * threads * layout.padded_middle, worker.count, middle, values);
    worker.barrier();
  }

 private:
  // What a member has of an image.
  struct Share {
    Worker::Range channels, pixels;
    bool empty() const { return channels.begin >= channels.end || pixels.begin >= pixels.end; }
  };

  // Shares of the middle layer: [image][member][padded middle].
  int64_t shared_floats() const { return images * threads * layout.padded_middle; }
  // A member's middle layer, and means or gates of all channels.
  int64_t member_floats() const { return layout.padded_middle + round_up(layout.padded_channels, kLine); }

  bool is_blocked() const { return type.format.kind == Format::Kind::ChannelBlocked; }
  // Where the share of image n begins.
  int64_t element(int64_t n, const Share& share) const {
    if (is_blocked()) return (n * layout.padded_channels + share.channels.begin) * pixels;
    return (n * pixels + share.pixels.begin) * layout.channels;
  }

  // What the share contributes to the means, and these to the middle layer. Both are sums, so that it does
  // not matter whether the share is one of channels or of pixels.
  void share_of_middle(const LayerArgs& args, int64_t n, const Share& share, float* means,
                       float* middle) const {
    const int64_t count = share.channels.end - share.channels.begin, vector = lanes();
    if (share.empty()) {
      std::fill_n(middle, layout.padded_middle, 0.0f);
      return;
    }
    std::fill_n(means + count - vector, vector, 0.0f);
    const auto* x =
        static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type.dtype, element(n, share));
    const float scale = 1.0f / static_cast<float>(pixels);
    if (is_blocked())
      reduce_table(isa).windows(x, stored_as(type.dtype), {1, pixels, 0, vector}, vector, count / vector,
                                pixels * vector, Fold::Sum, scale, means);
    else
      reduce_table(isa).windows(x, stored_as(type.dtype),
                                {1, share.pixels.end - share.pixels.begin, 0, layout.channels},
                                layout.channels, 1, 0, Fold::Sum, scale, means);
    squeeze_excite_table(isa).squeeze(means, count, weights + share.channels.begin * layout.padded_middle,
                                      layout.padded_middle, middle);
  }

  // From the members' shares of the middle layer to the result, for this share. `middle` may be the only one
  // of them.
  void finish(const LayerArgs& args, int64_t n, const Share& share, const float* shares, int count,
              float* middle, float* gates) const {
    if (share.empty()) return;
    const int64_t size = layout.padded_middle, first = share.channels.begin;
    const float* bias = weights + layout.first_bias();
    for (int64_t s = 0; s < size; ++s) {
      float sum = bias[s];
      for (int m = 0; m < count; ++m) sum += shares[m * size + s];
      middle[s] = sum;
    }
    apply(squeeze.get(), middle, layout.middle);
    const int64_t wide = share.channels.end - first;
    squeeze_excite_table(isa).excite(middle, layout.middle, weights + layout.second() + first * layout.middle,
                                     weights + layout.second_bias() + first, wide, gates);
    apply(excite.get(), gates, wide);
    // Padding stays zero even where the function of zero is no number.
    for (int64_t c = std::min(share.channels.end, layout.channels) - first; c < wide; ++c) gates[c] = 0;
    scale(args, n, share, gates);
  }

  void scale(const LayerArgs& args, int64_t n, const Share& share, const float* gates) const {
    const SqueezeExciteTable& table = squeeze_excite_table(isa);
    const int64_t at = dtype_bytes(type.dtype, element(n, share)), vector = lanes();
    const auto* x = static_cast<const std::byte*>(args.inputs[0]) + at;
    auto* y = static_cast<std::byte*>(args.outputs[0]) + at;
    const Stored stored = stored_as(type.dtype);
    if (!is_blocked()) {
      table.scale(x, stored, share.pixels.end - share.pixels.begin, layout.channels, layout.channels, gates,
                  y);
      return;
    }
    const int64_t plane = dtype_bytes(type.dtype, pixels * vector);
    for (int64_t c = share.channels.begin; c < share.channels.end; c += vector, x += plane, y += plane)
      table.scale(x, stored, pixels, vector, vector, gates + c - share.channels.begin, y);
  }

  static void apply(const PointwiseEvaluator* function, float* values, int64_t count) {
    if (function == nullptr) return;
    const void* inputs[] = {values};
    function->run(inputs, values, 0, count);
  }
};

class SqueezeExciteKernel final : public LayerKernel {
 public:
  SqueezeExciteKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                      const PackContext& pack)
      : op_(std::get<SqueezeExcite>(query.layer().op)), type_(tactic.inputs[0]), isa_(machine.isa()) {
    const auto& inputs = query.layer().inputs;
    const auto extent = [&](size_t input, size_t dim) {
      return query.graph.value(inputs[input]).shape[dim].value();
    };
    layout_ = layout_of(extent(1, 1), extent(1, 0), squeeze_excite_table(isa_).lanes);
    weights_ = pack.packed("weights", dtype_bytes(DType::Float32, layout_.floats()), [&] {
      const auto constant = [&](size_t i) {
        return i < inputs.size() && inputs[i] != kNoValue ? query.graph.value(inputs[i]).constant.to_doubles()
                                                          : std::vector<double>();
      };
      return pack_weights(constant(1), constant(2), constant(3), constant(4));
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedSqueezeExcite>();
    const Extents& x = context.inputs[0];
    p->images = x[0];
    p->pixels = element_count(Extents(x.begin() + 2, x.end()));
    p->layout = layout_;
    p->weights = reinterpret_cast<const float*>(weights_.data());
    p->type = type_;
    p->isa = isa_;
    p->threads = context.threads;
    p->squeeze = function(op_.squeeze, layout_.padded_middle);
    p->excite = function(op_.excite, layout_.padded_channels);
    return p;
  }

 private:
  std::vector<std::byte> pack_weights(const std::vector<double>& first, const std::vector<double>& first_bias,
                                      const std::vector<double>& second,
                                      const std::vector<double>& second_bias) const {
    const int64_t lanes = squeeze_excite_table(isa_).lanes, channels = layout_.channels,
                  middle = layout_.middle;
    std::vector<float> packed(static_cast<size_t>(layout_.floats()), 0.0f);
    const auto set = [&](int64_t at, double value) {
      packed[static_cast<size_t>(at)] = static_cast<float>(value);
    };
    for (int64_t s = 0; s < middle; ++s)
      for (int64_t c = 0; c < channels; ++c) {
        set(c * layout_.padded_middle + s, first[static_cast<size_t>(s * channels + c)]);
        set(layout_.second() + (c / lanes * middle + s) * lanes + c % lanes,
            second[static_cast<size_t>(c * middle + s)]);
      }
    for (size_t s = 0; s < first_bias.size(); ++s)
      set(layout_.first_bias() + static_cast<int64_t>(s), first_bias[s]);
    for (size_t c = 0; c < second_bias.size(); ++c)
      set(layout_.second_bias() + static_cast<int64_t>(c), second_bias[c]);
    std::vector<std::byte> bytes(packed.size() * sizeof(float));
    std::memcpy(bytes.data(), packed.data(), bytes.size());
    return bytes;
  }
  std::unique_ptr<PointwiseEvaluator> function(const PointwiseProgram& program, int64_t count) const {
    if (program.empty()) return nullptr;
    const PointwiseOperand values{{DType::Float32, kLinear}, {count}};
    return std::make_unique<PointwiseEvaluator>(program, std::vector{values}, values, isa_);
  }

  SqueezeExcite op_;
  TensorType type_;
  Isa isa_;
  SqueezeExciteWeights layout_;
  std::span<const std::byte> weights_;
};

Support supports_squeeze_excite(const LayerQuery& query, const SqueezeExcite& op, const TensorType& type) {
  const Node& node = query.layer();
  if (!is_vector_float(type.dtype)) return no_vector_kernel(type.dtype);
  if (!node.epilogue.empty()) return Support::no("it has an epilogue");
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoValue && !query.graph.value(node.inputs[i]).is_constant())
      return Support::no("the weights are not constant");
  const DType types[] = {DType::Float32};
  for (const PointwiseProgram* program : {&op.squeeze, &op.excite})
    if (const Support s = PointwiseEvaluator::supports(*program, types, DType::Float32);
        !program->empty() && !s.ok)
      return s;
  return {};
}

std::vector<Tactic> list_squeeze_excite(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<SqueezeExcite>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  const Format blocked{Format::Kind::ChannelBlocked, vector_block(machine)};
  for (const DType type : layer_types(query))
    for (const Format& format : {blocked, kChannelsLast}) {
      const TensorType stored{type, format};
      Tactic t =
          linear_tactic(query, kSqueezeExciteRunner, "squeeze_excite_" + std::string(isa_suffix(machine)));
      std::fill(t.inputs.begin(), t.inputs.end(), TensorType{});
      t.inputs[0] = t.outputs[0] = stored;
      t.in_place_inputs = {0};
      t.support = supports_squeeze_excite(query, *op, stored);
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_squeeze_excite(const LayerQuery& query, const Tactic& tactic,
                                                 const Machine& machine, const PackContext& pack) {
  return std::make_unique<SqueezeExciteKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily squeeze_excite_tactics() {
  return {kSqueezeExciteRunner, list_squeeze_excite, make_squeeze_excite};
}

}  // namespace lathe::cpu
