// SPDX-License-Identifier: Apache-2.0
//
// STFT on FP32, BF16 and FP16: frames of a signal times a window, transformed 16 at a time (fft.h). The
// window may be a result of the same run; step and length are known when the layer is prepared.
//
// Operations: about 5 n log2 n for each frame, as of complex numbers: two real frames are not joined into a
// complex one, because a loud one would add its rounding, or its NaN, to a silent one. Bytes: the signal from
// L1 or L2, as often as frames overlap, the result once.
#include "backend/cpu/signal/lines.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kStftRunner = "STFT";
enum StftInput : size_t { kSignal, kFrameStep, kWindow, kLength };

class PreparedStft final : public PreparedLayer {
 public:
  Stored type = Stored::F32, window_type = Stored::F32;
  bool has_window = false;
  int64_t points = 1, step = 1, parts = 1;
  int64_t batch = 0, length = 0, frames = 0, bins = 0;
  std::shared_ptr<const Fft> fft;
  Lines lines;
  int threads = 1;

  explicit PreparedStft(const Lines& l) : lines(l) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats() * threads) * 4; }
  int members(int available) const override {
    return members_for(6.0 * static_cast<double>(batch * frames) * static_cast<double>(points),
                       std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    const int64_t total = batch * frames;
    const ComplexRows first = lines.first(own), second = lines.second(own);
    const float* window = window_of(args, own + lines.member_floats());
    const Worker::Range part = worker.slice((total + lines.together() - 1) / lines.together());
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t frame = i * lines.together(), count = std::min(lines.together(), total - frame);
      with_stored(type, [&]<Stored kType>() {
        read<kType>(args, frame, count, first, window);
        write<kType>(args, frame, count, fft->transform(first, second, count));
      });
    }
  }

 private:
  float* window_of(const LayerArgs& args, float* to) const {
    with_stored(window_type, [&]<Stored kType>() {
      for (int64_t i = 0; i < points; ++i)
        to[i] = has_window ? read_float<kType>(args.inputs[kWindow], i) : 1.0f;
    });
    return to;
  }
  int64_t member_floats() const { return lines.member_floats() + round_up(points, 16); }
  template <Stored kType>
  void read(const LayerArgs& args, int64_t frame, int64_t count, const ComplexRows& to,
            const float* window) const {
    for_each_piece(points, count, [&](int64_t l, int64_t begin, int64_t end) {
      const int64_t from = ((frame + l) / frames * length + (frame + l) % frames * step) * parts;
      for (int64_t i = begin; i < end; ++i) {
        const float re = window[i] * read_float<kType>(args.inputs[kSignal], from + i * parts);
        const float im =
            parts == 2 ? window[i] * read_float<kType>(args.inputs[kSignal], from + 2 * i + 1) : 0.0f;
        put_number(to, i * count + l, re, im, points);
      }
    });
  }
  template <Stored kType>
  void write(const LayerArgs& args, int64_t frame, int64_t count, const ComplexRows& from) const {
    for_each_piece(bins, count, [&](int64_t l, int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = ((frame + l) * bins + k) * 2;
        write_float<kType>(args.outputs[0], at, from.re[k * count + l]);
        write_float<kType>(args.outputs[0], at + 1, from.im[k * count + l]);
      }
    });
  }
};

class StftKernel final : public LayerKernel {
 public:
  StftKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name), tactic_(tactic), isa_(machine.isa()) {
    const Node& node = query.layer();
    step_ = query.graph.value(node.inputs[kFrameStep]).constant.to_int64s().at(0);
    has_window_ = node.inputs.size() > kWindow && node.inputs[kWindow] != kNoValue;
    if (!has_window_ && node.inputs.size() > kLength && node.inputs[kLength] != kNoValue)
      length_ = query.graph.value(node.inputs[kLength]).constant.to_int64s().at(0);
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[kSignal], &y = context.outputs[0];
    const int64_t points = has_window_ ? context.inputs[kWindow][0] : length_.value_or(x[1]);
    if (y[1] > 0 && (y[1] - 1) * step_ + points > x[1])
      throw_input_error(name_ + " (STFT): " + std::to_string(y[1]) + " frames of " + std::to_string(points) +
                        " do not fit into a signal of " + std::to_string(x[1]));
    const auto fft = std::make_shared<const Fft>(std::max<int64_t>(1, points), isa_);
    auto p = std::make_unique<PreparedStft>(Lines(*fft, y[0] * y[1], context.threads));
    p->type = stored_as(tactic_.inputs[kSignal].dtype);
    p->has_window = has_window_;
    if (has_window_) p->window_type = stored_as(tactic_.inputs[kWindow].dtype);
    p->points = points;
    p->step = step_;
    p->parts = x[2];
    p->batch = y[0];
    p->length = x[1];
    p->frames = y[1];
    p->bins = y[2];
    p->fft = fft;
    p->threads = context.threads;
    return p;
  }

 private:
  std::string name_;
  Tactic tactic_;
  Isa isa_;
  int64_t step_ = 1;
  bool has_window_ = false;
  std::optional<int64_t> length_;
};

Support supports_stft(const LayerQuery& query, DType type, const std::vector<TensorType>& inputs) {
  const Node& node = query.layer();
  const auto unknown = [&](size_t i) {
    return i < node.inputs.size() && node.inputs[i] != kNoValue &&
           !query.graph.value(node.inputs[i]).is_constant();
  };
  const bool has_window = inputs.size() > kWindow && inputs[kWindow].dtype != DType::Undefined;
  if (!node.epilogue.empty()) return Support::no("a transform applies no epilogue");
  if (!is_vector_float(type) || (has_window && !is_vector_float(inputs[kWindow].dtype)))
    return no_vector_kernel(type);
  if (!unknown(kSignal)) return Support::no("the signal is a constant");
  if (unknown(kFrameStep) || (!has_window && unknown(kLength)))
    return Support::no("step or length are known only at run time");
  return {};
}

std::vector<Tactic> list_stft(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<STFT>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kStftRunner, "stft_" + std::string(isa_suffix(machine)));
    t.inputs[0].dtype = t.outputs[0].dtype = type;
    t.support = supports_stft(query, type, t.inputs);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_stft(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                       const PackContext&) {
  return std::make_unique<StftKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily stft_tactics() {
  return {kStftRunner, list_stft, make_stft};
}

}  // namespace lathe::cpu
