// SPDX-License-Identifier: Apache-2.0
//
// See grid_check.h. (Named _test so that it belongs to the test program.)
#include "backend/cpu/check/grid_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/check/layer_case.h"
#include "backend/cpu/check/tactic_check.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/tile/integer_emulation.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "ops/build.h"
#include "ops/interpreter.h"

namespace lathe::cpu {
namespace {

// Calls f(logical index, stored index) for all elements of a linear or channels-last tensor.
template <class F>
void each_place(const Extents& extents, const Format& format, const F& f) {
  const int64_t total = element_count(extents);
  int64_t spatial = 1, channels = 1;
  if (!format.is_linear()) {
    channels = extents[1];
    for (size_t d = 2; d < extents.size(); ++d) spatial *= extents[d];
  }
  for (int64_t i = 0; i < total; ++i) {
    const int64_t s = i % spatial, c = i / spatial % channels, n = i / spatial / channels;
    f(i, format.is_linear() ? i : (n * spatial + s) * channels + c);
  }
}

std::vector<std::byte> stored(const Tensor& tensor, const Format& format) {
  std::vector<std::byte> bytes(tensor.bytes().size());
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype(), 1));
  each_place(tensor.extents(), format, [&](int64_t i, int64_t at) {
    std::memcpy(bytes.data() + static_cast<size_t>(at) * size,
                tensor.bytes().data() + static_cast<size_t>(i) * size, size);
  });
  return bytes;
}

Tensor loaded(const std::byte* bytes, DType dtype, const Extents& extents, const Format& format) {
  Tensor tensor = Tensor::allocate(dtype, extents);
  const auto size = static_cast<size_t>(dtype_bytes(dtype, 1));
  each_place(extents, format, [&](int64_t i, int64_t at) {
    std::memcpy(tensor.mutable_bytes().data() + static_cast<size_t>(i) * size,
                bytes + static_cast<size_t>(at) * size, size);
  });
  return tensor;
}

class GridProblem {
 public:
  explicit GridProblem(const std::string& text) : graph_(parse_graph(text)) {
    verify_graph(graph_);
    round_constants();
    std::mt19937 random(7);
    for (const ValueId id : node().inputs)
      numbers_.push_back(id == kNoValue || graph_.value(id).is_constant() ? Tensor() : numbers(id, random));
  }

  const Node& node() const { return graph_.node(graph_.order()[0]); }
  LayerQuery query() const { return {graph_, graph_.order()[0], ranges_}; }
  const Value& result() const { return graph_.value(node().outputs[0]); }
  Extents extents(ValueId id) const {
    return id == kNoValue ? Extents() : to_extents(graph_.value(id).shape);
  }

  // As the tactic reads it; of constants nothing.
  Tensor operand(const Tactic& tactic, size_t i) const {
    if (!numbers_[i] || tactic.inputs[i].dtype != DType::UInt8) return numbers_[i];
    return quantize(numbers_[i], *graph_.value(node().inputs[i]).quantization);
  }

  // What the oracle gives for these operands, in the tactic's type.
  Tensor expected(const Tactic& tactic) const {
    Graph graph = graph_;
    GraphEditor editor(graph);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < node().inputs.size(); ++i) {
      const ValueId id = node().inputs[i];
      const bool data = id != kNoValue && !graph_.value(id).is_constant();
      if (data) editor.set_type(id, tactic.inputs[i].dtype, tactic.inputs[i].format);
      inputs.push_back(data || id == kNoValue ? operand(tactic, i) : graph_.value(id).constant);
    }
    editor.set_type(node().outputs[0], tactic.outputs[0].dtype, tactic.outputs[0].format);
    return interpret_node(graph, graph.node(graph.order()[0]), inputs, {})[0];
  }

 private:
  Tensor numbers(ValueId id, std::mt19937& random) const {
    const Value& value = graph_.value(id);
    std::vector<double> values(static_cast<size_t>(element_count(to_extents(value.shape))));
    for (double& v : values) v = static_cast<double>(random() % 256);
    if (value.quantization) {
      const Tensor bytes = Tensor::from_doubles(DType::UInt8, to_extents(value.shape), values);
      return dequantize(bytes, *value.quantization);
    }
    for (double& v : values) v = (v - 128) / 32;
    return Tensor::from_doubles(value.dtype, to_extents(value.shape), values);
  }

  // Random weights are on their grid afterwards. (Those of blocks of four bits have no type to come back from.)
  void round_constants() {
    GraphEditor editor(graph_);
    for (const ValueId input : node().inputs) {
      if (input == kNoValue || !graph_.value(input).is_constant()) continue;
      const Value value = graph_.value(input);
      if (!value.quantization) continue;
      Quantization grid = *value.quantization;
      const Tensor integers = quantize(value.constant, grid);
      grid.dtype = integers.dtype();
      editor.set_constant(input, dequantize(integers, grid));
      editor.set_quantization(input, value.quantization);
    }
  }

  Graph graph_;
  SymbolRanges ranges_;
  std::vector<Tensor> numbers_;
};

// The last step of the layer's program, where it rounds.
double step_of(const Node& node) {
  const auto* chain = std::get_if<PointwiseChain>(&node.op);
  const PointwiseProgram& program = chain ? chain->program : node.epilogue;
  const bool rounds = !program.empty() && program.steps.back().code == PointwiseCode::RoundTo;
  return rounds ? static_cast<double>(program.steps.back().alpha) : 0;
}

void compare(const GridProblem& p, const Tensor& got, const Tensor& expected, const std::string& name) {
  ASSERT_EQ(got.size(), expected.size());
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  double largest = 0;
  for (const double x : b) largest = std::max(largest, std::abs(x));
  const bool bytes = got.dtype() == DType::UInt8;
  const double step = bytes ? 1 : step_of(p.node()), rounding = bytes ? 0 : 2e-6 * largest;
  int64_t steps = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    ASSERT_LE(difference, step + rounding) << name << ": element " << i << " is " << a[i] << ", not " << b[i];
    steps += difference > rounding;
  }
  EXPECT_LE(steps, 1 + got.size() / 200) << name << ": so many differ by a step";
}

void run_tactic(const TacticFamily& family, const GridProblem& p, const Tactic& tactic,
                const Machine& machine, const std::string& name) {
  MemoryBlobStore blobs;
  const PackContext pack{blobs, "k"};
  const auto kernel = family.make(p.query(), tactic, machine, pack);
  const Tensor expected = p.expected(tactic);
  std::vector<std::vector<std::byte>> memory;
  for (size_t i = 0; i < p.node().inputs.size(); ++i) {
    const Tensor operand = p.operand(tactic, i);
    memory.push_back(operand ? stored(operand, tactic.inputs[i].format) : std::vector<std::byte>());
  }
  std::vector<int> places = tactic.in_place_inputs;
  places.push_back(-1);
  for (const int place : places)
    for (const int threads : {1, 2, 3}) {
      std::vector<Extents> inputs, outputs = {p.extents(p.node().outputs[0])};
      for (const ValueId id : p.node().inputs) inputs.push_back(p.extents(id));
      const SymbolValues symbols;
      const auto prepared = kernel->prepare({symbols, inputs, outputs, threads});
      std::vector<OperandMemory> operands;
      std::vector<const void*> in;
      for (const auto& bytes : memory) {
        operands.emplace_back(bytes, 64);
        in.push_back(bytes.empty() ? nullptr : operands.back().data());
      }
      const std::vector<std::byte> empty(expected.bytes().size(), std::byte{0xcd});
      OperandMemory result(empty, 64),
          scratch(std::vector<std::byte>(prepared->scratch_bytes(), std::byte{0xff}), 64);
      void* out = result.data();
      if (place >= 0) out = operands[static_cast<size_t>(place)].data();
      const LayerArgs args{in, {&out, 1}, scratch.data()};
      ThreadPool pool(threads);
      pool.run(prepared->members(threads),
               [&](const Worker& worker) { run_pieces(*prepared, args, worker); });
      compare(p,
              loaded(static_cast<const std::byte*>(out), expected.dtype(), expected.extents(),
                     tactic.outputs[0].format),
              expected, name + ", " + std::to_string(threads) + " threads");
      if (::testing::Test::HasFatalFailure()) return;
    }
}

bool packs_grid(const GridProblem& p, const Tactic& tactic, size_t input) {
  const ValueId id = p.node().inputs[input];
  return id != kNoValue && tactic.inputs[input].dtype == DType::Undefined &&
         p.query().graph.value(id).quantization;
}

// A value as bytes, or weights as whatever the tactic packs.
bool stores_integers(const GridProblem& p, const Tactic& tactic) {
  const auto is_byte = [&](ValueId id, const TensorType& type) {
    return id != kNoValue && type.dtype == DType::UInt8 && p.query().graph.value(id).quantization;
  };
  bool any = is_byte(p.node().outputs[0], tactic.outputs[0]);
  for (size_t i = 0; i < p.node().inputs.size(); ++i)
    any = any || is_byte(p.node().inputs[i], tactic.inputs[i]) || packs_grid(p, tactic, i);
  return any;
}

// This machine's kernels from the least on, then those in software.
std::vector<std::pair<std::string, Machine>> machines() {
  const CpuInfo info = read_cpu_info();
  std::vector<std::pair<std::string, Machine>> all;
  for (const Isa isa : {Isa::Avx2, Isa::Avx512, Isa::Amx}) {
    Machine machine = make_machine(info, isa, 3);
    if (all.empty() || !(machine.features == all.back().second.features))
      all.emplace_back(machine.integers->name, machine);
  }
  Machine machine = make_machine(info, Isa::Avx2, 3);
  machine.integers = &emulated_quads();
  machine.integer_tiles = &emulated_tiles();
  all.emplace_back("emulated", machine);
  return all;
}

}  // namespace

std::vector<std::string> check_grids(const TacticFamily& family, const std::string& graph) {
  const GridProblem p(graph);
  std::vector<std::string> ran;
  for (const auto& [kernels, machine] : machines())
    for (const Tactic& tactic : family.list(p.query(), machine)) {
      if (!tactic.support.ok || !stores_integers(p, tactic)) continue;
      EXPECT_NE(tactic.outputs[0].format.kind, Format::Kind::ChannelBlocked) << describe(tactic);
      ran.push_back(describe(tactic) + " [" + kernels + "]");
      run_tactic(family, p, tactic, machine, ran.back());
    }
  return ran;
}

std::vector<std::string> grid_refusals(const TacticFamily& family, const std::string& graph) {
  const GridProblem p(graph);
  std::vector<std::string> reasons;
  for (const Tactic& t : family.list(p.query(), make_machine(read_cpu_info(), Isa::Avx2, 1)))
    if (!t.support.ok) reasons.push_back(describe(t) + ": " + t.support.reason);
  return reasons;
}

int64_t count_with(const std::vector<std::string>& descriptions, std::string_view part) {
  return std::count_if(descriptions.begin(), descriptions.end(),
                       [&](const std::string& d) { return d.find(part) != std::string::npos; });
}

}  // namespace lathe::cpu
