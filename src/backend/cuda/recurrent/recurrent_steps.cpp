// SPDX-License-Identifier: Apache-2.0
//
// All steps of a recurrent layer in one kernel; recurrent_plan.h says who has what.
//
// A step is a product with the state, whose sums meet within a warp in a fixed order; then each lane has the
// gates of a hidden value, makes the new one, and sends it to all blocks of the cluster, the lanes that have
// the same one to different blocks. Warps do not wait for each other but for the whole new state, by the
// bytes that arrive in it. Two states take turns: who has received a state knows that all warps have read the
// one before it.
#include "lathe_device_text/recurrent_steps.h"
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/recurrent/recurrent_plan.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

std::string literal(float x) {
  return float_literal(static_cast<double>(x));
}

// An activation as a device function on what lies between -clip and clip.
std::string activation_text(const std::string& name, Activation kind, float alpha, float beta, float clip) {
  const std::string a = literal(alpha), b = literal(beta);
  const auto formula = [&]() -> std::string {
    switch (kind) {
      case Activation::Relu:
        return "larger(x, 0.f)";
      case Activation::Tanh:
        return "tanh_(x)";
      case Activation::Sigmoid:
        return "sigmoid_(x)";
      case Activation::Affine:
        return a + " * x + " + b;
      case Activation::LeakyRelu:
        return "x >= 0 ? x : " + a + " * x";
      case Activation::ThresholdedRelu:
        return "x >= " + a + " ? x : 0.f";
      case Activation::ScaledTanh:
        return a + " * tanh_(" + b + " * x)";
      case Activation::HardSigmoid:
        return "pw_HardSigmoid(x, " + a + ", " + b + ")";
      case Activation::Elu:
        return "x >= 0 ? x : " + a + " * expm1f(x)";
      case Activation::Softsign:
        return "x / (1.f + fabsf(x))";
      case Activation::Softplus:
        return "pw_Softplus(x)";
    }
    throw Error(ErrorKind::Internal, "no such activation");
  };
  std::string text = "DEV float " + name + "(float x) {\n";
  if (clip > 0) text += "x = smaller(larger(x, " + literal(-clip) + "), " + literal(clip) + ");\n";
  return text + "return " + formula() + ";\n}\n";
}

// The activations of an operator as f, g and h.
std::string activations_text(const Op& op) {
  std::string text(device_text::recurrent_steps::kFunctions);
  const auto add = [&](const auto& fields, std::initializer_list<Activation> kinds) {
    size_t i = 0;
    for (const Activation kind : kinds) {
      const auto parameter = [&](const std::vector<float>& v) { return v.empty() ? 0.0f : v.at(i); };
      text += activation_text("activation_" + std::string(1, "fgh"[i]), kind, parameter(fields.alpha),
                              parameter(fields.beta), fields.clip);
      ++i;
    }
  };
  if (const auto* rnn = std::get_if<RNN>(&op))
    add(*rnn, {rnn->f});
  else if (const auto* gru = std::get_if<GRU>(&op))
    add(*gru, {gru->f, gru->g});
  else {
    const auto& lstm = std::get<LSTM>(op);
    add(lstm, {lstm.f, lstm.g, lstm.h});
  }
  return text;
}

bool is_reverse(const Op& op) {
  if (const auto* rnn = std::get_if<RNN>(&op)) return rnn->reverse;
  if (const auto* gru = std::get_if<GRU>(&op)) return gru->reverse;
  return std::get<LSTM>(op).reverse;
}

constexpr std::string_view kBlocksReady = "cluster_arrive();\ncluster_wait();";

constexpr std::string_view kRnn = "h[i] = activation_f(in[i][0] + x[i][0]);";

std::string constant(std::string_view name, int64_t value) {
  return std::string(name) + " = " + std::to_string(value);
}

std::string rows_text(const RecurrentPlan& plan, const RecurrentRows& p, size_t number) {
  // Sums that take turns: products of tensor cores wait long for each other.
  const int sums = plan.has_tensor_cores() ? p.each * plan.sequences / 8 : plan.padded_values();
  const int turns = plan.has_tensor_cores() ? std::clamp(4 / sums, 1, 4) : sums <= 2 ? 2 : 1;
  int groups = 1;
  while (groups < p.gates) groups *= 2;
  return "struct Rows" + std::to_string(number) + " { static constexpr int " + constant("EACH", p.each) +
         ", " + constant("STEPS", p.steps) + ", " + constant("KEPT", p.kept) + ", " +
         constant("STAGED", p.staged) + ", " + constant("INPUTS", p.gates) + ", " + constant("TURNS", turns) +
         ", " + constant("LANES_OF_K", 32 / groups) + "; };\n";
}

// An optional operand as a macro: what stands at an index, or a number.
std::string operand_macro(KernelBuilder& b, const Tactic& tactic, std::string_view name, size_t input,
                          const std::string& otherwise) {
  const bool given = tactic.inputs.size() > input && tactic.inputs[input].dtype != DType::Undefined;
  return "#define " + std::string(name) + "(i) " +
         (given ? "widen(" + b.input(input, tactic.inputs[input].dtype) + "[i])" : otherwise);
}

}  // namespace

KernelSource recurrent_steps_kernel(const LayerQuery& query, const Tactic& tactic, const RecurrentPlan& plan,
                                    const RecurrentWeights& weights) {
  const Op& op = query.layer().op;
  const RecurrentSizes& s = plan.sizes;
  const auto* gru = std::get_if<GRU>(&op);
  const auto* lstm = std::get_if<LSTM>(&op);
  KernelBuilder b = start_kernel(query, tactic, "recurrent_steps", plan.type);
  if (plan.blocks > 1) {
    b.hardware(hopper_primitives());
    b.hardware(hopper_send_primitive());
  }
  b.waits_itself();
  b.kernel().threads = 32 * plan.warps;
  b.kernel().resident = 1;
  b.kernel().grid = {ceil_div(s.batch, Dim(plan.sequences)), 1, plan.blocks};
  b.kernel().cluster = plan.blocks;
  b.kernel().shared_bytes = static_cast<int>(plan.shared_bytes);
  const auto flag = [](std::string_view name, bool value) {
    return std::string(name) + " = " + (value ? "true" : "false");
  };
  b.global("typedef " + std::string(storage_name(plan.type)) + " T;\nconstexpr int " +
           constant("THREADS", 32 * plan.warps) + ", " + constant("BLOCKS", plan.blocks) + ", " +
           constant("SEQUENCES", plan.sequences) + ", " + constant("HIDDEN", s.hidden) + ", " +
           constant("GATES", s.gates) + ", " + constant("PART", plan.units) + ", " +
           constant("WARP_UNITS", plan.warp_units) + ", " + constant("ITEMS", plan.items) + ", " +
           constant("STATE_PITCH", plan.state_pitch) + ", " + constant("LANE_GROUPS", plan.lane_groups()) +
           ", " + constant("PADDED", plan.padded_values()) + ";\nconstexpr bool " +
           flag("REVERSE", is_reverse(op)) + ", " + flag("AHEAD", plan.items * s.gates <= 16) + ", " +
           flag("JOINS", plan.joins_gates()) + ", " +
           flag("INPUT_FORGET", lstm != nullptr && lstm->input_forget) + ";");
  if (plan.has_tensor_cores())
    b.global(std::string("#define MULTIPLY ") +
             (plan.type == DType::Float16 ? "multiply_f16" : "multiply_bf16"));
  // Constants are there before the kernels in front are done.
  std::string keep = weights.of_run ? "wait_for_previous_kernel();\n" : "";
  int64_t staged_at = plan.staged_at;
  for (size_t i = 0; i < plan.products.size(); ++i) {
    const RecurrentRows& p = plan.products[i];
    const std::string n = std::to_string(i);
    b.global(rows_text(plan, p, i));
    keep += "const uint4* const rows" + n + " = " + weights.pointer(b, i + 1, "uint4") + " + ((idx)rank * " +
            std::to_string(plan.warps) + " + warp) * " + std::to_string(p.fragments() * 32) +
            ";\nuint4* const staged" + n + " = (uint4*)(base + " + std::to_string(staged_at) + ") + warp * " +
            std::to_string(p.staged * p.each * 32) + ";\nu32 kept" + n + "[" +
            std::to_string(p.kept * p.each + 1) + "][4];\nkeep_rows<Rows" + n + ">(rows" + n + ", kept" + n +
            ", staged" + n + ");\n";
    staged_at += plan.staged_bytes(p);
  }
  b.global(plan.has_tensor_cores() ? device_text::recurrent_steps::kTensorSums
                                   : device_text::recurrent_steps::kPlainSums);
  b.global(device_text::recurrent_steps::kProduct);
  b.global(activations_text(op));

  b.line("const idx TIMES = " + b.number(s.steps) + ", BATCH = " + b.number(s.batch) + ";\n#define GIVEN " +
         b.scratch(weights.bytes, "float") + "\n#define RESULT " + b.output(0, plan.type));
  b.line(operand_macro(b, tactic, "LENGTH", kLengths, "(long long)TIMES"));
  b.line(operand_macro(b, tactic, "INITIAL_H", kInitialH, "0.f"));
  b.line(operand_macro(b, tactic, "INITIAL_C", kInitialC, "0.f"));
  // What else belongs to a hidden value: peepholes, or the bias that a reset gate scales.
  if (lstm != nullptr) {
    b.line(operand_macro(b, tactic, "PEEPHOLE", kPeepholes, "0.f"));
    b.line("#define EXTRA(unit, k) PEEPHOLE((k) * HIDDEN + (unit))");
  } else if (gru != nullptr && gru->linear_before_reset) {
    b.line(operand_macro(b, tactic, "BIAS", kBias, "0.f"));
    b.line("#define EXTRA(unit, k) BIAS(5 * HIDDEN + (unit))");
  } else {
    b.line("#define EXTRA(unit, k) 0.f");
  }
  const bool cluster = plan.blocks > 1, tensor = plan.has_tensor_cores();
  b.line(
      filled_in(device_text::recurrent_steps::kBegin,
                {{"START_EXCHANGE", std::string(cluster ? device_text::recurrent_steps::kStartExchange : "")},
                 {"KEEP_ROWS", keep},
                 {"BLOCKS_READY", std::string(cluster ? kBlocksReady : "__syncthreads();")},
                 {"SEND_WORDS", cluster ? "send_words(r, place, words, arrived + (turn + 1) % 2);"
                                        : "store_words(place, words);"},
                 {"SEND_ALL", std::string(tensor ? device_text::recurrent_steps::kTensorSend
                                                 : device_text::recurrent_steps::kPlainSend)},
                 {"MEET", std::string(cluster ? device_text::recurrent_steps::kMeet : "__syncthreads();")}}));
  std::string last;
  const auto store_last = [&](size_t output, std::string_view value) {
    if (output >= tactic.outputs.size() || tactic.outputs[output].dtype == DType::Undefined) return;
    last += b.output(output, plan.type) + "[at] = Narrow<T>::from(" + std::string(value) + ");\n";
  };
  store_last(1, "h[i]");
  if (lstm != nullptr) store_last(2, "c[i]");
  const std::string_view update = lstm != nullptr      ? device_text::recurrent_steps::kLstm
                                  : gru == nullptr     ? kRnn
                                  : s.multiplies_twice ? device_text::recurrent_steps::kFreshHalf
                                                       : device_text::recurrent_steps::kLinearGru;
  const std::string first_half = std::string(device_text::recurrent_steps::kResetHalf) +
                                 "}\nmeet();\nif (is_warp_live) {" +
                                 std::string(device_text::recurrent_steps::kResetProduct);
  b.line(
      filled_in(device_text::recurrent_steps::kSteps, {{"FIRST_HALF", s.multiplies_twice ? first_half : ""},
                                                       {"UPDATE", std::string(update)},
                                                       {"IS_FIRST", tensor ? "true" : "copy_of() == 0"},
                                                       {"LAST_STATES", last}}));
  return b.finish();
}

}  // namespace lathe::cuda
