// SPDX-License-Identifier: Apache-2.0
//
// All steps of a recurrent layer in one kernel; recurrent_plan.h says who has what.
//
// A step is a product with the state, whose parts of k the warps leave in shared memory, and then each thread
// has the gates of its own hidden values: it adds up the parts in a fixed order, makes the new state, and
// sends it to all blocks of the cluster. A block waits for the whole new state only, by the bytes that arrive
// in it. Two states take turns: who has received a state knows that all others have read the one before it.
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
        return "sigmoid(x)";
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
  std::string text =
      "DEV float tanh_(float x) { return kFastMath ? 2.f * sigmoid(2.f * x) - 1.f : tanhf(x); }\n";
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

// A warp's fragments with the part of the state from `h` on. Their first steps are in registers.
constexpr std::string_view kProduct = R"(struct Place { int slice, group; };
template <class P> DEV Place place_of(int warp) { return {warp / P::GROUPS, warp % P::GROUPS}; }
template <class P> DEV void keep_rows(const uint4* rows, u32 (&kept)[P::KEPT * P::EACH + 1][4], uint4* staged) {
const int lane = threadIdx.x % 32;
if (threadIdx.x / 32 >= P::WARPS) return;
#pragma unroll
for (int f = 0; f < P::KEPT * P::EACH; ++f) load_words(rows + f * 32 + lane, kept[f]);
for (int f = 0; f < P::STAGED * P::EACH; ++f) staged[f * 32 + lane] = rows[(P::KEPT * P::EACH + f) * 32 + lane];
}
template <class P> DEV void multiply_rows(const uint4* rows, const u32 (&kept)[P::KEPT * P::EACH + 1][4],
                                          const uint4* staged, const T* h, float* parts) {
const int lane = threadIdx.x % 32;
if (threadIdx.x / 32 >= P::WARPS) return;
const Place place = place_of<P>(threadIdx.x / 32);
h += place.slice * P::STEPS * KSTEP;
Sums<P> sum = {};
u32 w[P::EACH][4];
#pragma unroll
for (int s = 0; s < P::KEPT; ++s) {
#pragma unroll
for (int i = 0; i < P::EACH; ++i)
#pragma unroll
for (int j = 0; j < 4; ++j) w[i][j] = kept[s * P::EACH + i][j];
add_step<P>(sum, w, h + s * KSTEP);
}
#pragma unroll 4
for (int s = 0; s < P::STAGED; ++s) {
#pragma unroll
for (int i = 0; i < P::EACH; ++i) load_words(staged + (s * P::EACH + i) * 32 + lane, w[i]);
add_step<P>(sum, w, h + (P::KEPT + s) * KSTEP);
}
#pragma unroll 4
for (int s = P::KEPT + P::STAGED; s < P::STEPS; ++s) {
#pragma unroll
for (int i = 0; i < P::EACH; ++i) load_words(rows + (s * P::EACH + i) * 32 + lane, w[i]);
add_step<P>(sum, w, h + s * KSTEP);
}
leave_sums<P>(sum, place, parts);
}
// The sums of all slices for the row, and the next one where a thread has two.
template <class P> DEV void sum_parts(const float* parts, int n, int row, float (&sum)[UNITS]) {
load(parts + n * P::PITCH + row, sum);
#pragma unroll
for (int s = 1; s < P::SLICES; ++s) {
float more[UNITS];
load(parts + (s * SEQUENCES + n) * P::PITCH + row, more);
#pragma unroll
for (int v = 0; v < UNITS; ++v) sum[v] += more[v];
}
}
)";

constexpr std::string_view kPlainSums = R"(template <class P> struct Sums { float of[SEQUENCES][P::EACH]; };
template <class P> DEV void add_step(Sums<P>& sum, const u32 (&w)[P::EACH][4], const T* h) {
#pragma unroll
for (int n = 0; n < SEQUENCES; ++n) {
float x[4];
load(h + n * STATE_PITCH, x);
#pragma unroll
for (int i = 0; i < P::EACH; ++i)
#pragma unroll
for (int j = 0; j < 4; ++j) sum.of[n][i] += __uint_as_float(w[i][j]) * x[j];
}
}
template <class P, class Where> DEV void leave_sums(const Sums<P>& sum, const Where& at, float* parts) {
#pragma unroll
for (int n = 0; n < SEQUENCES; ++n)
#pragma unroll
for (int i = 0; i < P::EACH; ++i)
parts[(at.slice * SEQUENCES + n) * P::PITCH + (at.group * P::EACH + i) * 32 + threadIdx.x % 32] = sum.of[n][i];
}
)";

constexpr std::string_view kTensorSums =
    R"(template <class P> struct Sums { float of[P::EACH][SEQUENCES / 8][4]; };
template <class P> DEV void add_step(Sums<P>& sum, const u32 (&w)[P::EACH][4], const T* h) {
const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
for (int n = 0; n < SEQUENCES / 8; ++n) {
const T* from = h + (n * 8 + g) * STATE_PITCH + t * 2;
const u32 b0 = *(const u32*)from, b1 = *(const u32*)(from + 8);
#pragma unroll
for (int i = 0; i < P::EACH; ++i) MULTIPLY(sum.of[i][n], w[i], b0, b1);
}
}
template <class P, class Where> DEV void leave_sums(const Sums<P>& sum, const Where& at, float* parts) {
const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
for (int i = 0; i < P::EACH; ++i)
#pragma unroll
for (int n = 0; n < SEQUENCES / 8; ++n)
#pragma unroll
for (int e = 0; e < 4; ++e)
parts[(at.slice * SEQUENCES + n * 8 + t * 2 + e % 2) * P::PITCH + (at.group * P::EACH + i) * 16 + g + e / 2 * 8] =
sum.of[i][n][e];
}
)";

constexpr std::string_view kBegin = R"(const int rank = blockIdx.z, warp = threadIdx.x / 32;
const idx b0 = (idx)blockIdx.x * SEQUENCES;
const int count = (int)min(BATCH - b0, (idx)SEQUENCES);
char* const base = shared_memory();
T* const states = (T*)(base + 16);
float* const parts = (float*)(base + PARTS_AT);
START_EXCHANGE
KEEP_ROWS
for (int i = threadIdx.x; i < 2 * SEQUENCES * STATE_PITCH; i += THREADS) states[i] = Narrow<T>::from(0.f);
wait_for_previous_kernel();
__syncthreads();
for (int i = threadIdx.x; i < count * HIDDEN; i += THREADS)
states[i / HIDDEN * STATE_PITCH + i % HIDDEN] = Narrow<T>::from(INITIAL_H(b0 * HIDDEN + i));
// A thread's hidden values: of sequence n, from `unit` on.
const auto sequence = [&](int i) { return (int)(threadIdx.x + i * THREADS) / WIDTH; };
const auto own_row = [&](int i) { return (int)(threadIdx.x + i * THREADS) % WIDTH * UNITS; };
const auto is_live = [&](int i) { return sequence(i) < count && rank * PART + own_row(i) < HIDDEN; };
float h[ITEMS][UNITS], c[ITEMS][UNITS], extra[ITEMS][UNITS][3], x[ITEMS][UNITS][GATES];
idx length[ITEMS];
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
length[i] = 0;
#pragma unroll
for (int v = 0; v < UNITS; ++v) {
const int unit = rank * PART + own_row(i) + v;
const bool inside = is_live(i) && unit < HIDDEN;
const idx at = inside ? (b0 + sequence(i)) * HIDDEN + unit : 0;
h[i][v] = inside ? INITIAL_H(at) : 0.f;
c[i][v] = inside ? INITIAL_C(at) : 0.f;
#pragma unroll
for (int k = 0; k < 3; ++k) extra[i][v][k] = inside ? EXTRA(unit, k) : 0.f;
}
if (is_live(i)) {
const long long given = LENGTH(b0 + sequence(i));
length[i] = given < 0 ? 0 : given > TIMES ? TIMES : (idx)given;
}
}
// What x gives to the gates at step s.
const auto fetch = [&](int i, idx s) {
const int unit = rank * PART + own_row(i);
if (!is_live(i) || s >= length[i]) return;
const float* from = GIVEN + ((REVERSE ? length[i] - 1 - s : s) * BATCH + b0 + sequence(i)) * (GATES * HIDDEN) + unit;
#pragma unroll
for (int g = 0; g < GATES; ++g)
#pragma unroll
for (int v = 0; v < UNITS; ++v) x[i][v][g] = unit + v < HIDDEN ? from[g * HIDDEN + v] : 0.f;
};
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
for (int v = 0; v < UNITS; ++v)
#pragma unroll
for (int g = 0; g < GATES; ++g) x[i][v][g] = 0;
if constexpr (AHEAD) fetch(i, 0);
}
int turn = 0;
BLOCKS_READY
// What lies behind the last hidden value stays zero.
const auto word_of = [&](int i, const float (&values)[UNITS]) {
T t[UNITS];
#pragma unroll
for (int v = 0; v < UNITS; ++v) t[v] = Narrow<T>::from(rank * PART + own_row(i) + v < HIDDEN ? values[v] : 0.f);
u32 word;
memcpy(&word, t, 4);
return word;
};
const auto send = [&](int i, const float (&values)[UNITS]) {
T* const to = states + ((turn + 1) % 2 * SEQUENCES + sequence(i)) * STATE_PITCH + rank * PART + own_row(i);
SEND
};
const auto meet = [&] {
++turn;
MEET
};
)";

// A cluster: each state's barrier counts the bytes of the values that all blocks send.
constexpr std::string_view kStartExchange = R"(u64* const arrived = (u64*)base;
const u32 expected = count * ((HIDDEN + UNITS - 1) / UNITS) * 4;
if (threadIdx.x == 0) {
barrier_init(arrived, 1);
barrier_init(arrived + 1, 1);
barriers_ready();
barrier_expect(arrived, expected);
barrier_expect(arrived + 1, expected);
})";
constexpr std::string_view kBlocksReady = "cluster_arrive();\ncluster_wait();";
constexpr std::string_view kSend = R"(const u32 word = word_of(i, values);
#pragma unroll
for (int r = 0; r < BLOCKS; ++r) send_word(r, to, word, arrived + (turn + 1) % 2);)";
constexpr std::string_view kMeet = R"(barrier_wait(arrived + turn % 2, (turn - 1) / 2 % 2);
if (threadIdx.x == 0) barrier_expect(arrived + turn % 2, expected);)";

constexpr std::string_view kSteps = R"(for (idx s = 0; s < TIMES; ++s) {
const bool last = s + 1 == TIMES;
multiply_rows<Rows0>(rows0, kept0, staged0, states + turn % 2 * SEQUENCES * STATE_PITCH, parts);
__syncthreads();
FIRST_HALF
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
if (!is_live(i)) continue;
const int n = sequence(i), row = own_row(i), unit = rank * PART + row;
const idx t = REVERSE && s < length[i] ? length[i] - 1 - s : s;
const bool goes_on = s < length[i];
if constexpr (!AHEAD) fetch(i, s);
if (goes_on) {
UPDATE
}
if (!last) send(i, h[i]);
T* const to = RESULT + (t * BATCH + b0 + n) * HIDDEN + unit;
#pragma unroll
for (int v = 0; v < UNITS; ++v)
if (unit + v < HIDDEN) to[v] = Narrow<T>::from(goes_on ? h[i][v] : 0.f);
if constexpr (AHEAD) fetch(i, s + 1);
}
if (!last) meet();
}
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
if (!is_live(i)) continue;
#pragma unroll
for (int v = 0; v < UNITS; ++v) {
const int unit = rank * PART + own_row(i) + v;
if (unit >= HIDDEN) continue;
const idx at = (b0 + sequence(i)) * HIDDEN + unit;
LAST_STATES
}
})";

constexpr std::string_view kRnn = R"(float in[UNITS];
sum_parts<Rows0>(parts, n, row, in);
#pragma unroll
for (int v = 0; v < UNITS; ++v) h[i][v] = activation_f(in[v] + x[i][v][0]);)";

constexpr std::string_view kLstm = R"(float in[4][UNITS];
#pragma unroll
for (int g = 0; g < 4; ++g) sum_parts<Rows0>(parts, n, g * PART + row, in[g]);
#pragma unroll
for (int v = 0; v < UNITS; ++v) {
const float input = activation_f(in[0][v] + x[i][v][0] + extra[i][v][0] * c[i][v]);
const float forget = INPUT_FORGET ? 1.f - input : activation_f(in[2][v] + x[i][v][2] + extra[i][v][2] * c[i][v]);
c[i][v] = forget * c[i][v] + input * activation_g(in[3][v] + x[i][v][3]);
h[i][v] = activation_f(in[1][v] + x[i][v][1] + extra[i][v][1] * c[i][v]) * activation_h(c[i][v]);
})";

constexpr std::string_view kLinearGru = R"(float in[3][UNITS];
#pragma unroll
for (int g = 0; g < 3; ++g) sum_parts<Rows0>(parts, n, g * PART + row, in[g]);
#pragma unroll
for (int v = 0; v < UNITS; ++v) {
const float update = activation_f(in[0][v] + x[i][v][0]), reset = activation_f(in[1][v] + x[i][v][1]);
const float fresh = activation_g(x[i][v][2] + reset * (in[2][v] + extra[i][v][0]));
h[i][v] = (1.f - update) * fresh + update * h[i][v];
})";

// The update gate waits in c; what is sent is h times the reset gate.
constexpr std::string_view kResetHalf = R"(#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
if (!is_live(i)) continue;
const int n = sequence(i), row = own_row(i);
if constexpr (!AHEAD) fetch(i, s);
float in[2][UNITS], reset[UNITS];
#pragma unroll
for (int g = 0; g < 2; ++g) sum_parts<Rows0>(parts, n, g * PART + row, in[g]);
#pragma unroll
for (int v = 0; v < UNITS; ++v) {
c[i][v] = activation_f(in[0][v] + x[i][v][0]);
reset[v] = activation_f(in[1][v] + x[i][v][1]) * h[i][v];
}
send(i, reset);
}
meet();
multiply_rows<Rows1>(rows1, kept1, staged1, states + turn % 2 * SEQUENCES * STATE_PITCH, parts);
__syncthreads();)";
constexpr std::string_view kFreshHalf = R"(float in[UNITS];
sum_parts<Rows1>(parts, n, row, in);
#pragma unroll
for (int v = 0; v < UNITS; ++v) {
const float fresh = activation_g(in[v] + x[i][v][2]);
h[i][v] = (1.f - c[i][v]) * fresh + c[i][v] * h[i][v];
})";

std::string rows_text(const RecurrentRows& p, size_t number) {
  const auto field = [](std::string_view name, int64_t value) {
    return std::string(name) + " = " + std::to_string(value);
  };
  return "struct Rows" + std::to_string(number) + " { static constexpr int " + field("EACH", p.each) + ", " +
         field("GROUPS", p.groups) + ", " + field("SLICES", p.slices) + ", " + field("WARPS", p.warps()) +
         ", " + field("STEPS", p.steps) + ", " + field("KEPT", p.kept) + ", " + field("STAGED", p.staged) +
         ", " + field("PITCH", p.pitch) + "; };\n";
}

// An optional operand as a macro: what stands at an index, or a number.
std::string operand_macro(KernelBuilder& b, const Tactic& tactic, std::string_view name, size_t input,
                          const std::string& otherwise) {
  const bool given = tactic.inputs.size() > input && tactic.inputs[input].dtype != DType::Undefined;
  return "#define " + std::string(name) + "(i) " +
         (given ? "widen(" + b.input(input, tactic.inputs[input].dtype) + "[i])" : otherwise);
}

}  // namespace

KernelSource recurrent_steps_kernel(const LayerQuery& query, const Tactic& tactic,
                                    const RecurrentPlan& plan) {
  const Op& op = query.layer().op;
  const RecurrentSizes& s = plan.sizes;
  const auto* gru = std::get_if<GRU>(&op);
  const auto* lstm = std::get_if<LSTM>(&op);
  const int64_t width = plan.units / plan.units_of_thread();
  const int64_t items = (plan.sequences * width + kRecurrentThreads - 1) / kRecurrentThreads;
  KernelBuilder b = start_kernel(query, tactic, "recurrent_steps", plan.type);
  if (plan.blocks > 1) {
    b.hardware(hopper_primitives());
    b.hardware(hopper_send_primitive());
  }
  b.waits_itself();
  b.kernel().threads = kRecurrentThreads;
  b.kernel().resident = 1;
  b.kernel().grid = {ceil_div(s.batch, Dim(plan.sequences)), 1, plan.blocks};
  b.kernel().cluster = plan.blocks;
  b.kernel().shared_bytes = static_cast<int>(plan.shared_bytes);
  const auto number = [](std::string_view name, int64_t value) {
    return ", " + std::string(name) + " = " + std::to_string(value);
  };
  b.global("typedef " + std::string(storage_name(plan.type)) + " T;\nconstexpr int THREADS = " +
           std::to_string(kRecurrentThreads) + number("BLOCKS", plan.blocks) +
           number("SEQUENCES", plan.sequences) + number("HIDDEN", s.hidden) + number("GATES", s.gates) +
           number("PART", plan.units) + number("UNITS", plan.units_of_thread()) + number("WIDTH", width) +
           number("ITEMS", items) + number("KSTEP", plan.has_tensor_cores() ? 16 : 4) +
           number("STATE_PITCH", plan.state_pitch) + number("PARTS_AT", plan.parts_at) +
           ";\nconstexpr bool REVERSE = " + (is_reverse(op) ? "true" : "false") +
           ", AHEAD = " + (items <= 2 ? "true" : "false") +
           ", INPUT_FORGET = " + (lstm != nullptr && lstm->input_forget ? "true" : "false") + ";");
  if (plan.has_tensor_cores())
    b.global(std::string("#define MULTIPLY ") +
             (plan.type == DType::Float16 ? "multiply_f16" : "multiply_bf16"));
  std::string keep;
  int64_t staged_at = plan.staged_at;
  for (size_t i = 0; i < plan.products.size(); ++i) {
    const RecurrentRows& p = plan.products[i];
    const std::string n = std::to_string(i);
    b.global(rows_text(p, i));
    keep += "const uint4* const rows" + n + " = " + b.packed("r" + n, "uint4") + " + ((idx)rank * Rows" + n +
            "::WARPS + warp) * (Rows" + n + "::EACH * Rows" + n + "::STEPS * 32);\nuint4* const staged" + n +
            " = (uint4*)(base + " + std::to_string(staged_at) + ") + warp * (Rows" + n + "::STAGED * Rows" +
            n + "::EACH * 32);\nu32 kept" + n + "[Rows" + n + "::KEPT * Rows" + n +
            "::EACH + 1][4];\nkeep_rows<Rows" + n + ">(rows" + n + ", kept" + n + ", staged" + n + ");\n";
    staged_at += p.staged_bytes();
  }
  b.global(plan.has_tensor_cores() ? kTensorSums : kPlainSums);
  b.global(kProduct);
  b.global(activations_text(op));

  b.line("const idx TIMES = " + b.number(s.steps) + ", BATCH = " + b.number(s.batch) + ";\n#define GIVEN " +
         b.scratch(0, "float") + "\n#define RESULT " + b.output(0, plan.type));
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
  const bool cluster = plan.blocks > 1;
  b.line(filled_in(kBegin, {{"START_EXCHANGE", std::string(cluster ? kStartExchange : "")},
                            {"KEEP_ROWS", keep},
                            {"BLOCKS_READY", std::string(cluster ? kBlocksReady : "__syncthreads();")},
                            {"SEND", std::string(cluster ? kSend : "*(u32*)to = word_of(i, values);")},
                            {"MEET", std::string(cluster ? kMeet : "__syncthreads();")}}));
  std::string last;
  const auto store_last = [&](size_t output, std::string_view value) {
    if (output >= tactic.outputs.size() || tactic.outputs[output].dtype == DType::Undefined) return;
    last += b.output(output, plan.type) + "[at] = Narrow<T>::from(" + std::string(value) + ");\n";
  };
  store_last(1, "h[i][v]");
  if (lstm != nullptr) store_last(2, "c[i][v]");
  const std::string_view update = lstm != nullptr      ? kLstm
                                  : gru == nullptr     ? kRnn
                                  : s.multiplies_twice ? kFreshHalf
                                                       : kLinearGru;
  b.line(filled_in(kSteps, {{"FIRST_HALF", std::string(s.multiplies_twice ? kResetHalf : "")},
                            {"UPDATE", std::string(update)},
                            {"LAST_STATES", last}}));
  return b.finish();
}

}  // namespace lathe::cuda
