// SPDX-License-Identifier: Apache-2.0
//
// RNN, GRU and LSTM with constant weights, stored as FP32, BF16 or FP16, computed in FP32.
//
// What x gives to the gates is one product over all steps, shared out by rows; then sequences are shared out,
// and each step is a product with the state and the gates' functions in vectors. Operations: 2 (I + H) G H
// per step and sequence. Bytes: the weights of x once per six rows (once per layer where they fit into L2),
// those of the state once per step and six sequences: with one sequence the floor is to read them from where
// they lie, 4 G H H bytes a step.
#include <array>

#include "backend/cpu/recurrent/gates.h"
#include "backend/cpu/tile/choose_gemm.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRecurrentRunner = "Recurrent";
enum RecurrentInput : size_t {
  kX,
  kW,
  kR,
  kBias,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kRecurrentInputs
};

struct Weights {
  const float *w = nullptr,
              *r = nullptr;  // panels [k][panel], gate after gate, each gate filled up with zeros
};

// The parts of the scratch memory, in floats.
struct Scratch {
  int64_t gates = 0, x = 0, h = 0, c = 0, products = 0, members = 0, total = 0;
};

class PreparedRecurrent final : public PreparedLayer {
 public:
  std::string name;
  RecurrentGates gates;
  Weights weights;
  std::array<TensorType, kRecurrentInputs> types{};
  int64_t steps = 0, batch = 0, width = 0;
  bool reverse = false;
  Isa isa = Isa::Avx2;
  int threads = 1;

  int64_t row() const { return gates.count * gates.padded; }
  // Of each member: bias of x and of the state, peepholes, a row of temporary values.
  int64_t member_floats() const { return 2 * row() + 3 * round_up(gates.hidden, 16) + gates.padded; }
  Scratch layout() const {
    Scratch s;
    const auto take = [&s](int64_t floats) { return std::exchange(s.total, s.total + round_up(floats, 16)); };
    s.gates = take(steps * batch * row());
    s.x = take(types[kX].dtype == DType::Float32 ? 0 : steps * batch * width);
    s.h = take(batch * gates.hidden);
    s.c = take(batch * gates.hidden);
    s.products = take(batch * gates.padded);
    s.members = take(threads * round_up(member_floats(), 16));
    return s;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(layout().total) * sizeof(float); }
  bool meets(int count) const override { return count > 1; }
  int members(int available) const override {
    const double multiplied = static_cast<double>(steps * batch * row() * (width + gates.hidden));
    return all_or_one(0.03 * multiplied, std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    worker.share(worker.count, [&](const Worker& w) { multiply_inputs(args, w); });
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(batch, 1, Worker::kUncut);
      if (part.begin < part.end) run_sequences(args, w, part);
    });
  }

 private:
  float* floats(const LayerArgs& args) const { return reinterpret_cast<float*>(args.scratch); }
  const std::byte* operand(const LayerArgs& args, RecurrentInput input, int64_t element) const {
    return static_cast<const std::byte*>(args.inputs[input]) + dtype_bytes(types[input].dtype, element);
  }
  bool has(const LayerArgs& args, RecurrentInput input) const {
    return input < args.inputs.size() && args.inputs[input] != nullptr;
  }
  void read(const LayerArgs& args, RecurrentInput input, int64_t element, int64_t n, float* to) const {
    if (!has(args, input))
      std::fill_n(to, n, 0.0f);
    else
      load_floats(isa, types[input].dtype, operand(args, input, element), n, to);
  }

  // A member's own copies of the small operands.
  MemberOperands member_operands(const LayerArgs& args, const Worker& worker) const {
    float* at = floats(args) + layout().members + worker.index * round_up(member_floats(), 16);
    MemberOperands m{at, at + row(), at + 2 * row(), nullptr};
    m.scratch = m.peepholes + 3 * round_up(gates.hidden, 16);
    std::fill_n(at, 2 * row(), 0.0f);
    for (int64_t g = 0; g < gates.count; ++g) {
      read(args, kBias, g * gates.hidden, gates.hidden, m.bias + g * gates.padded);
      read(args, kBias, (gates.count + g) * gates.hidden, gates.hidden, m.state_bias + g * gates.padded);
    }
    // What is added in any case is added with the bias of x.
    const int64_t apart = gates.separates_last() ? gates.count - 1 : gates.count;
    for (int64_t i = 0; i < apart * gates.padded; ++i) m.bias[i] += m.state_bias[i];
    m.has_peepholes = has(args, kPeepholes);
    read(args, kPeepholes, 0, 3 * gates.hidden, m.peepholes);
    return m;
  }

  void multiply_inputs(const LayerArgs& args, const Worker& worker) const {
    const Scratch s = layout();
    const GemmTable& gemm = gemm_table(isa);
    const MemberOperands own = member_operands(args, worker);
    const Worker::Range part = worker.slice(steps * batch, gemm.tile_rows);
    const float* x = static_cast<const float*>(args.inputs[kX]);
    if (types[kX].dtype != DType::Float32) {
      float* wide = floats(args) + s.x;
      read(args, kX, part.begin * width, (part.end - part.begin) * width, wide + part.begin * width);
      x = wide;
    }
    for (int64_t column = 0; column < row(); column += gemm.panel)
      for (int64_t r = part.begin; r < part.end; r += gemm.tile_rows)
        gemm.multiply(std::min(gemm.tile_rows, part.end - r), x + r * width, width,
                      weights.w + column * width, width, floats(args) + s.gates + r * row() + column, row(),
                      own.bias + column, 0);
  }

  // to (rows `stride` apart) = start + the states of n sequences times gates [first, last) of r.
  void multiply_states(const float* h, int64_t n, int64_t first, int64_t last, float* to, int64_t stride,
                       const float* start, int64_t start_stride) const {
    const GemmTable& gemm = gemm_table(isa);
    const int64_t k = gates.hidden, origin = first * gates.padded;
    for (int64_t column = origin; column < last * gates.padded; column += gemm.panel)
      for (int64_t r = 0; r < n; r += gemm.tile_rows) {
        const float* begin = start == nullptr ? nullptr : start + r * start_stride + column - origin;
        gemm.multiply(std::min(gemm.tile_rows, n - r), h + r * k, k, weights.r + column * k, k,
                      to + r * stride + column - origin, stride, begin, start_stride);
      }
  }

  int64_t length(const LayerArgs& args, int64_t item) const {
    if (!has(args, kLengths)) return steps;
    const int64_t n = types[kLengths].dtype == DType::Int64
                          ? static_cast<const int64_t*>(args.inputs[kLengths])[item]
                          : static_cast<const int32_t*>(args.inputs[kLengths])[item];
    if (n < 0 || n > steps)
      throw_input_error(name + ": a length of " + std::to_string(n) + " is not between 0 and the " +
                        std::to_string(steps) + " steps");
    return n;
  }

  void run_sequences(const LayerArgs& args, const Worker& worker, const Worker::Range& part) const {
    const Scratch s = layout();
    const int64_t hidden = gates.hidden;
    read(args, kInitialH, part.begin * hidden, (part.end - part.begin) * hidden,
         floats(args) + s.h + part.begin * hidden);
    read(args, kInitialC, part.begin * hidden, (part.end - part.begin) * hidden,
         floats(args) + s.c + part.begin * hidden);
    const MemberOperands own = member_operands(args, worker);
    if (!has(args, kLengths)) {
      for (int64_t t = 0; t < steps; ++t)
        step(args, own, reverse ? steps - 1 - t : t, part.begin, part.end - part.begin);
    } else {
      for (int64_t b = part.begin; b < part.end; ++b) run_sequence(args, own, b);
    }
    write(args, 1, part.begin * hidden, (part.end - part.begin) * hidden,
          floats(args) + s.h + part.begin * hidden);
    write(args, 2, part.begin * hidden, (part.end - part.begin) * hidden,
          floats(args) + s.c + part.begin * hidden);
  }

  // With lengths each sequence goes its own way.
  void run_sequence(const LayerArgs& args, const MemberOperands& own, int64_t b) const {
    const int64_t n = length(args, b);
    for (int64_t t = 0; t < n; ++t) step(args, own, reverse ? n - 1 - t : t, b, 1);
    std::fill_n(own.scratch, gates.hidden, 0.0f);
    for (int64_t t = n; t < steps; ++t)
      write(args, 0, (t * batch + b) * gates.hidden, gates.hidden, own.scratch);
  }

  void write(const LayerArgs& args, size_t output, int64_t element, int64_t n, const float* from) const {
    if (output >= args.outputs.size() || args.outputs[output] == nullptr) return;
    const DType type = types[kX].dtype;
    store_floats(isa, type, from, n,
                 static_cast<std::byte*>(args.outputs[output]) + dtype_bytes(type, element));
  }

  // Step `t` of sequences [b, b + n).
  void step(const LayerArgs& args, const MemberOperands& own, int64_t t, int64_t b, int64_t n) const {
    const Scratch s = layout();
    float* in = floats(args) + s.gates + (t * batch + b) * row();
    float *h = floats(args) + s.h + b * gates.hidden, *c = floats(args) + s.c + b * gates.hidden;
    float* products = floats(args) + s.products + b * gates.padded;
    const int64_t whole = gates.is_gru() ? 2 : gates.count;
    multiply_states(h, n, 0, whole, in, row(), in, row());
    if (gates.is_gru()) {
      // h times the reset gate goes to c, which a GRU has no other use for.
      for (int64_t i = 0; i < n; ++i) gates.reset(in + i * row(), h + i * gates.hidden, c + i * gates.hidden);
      multiply_states(gates.separates_last() ? h : c, n, 2, 3, products, gates.padded, own.last_start(gates),
                      0);
    }
    for (int64_t i = 0; i < n; ++i) {
      gates.finish(in + i * row(), products + i * gates.padded, own, h + i * gates.hidden,
                   c + i * gates.hidden);
    }
    write(args, 0, (t * batch + b) * gates.hidden, n * gates.hidden, h);
  }
};

// (G * H, k) as panels [k][panel].
std::vector<std::byte> pack_weights(const Tensor& m, int64_t count, int64_t padded, int64_t panel) {
  const std::vector<double> values = m.to_doubles();
  const int64_t k = m.extents()[1], hidden = m.extents()[0] / count;
  std::vector<float> packed(static_cast<size_t>(count * padded * k), 0.0f);
  for (int64_t g = 0; g < count; ++g)
    for (int64_t j = 0; j < hidden; ++j) {
      const int64_t column = g * padded + j;
      for (int64_t i = 0; i < k; ++i)
        packed[static_cast<size_t>(column / panel * panel * k + i * panel + column % panel)] =
            static_cast<float>(values[static_cast<size_t>((g * hidden + j) * k + i)]);
    }
  const auto* bytes = reinterpret_cast<const std::byte*>(packed.data());
  return {bytes, bytes + packed.size() * sizeof(float)};
}

class RecurrentKernel final : public LayerKernel {
 public:
  RecurrentKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                  const PackContext& pack)
      : name_(query.layer().name + " (" + std::string(op_name(query.layer().op)) + ")"),
        op_(query.layer().op),
        tactic_(tactic),
        isa_(machine.isa()) {
    const int64_t panel = gemm_table(isa_).panel;
    const Value &w = query.graph.value(query.layer().inputs[kW]),
                &r = query.graph.value(query.layer().inputs[kR]);
    gates_ = RecurrentGates::of(op_, r.shape[1].value(), panel, isa_);
    const auto packed = [&](std::string_view suffix, const Value& m) {
      const int64_t bytes = gates_.count * gates_.padded * m.shape[1].value() * 4;
      const auto block = pack.packed(
          suffix, bytes, [&] { return pack_weights(m.constant, gates_.count, gates_.padded, panel); });
      return reinterpret_cast<const float*>(block.data());
    };
    weights_ = {packed("w", w), packed("r", r)};
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedRecurrent>();
    const Extents& x = context.inputs[kX];
    p->name = name_;
    p->gates = gates_;
    p->weights = weights_;
    std::copy_n(tactic_.inputs.begin(), std::min<size_t>(tactic_.inputs.size(), kRecurrentInputs),
                p->types.begin());
    p->steps = x[0];
    p->batch = x[1];
    p->width = x[2];
    std::visit(
        [&]<class T>(const T& op) {
          if constexpr (requires {
                          op.reverse;
                          op.clip;
                        })
            p->reverse = op.reverse;
        },
        op_);
    p->isa = isa_;
    p->threads = context.threads;
    return p;
  }

 private:
  std::string name_;
  Op op_;
  Tactic tactic_;
  Isa isa_;
  RecurrentGates gates_;
  Weights weights_;
};

std::vector<Tactic> list_recurrent(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<RNN>(node.op) && !std::holds_alternative<GRU>(node.op) &&
      !std::holds_alternative<LSTM>(node.op))
    return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kRecurrentRunner, "recurrent_" + std::string(isa_suffix(machine)));
    t.inputs[kX].dtype = type;
    for (TensorType& output : t.outputs)
      if (output.dtype != DType::Undefined) output.dtype = type;
    for (const size_t i : {size_t{kW}, size_t{kR}}) {
      const Value& m = query.graph.value(node.inputs[i]);
      t.inputs[i] = {};
      if (!m.is_constant() || !is_static(m.shape))
        t.support = Support::no("the weights are known only at run time");
    }
    for (size_t i = kBias; i < t.inputs.size(); ++i)
      if (i != kLengths && t.inputs[i].dtype != DType::Undefined && !is_vector_float(t.inputs[i].dtype))
        t.support = Support::no("biases and states must be 16 or 32 bit floats");
    if (!node.epilogue.empty()) t.support = Support::no("recurrent layers apply no epilogue");
    if (!is_vector_float(type))
      t.support = Support::no("no vector kernel for " + std::string(dtype_name(type)));
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_recurrent(const LayerQuery& query, const Tactic& tactic,
                                            const Machine& machine, const PackContext& pack) {
  return std::make_unique<RecurrentKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily recurrent_tactics() {
  return {kRecurrentRunner, list_recurrent, make_recurrent};
}

}  // namespace lathe::cpu
