// SPDX-License-Identifier: Apache-2.0
//
// RNN, GRU and LSTM with constant weights, stored as FP32, BF16 or FP16, computed in FP32.
//
// What x gives to the gates is one product over all steps, shared out by rows. Then each step is a product
// with the state and the gates' functions in vectors. Shared out are sequences, which need not wait for one
// another, or, where a step takes long enough for the members to wait for each other after it, hidden values:
// then a member reads its part of the weights only, which stays in its cache. Operations: 2 (I + H) G H per
// step and sequence. Bytes: the weights of x once per tile of rows (once per layer where they fit into L2),
// those of the state once per step and tile of sequences: with one sequence the floor is to read them from
// where they lie, 4 G H H bytes a step.
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
  int64_t gates = 0, x = 0, h = 0, next = 0, c = 0, products = 0, members = 0, total = 0;
};

// Hidden values from `first` on, as a layer of its own: `gates` has their number. Its part of the memory for
// gates is apart from that of others, so that no prefetcher fetches a cache line that another member writes.
struct UnitShare {
  RecurrentGates gates;
  int64_t first = 0;
};

// Sequences [b, b + n) at step t. `h` and `next`: states of the first sequence of the batch, all of their
// hidden values, before and after the step.
struct StepPart {
  int64_t t = 0, b = 0, n = 0;
  float *h = nullptr, *next = nullptr;
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
  bool shares_units = false;  // among the members; else sequences

  int64_t row() const { return gates.count * gates.padded; }
  // Of each member: bias of x and of the state, peepholes, a row of temporary values.
  int64_t member_floats() const { return 2 * row() + 3 * round_up(gates.hidden, 16) + gates.padded; }
  Scratch layout() const {
    Scratch s;
    const auto take = [&s](int64_t floats) { return std::exchange(s.total, s.total + round_up(floats, 16)); };
    s.gates = take(steps * batch * row());
    s.x = take(types[kX].dtype == DType::Float32 ? 0 : steps * batch * width);
    s.h = take(batch * gates.hidden);
    s.next = take(shares_units ? batch * gates.hidden : 0);
    s.c = take(batch * gates.hidden);
    s.products = take(batch * gates.padded);
    s.members = take(threads * round_up(member_floats(), 16));
    return s;
  }
  // Whether to share out hidden values. A step costs reading the weights once and then multiplying each
  // sequence by them (in ns per weight, Zen 5), and the members wait for each other after it.
  bool units_pay() const {
    if (threads == 1 || steps == 0 || types[kLengths].dtype != DType::Undefined) return false;
    const auto step_ns = [&](int64_t sequences) {
      return static_cast<double>(row() * gates.hidden) * (0.012 + 0.008 * static_cast<double>(sequences));
    };
    const double wait_ns = 300 + 100.0 * threads;
    return step_ns(batch) / threads + wait_ns < step_ns((batch + threads - 1) / threads);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(layout().total) * sizeof(float); }
  bool meets(int count) const override { return count > 1; }
  int members(int available) const override {
    const double multiplied = static_cast<double>(steps * batch * row() * (width + gates.hidden));
    return all_or_one(0.03 * multiplied, std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (shares_units && worker.count > 1) return run_units(args, worker);
    const UnitShare all = share_of(0, gates.hidden);
    const MemberOperands own = member_operands(args, worker, all);
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(steps * batch, gemm_table(isa).tile_rows);
      widen_inputs(args, part);
      multiply_inputs(args, own, all, part);
    });
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(batch, 1, Worker::kUncut);
      if (part.begin < part.end) run_sequences(args, own, part);
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

  UnitShare share_of(int64_t first, int64_t end) const {
    UnitShare share{gates, first};
    share.gates.hidden = end - first;
    share.gates.padded = round_up(end - first, gemm_table(isa).panel);
    return share;
  }
  // A member's own copies of the small operands.
  MemberOperands member_operands(const LayerArgs& args, const Worker& worker, const UnitShare& share) const {
    const int64_t n = share.gates.hidden, padded = share.gates.padded;
    float* at = floats(args) + layout().members + worker.index * round_up(member_floats(), 16);
    MemberOperands m{at, at + row(), at + 2 * row(), nullptr};
    m.scratch = m.peepholes + 3 * round_up(gates.hidden, 16);
    std::fill_n(at, 2 * row(), 0.0f);
    const auto bias = [&](int64_t gate, float* to) {
      read(args, kBias, gate * gates.hidden + share.first, n, to);
    };
    for (int64_t g = 0; g < gates.count; ++g) {
      bias(g, m.bias + g * padded);
      bias(gates.count + g, m.state_bias + g * padded);
    }
    // What is added in any case is added with the bias of x.
    const int64_t apart = gates.separates_last() ? gates.count - 1 : gates.count;
    for (int64_t i = 0; i < apart * padded; ++i) m.bias[i] += m.state_bias[i];
    m.has_peepholes = has(args, kPeepholes);
    for (int64_t i = 0; i < 3; ++i)
      read(args, kPeepholes, i * gates.hidden + share.first, n, m.peepholes + i * n);
    return m;
  }

  // Rows of x as FP32.
  void widen_inputs(const LayerArgs& args, const Worker::Range& part) const {
    if (types[kX].dtype != DType::Float32)
      read(args, kX, part.begin * width, (part.end - part.begin) * width,
           floats(args) + layout().x + part.begin * width);
  }
  // The gates of a row of x (a step of a sequence).
  float* gates_of(const LayerArgs& args, const UnitShare& share, int64_t row) const {
    return floats(args) + layout().gates +
           gates.count * (steps * batch * share.first + row * share.gates.padded);
  }
  // Calls f(column of the packed weights, column of the share's gates) for each panel of gates [first, last).
  template <class F>
  void for_panels(const UnitShare& share, int64_t first, int64_t last, F&& f) const {
    const int64_t panel = gemm_table(isa).panel;
    for (int64_t gate = first; gate < last; ++gate)
      for (int64_t unit = 0; unit < share.gates.padded; unit += panel)
        f(gate * gates.padded + share.first + unit, gate * share.gates.padded + unit);
  }
  void multiply_inputs(const LayerArgs& args, const MemberOperands& own, const UnitShare& share,
                       const Worker::Range& part) const {
    const GemmTable& gemm = gemm_table(isa);
    const int64_t stride = gates.count * share.gates.padded;
    const float* x = types[kX].dtype == DType::Float32 ? static_cast<const float*>(args.inputs[kX])
                                                       : floats(args) + layout().x;
    for_panels(share, 0, gates.count, [&](int64_t column, int64_t at) {
      for (int64_t r = part.begin; r < part.end; r += gemm.tile_rows)
        gemm.multiply(std::min(gemm.tile_rows, part.end - r), x + r * width, width,
                      weights.w + column * width, width, gates_of(args, share, r) + at, stride, own.bias + at,
                      0);
    });
  }

  // to (rows `stride` apart) = start + the states of n sequences times gates [first, last) of r. `to` and
  // `start` begin with gate `first`.
  void multiply_states(const UnitShare& share, const float* h, int64_t n, int64_t first, int64_t last,
                       float* to, int64_t stride, const float* start, int64_t start_stride) const {
    const GemmTable& gemm = gemm_table(isa);
    const int64_t k = gates.hidden, origin = first * share.gates.padded;
    for_panels(share, first, last, [&](int64_t column, int64_t at) {
      for (int64_t r = 0; r < n; r += gemm.tile_rows) {
        const float* begin = start == nullptr ? nullptr : start + r * start_stride + at - origin;
        gemm.multiply(std::min(gemm.tile_rows, n - r), h + r * k, k, weights.r + column * k, k,
                      to + r * stride + at - origin, stride, begin, start_stride);
      }
    });
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

  void read_states(const LayerArgs& args, const UnitShare& share, const StepPart& part) const {
    for (int64_t b = part.b; b < part.b + part.n; ++b) {
      const int64_t at = b * gates.hidden + share.first;
      read(args, kInitialH, at, share.gates.hidden, part.h + at);
      read(args, kInitialC, at, share.gates.hidden, memory_of(args, share, b));
    }
  }
  void write_states(const LayerArgs& args, const UnitShare& share, const StepPart& part) const {
    for (int64_t b = part.b; b < part.b + part.n; ++b) {
      const int64_t at = b * gates.hidden + share.first;
      write(args, 1, at, share.gates.hidden, part.h + at);
      write(args, 2, at, share.gates.hidden, memory_of(args, share, b));
    }
  }

  void run_sequences(const LayerArgs& args, const MemberOperands& own, const Worker::Range& range) const {
    const UnitShare all = share_of(0, gates.hidden);
    float* h = floats(args) + layout().h;
    StepPart part{0, range.begin, range.end - range.begin, h, h};
    read_states(args, all, part);
    if (!has(args, kLengths)) {
      for (int64_t t = 0; t < steps; ++t) {
        part.t = reverse ? steps - 1 - t : t;
        step(args, own, all, part);
      }
    } else {
      for (int64_t b = range.begin; b < range.end; ++b) run_sequence(args, own, all, {0, b, 1, h, h});
    }
    write_states(args, all, part);
  }

  // With lengths each sequence goes its own way.
  void run_sequence(const LayerArgs& args, const MemberOperands& own, const UnitShare& all,
                    StepPart part) const {
    const int64_t n = length(args, part.b);
    for (int64_t t = 0; t < n; ++t) {
      part.t = reverse ? n - 1 - t : t;
      step(args, own, all, part);
    }
    std::fill_n(own.scratch, gates.hidden, 0.0f);
    for (int64_t t = n; t < steps; ++t)
      write(args, 0, (t * batch + part.b) * gates.hidden, gates.hidden, own.scratch);
  }

  // All sequences go together. A member has the same hidden values in every step, whose weights and gates
  // stay in its cache, and all wait for each other after each step; portions that move between members would
  // cost more than that.
  void run_units(const LayerArgs& args, const Worker& worker) const {
    const Worker::Range units = worker.slice(gates.hidden, gemm_table(isa).panel);
    const UnitShare share = share_of(units.begin, units.end);
    const MemberOperands own = member_operands(args, worker, share);
    const Scratch s = layout();
    StepPart part{0, 0, batch, floats(args) + s.h, floats(args) + s.next};
    widen_inputs(args, worker.slice(steps * batch));
    read_states(args, share, part);
    worker.barrier();
    multiply_inputs(args, own, share, {0, steps * batch});
    for (int64_t t = 0; t < steps; ++t) {
      part.t = reverse ? steps - 1 - t : t;
      begin_step(args, share, part);
      if (gates.is_gru() && !gates.separates_last()) worker.barrier();  // the last gate reads all of c
      finish_step(args, own, share, part);
      worker.barrier();
      std::swap(part.h, part.next);
    }
    write_states(args, share, part);
  }

  void write(const LayerArgs& args, size_t output, int64_t element, int64_t n, const float* from) const {
    if (output >= args.outputs.size() || args.outputs[output] == nullptr) return;
    const DType type = types[kX].dtype;
    store_floats(isa, type, from, n,
                 static_cast<std::byte*>(args.outputs[output]) + dtype_bytes(type, element));
  }

  // Of sequence b: c; of a GRU, which has none, h times the reset gate, which products read as they read h.
  float* memory_of(const LayerArgs& args, const UnitShare& share, int64_t b) const {
    const int64_t at =
        gates.is_gru() ? b * gates.hidden + share.first : batch * share.first + b * share.gates.hidden;
    return floats(args) + layout().c + at;
  }
  void step(const LayerArgs& args, const MemberOperands& own, const UnitShare& share,
            const StepPart& part) const {
    begin_step(args, share, part);
    finish_step(args, own, share, part);
  }
  // The gates that read h alone.
  void begin_step(const LayerArgs& args, const UnitShare& share, const StepPart& part) const {
    float* in = gates_of(args, share, part.t * batch + part.b);
    const int64_t hidden = gates.hidden, stride = gates.count * share.gates.padded;
    multiply_states(share, part.h + part.b * hidden, part.n, 0, gates.is_gru() ? 2 : gates.count, in, stride,
                    in, stride);
    for (int64_t i = 0; gates.is_gru() && i < part.n; ++i)
      share.gates.reset(in + i * stride, part.h + (part.b + i) * hidden + share.first,
                        memory_of(args, share, part.b + i));
  }
  void finish_step(const LayerArgs& args, const MemberOperands& own, const UnitShare& share,
                   const StepPart& part) const {
    const Scratch s = layout();
    const int64_t hidden = gates.hidden, padded = share.gates.padded, row = part.t * batch + part.b;
    float* products = floats(args) + s.products + batch * share.first + part.b * padded;
    if (gates.is_gru())
      multiply_states(share, (gates.separates_last() ? part.h : floats(args) + s.c) + part.b * hidden, part.n,
                      2, 3, products, padded, own.last_start(share.gates), 0);
    for (int64_t i = 0; i < part.n; ++i) {
      const int64_t at = (part.b + i) * hidden + share.first;
      share.gates.finish(gates_of(args, share, row + i), products + i * padded, own, part.h + at,
                         part.next + at, memory_of(args, share, part.b + i));
      write(args, 0, (row + i) * hidden + share.first, share.gates.hidden, part.next + at);
    }
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
    p->shares_units = p->units_pay();
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
    if (!is_vector_float(type)) t.support = no_vector_kernel(type);
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
