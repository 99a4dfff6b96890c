// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>

#include "backend/cpu/run/cpu_backend.h"
#include "base/error.h"
#include "ir/edit.h"
#include "ops/build.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

class TestBlobStore final : public BlobStore {
 public:
  std::span<const std::byte> find(const std::string& key) const override {
    const auto found = blocks_.find(key);
    return found == blocks_.end() ? std::span<const std::byte>{} : std::span<const std::byte>(found->second);
  }
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override {
    return blocks_.insert_or_assign(key, std::move(bytes)).first->second;
  }

 private:
  std::map<std::string, std::vector<std::byte>> blocks_;
};

Tensor ramp(const Extents& extents, double start, double step) {
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + step * static_cast<double>(i % 17);
  return Tensor::from_doubles(DType::Float32, extents, values);
}

// First supported tactic in linear format for each node; every value at its own place in the arena.
ProgramSpec plain_spec(std::shared_ptr<const Graph> graph, const Backend& backend,
                       const SymbolRanges& ranges) {
  ProgramSpec spec{.graph = graph, .ranges = ranges, .blobs = std::make_shared<TestBlobStore>()};
  for (const NodeId node : graph->order()) {
    for (const Tactic& tactic : backend.tactics({*graph, node, ranges})) {
      bool plain = tactic.support.ok && !tactic.is_view;
      for (size_t i = 0; i < tactic.inputs.size(); ++i) {
        const ValueId id = graph->node(node).inputs[i];
        const TensorType& type = tactic.inputs[i];
        plain = plain && (type.dtype == DType::Undefined ||
                          (type.format.is_linear() && type.dtype == graph->value(id).dtype));
      }
      for (const TensorType& type : tactic.outputs) plain = plain && type.format.is_linear();
      for (size_t i = 0; i < tactic.outputs.size(); ++i)
        plain = plain && (graph->node(node).outputs[i] == kNoValue ||
                          tactic.outputs[i].dtype == graph->value(graph->node(node).outputs[i]).dtype);
      if (!plain) continue;
      spec.choices.push_back({tactic, 0});
      break;
    }
  }
  SymbolValues max;
  for (const auto& [name, range] : ranges) max.emplace(name, range.max);
  spec.memory.placements.resize(graph->value_count());
  for (size_t v = 0; v < graph->value_count(); ++v) {
    const Value& value = graph->value(static_cast<ValueId>(v));
    Placement& placement = spec.memory.placements[v];
    if (value.is_constant()) {
      placement.kind = Placement::Kind::Constant;
      continue;
    }
    placement = {.kind = Placement::Kind::Arena, .offset = spec.memory.arena_bytes};
    int64_t bytes = dtype_info(value.dtype).bits / 8;
    SymbolRanges at_max;
    for (const auto& [name, m] : max) at_max.emplace(name, SymbolRange{m, m, m});
    for (const Dim& dim : value.shape) bytes *= dim.bounds(at_max).high;
    spec.memory.arena_bytes += (bytes + 63) / 64 * 64;
  }
  int binding = 0;
  for (const auto& list : {graph->inputs(), graph->outputs()})
    for (const ValueId v : list)
      spec.memory.placements[static_cast<size_t>(v)] = {.kind = Placement::Kind::Binding,
                                                        .binding = binding++};
  return spec;
}

struct Fixture {
  std::shared_ptr<ThreadPool> pool = std::make_shared<ThreadPool>(2);
  std::unique_ptr<Backend> backend = create_cpu_backend({}, pool);
};

// y = relu(x w) + x w2, with a dynamic batch.
std::shared_ptr<Graph> small_graph() {
  auto graph = std::make_shared<Graph>();
  GraphEditor editor(*graph);
  const ValueId x = editor.add_input("x", DType::Float32, {Dim::symbol("n"), 24});
  const ValueId w = editor.add_constant("w", ramp({24, 32}, -0.5, 0.0625));
  const ValueId w2 = editor.add_constant("w2", ramp({24, 32}, 0.5, -0.03125));
  const ValueId a = append_node(editor, "a", MatMul{}, {x, w}, {})[0];
  const ValueId r = append_node(editor, "r", Pointwise{PointwiseCode::Relu}, {a}, {})[0];
  const ValueId b = append_node(editor, "b", MatMul{}, {x, w2}, {})[0];
  editor.mark_output(append_node(editor, "y", Pointwise{PointwiseCode::Add}, {r, b}, {})[0]);
  return graph;
}

std::vector<Tensor> interpret(const Graph& graph, const std::vector<Tensor>& inputs,
                              const SymbolValues& symbols) {
  std::vector<Tensor> values(graph.value_count());
  for (size_t v = 0; v < values.size(); ++v) values[v] = graph.value(static_cast<ValueId>(v)).constant;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(graph.inputs()[i])] = inputs[i];
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> operands;
    for (const ValueId in : node.inputs)
      operands.push_back(in == kNoValue ? Tensor{} : values[static_cast<size_t>(in)]);
    const auto results =
        evaluate_node(node, {.inputs = operands, .output_count = node.outputs.size(), .symbols = &symbols},
                      graph.value(node.outputs[0]).dtype);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      values[static_cast<size_t>(node.outputs[i])] = results[i];
  }
  std::vector<Tensor> outputs;
  for (const ValueId out : graph.outputs()) outputs.push_back(values[static_cast<size_t>(out)]);
  return outputs;
}

void expect_near(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.extents(), wanted.extents());
  const auto a = got.to_doubles(), b = wanted.to_doubles();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i]))) << "element " << i;
}

TEST(CpuProgram, RunsAtSeveralShapesAndKeepsThem) {
  Fixture f;
  const auto graph = small_graph();
  const SymbolRanges ranges = {{"n", {1, 4, 64}}};
  const auto program = f.backend->compile(plain_spec(graph, *f.backend, ranges));
  const auto execution = program->create_execution();
  const auto stream = f.backend->create_stream();
  for (const int64_t n : {4, 1, 64, 4, 7, 8, 9, 10, 11, 12, 13, 14, 4}) {
    const Tensor x = ramp({n, 24}, -1.0, 0.125);
    Tensor y = Tensor::allocate(DType::Float32, {n, 32});
    execution->set_shapes({{"n", n}});
    void* bindings[] = {const_cast<std::byte*>(x.bytes().data()), y.mutable_bytes().data()};
    execution->run(bindings, *stream);
    expect_near(y, interpret(*graph, {x}, {{"n", n}})[0]);
    EXPECT_EQ(execution->extents(graph->outputs()[0]), (Extents{n, 32}));
  }
}

TEST(CpuProgram, ContextsRunOnTheirOwnThreads) {
  Fixture f;
  const auto graph = small_graph();
  const auto program = f.backend->compile(plain_spec(graph, *f.backend, {{"n", {1, 64, 64}}}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto execution = program->create_execution();
      const auto stream = f.backend->create_stream();
      for (int i = 0; i < 20; ++i) {
        const int64_t n = 1 + (i * 7 + t * 13) % 64;
        const Tensor x = ramp({n, 24}, -1.0 + t, 0.125);
        Tensor y = Tensor::allocate(DType::Float32, {n, 32});
        execution->set_shapes({{"n", n}});
        void* bindings[] = {const_cast<std::byte*>(x.bytes().data()), y.mutable_bytes().data()};
        execution->run(bindings, *stream);
        expect_near(y, interpret(*graph, {x}, {{"n", n}})[0]);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(CpuProgram, ProfiledAndObservedRunsGiveTheSameResult) {
  Fixture f;
  const auto graph = small_graph();
  const auto program = f.backend->compile(plain_spec(graph, *f.backend, {{"n", {1, 4, 64}}}));
  const auto execution = program->create_execution();
  const auto stream = f.backend->create_stream();
  const Tensor x = ramp({4, 24}, -1.0, 0.125);
  const Tensor wanted = interpret(*graph, {x}, {{"n", 4}})[0];
  execution->set_shapes({{"n", 4}});
  Tensor y = Tensor::allocate(DType::Float32, {4, 32});
  void* bindings[] = {const_cast<std::byte*>(x.bytes().data()), y.mutable_bytes().data()};
  std::vector<double> times(graph->order().size(), -1.0);
  execution->run_profiled(bindings, *stream, times);
  expect_near(y, wanted);
  for (const double t : times) EXPECT_GE(t, 0.0);

  std::memset(y.mutable_bytes().data(), 0, y.bytes().size());
  std::vector<size_t> order;
  Tensor relu;
  execution->run_observed(bindings, *stream,
                          {.before = [&](size_t layer) { order.push_back(layer); },
                           .after =
                               [&](size_t layer) {
                                 if (layer == 1)
                                   relu = execution->read(graph->node(graph->order()[1]).outputs[0]);
                               }});
  expect_near(y, wanted);
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
  ASSERT_TRUE(static_cast<bool>(relu));
  EXPECT_EQ(relu.extents(), (Extents{4, 32}));
  for (const double v : relu.to_doubles()) EXPECT_GE(v, 0.0);
}

// Positions of the non-zero elements, and a cast behind them whose shape depends on the data.
TEST(CpuProgram, DataDependentShapesGrowAndShrink) {
  Fixture f;
  auto graph = std::make_shared<Graph>();
  GraphEditor editor(*graph);
  const ValueId x = editor.add_input("x", DType::Float32, {Dim::symbol("n"), 4});
  const ValueId positions = append_node(editor, "where", NonZero{}, {x}, {})[0];
  const ValueId floats = append_node(editor, "floats", Cast{DType::Float32}, {positions}, {})[0];
  const ValueId y = append_node(editor, "y", Pointwise{PointwiseCode::Neg}, {floats}, {})[0];
  editor.mark_output(y);
  const auto program = f.backend->compile(plain_spec(graph, *f.backend, {{"n", {1, 4, 8}}}));
  const auto execution = program->create_execution();
  const auto stream = f.backend->create_stream();
  for (const auto& [n, every] :
       std::vector<std::pair<int64_t, size_t>>{{4, 3}, {8, 1}, {4, 3}, {1, 100}, {4, 2}}) {
    std::vector<float> values(static_cast<size_t>(n * 4));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % every == every - 1 ? 1.0f : 0.0f;
    const Tensor input = Tensor::from<float>({n, 4}, values);
    Tensor room = Tensor::allocate(DType::Float32, {2, n * 4});
    execution->set_shapes({{"n", n}});
    EXPECT_EQ(execution->extents(y), (Extents{2, n * 4}));  // the upper bound, before the run
    void* bindings[] = {const_cast<std::byte*>(input.bytes().data()), room.mutable_bytes().data()};
    execution->run(bindings, *stream);
    const Tensor wanted = interpret(*graph, {input}, {{"n", n}})[0];
    ASSERT_EQ(execution->extents(y), wanted.extents());
    const auto bytes = room.bytes().first(wanted.bytes().size());
    expect_near(Tensor::wrap(DType::Float32, wanted.extents(), bytes, nullptr), wanted);
  }
}

TEST(CpuProgram, ErrorsAtRunTimeNameTheLayer) {
  Fixture f;
  auto graph = std::make_shared<Graph>();
  GraphEditor editor(*graph);
  const ValueId x = editor.add_input("x", DType::Float32, {4, 4});
  const ValueId i = editor.add_input("i", DType::Int64, {2, 1});
  editor.mark_output(append_node(editor, "pick", GatherND{}, {x, i}, {})[0]);
  const auto program = f.backend->compile(plain_spec(graph, *f.backend, {}));
  const auto execution = program->create_execution();
  const auto stream = f.backend->create_stream();
  execution->set_shapes({});
  const Tensor input = ramp({4, 4}, 0, 1);
  const Tensor indices = Tensor::from<int64_t>({2, 1}, {1, 99});
  Tensor out = Tensor::allocate(DType::Float32, {2, 4});
  void* bindings[] = {const_cast<std::byte*>(input.bytes().data()),
                      const_cast<std::byte*>(indices.bytes().data()), out.mutable_bytes().data()};
  try {
    execution->run(bindings, *stream);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("in layer 'pick'"), std::string::npos) << error.what();
  }
}

TEST(CpuBackend, TimesALayer) {
  Fixture f;
  const auto graph = small_graph();
  const SymbolRanges ranges = {{"n", {1, 64, 64}}};
  const LayerQuery query{*graph, graph->order()[0], ranges};
  for (const Tactic& tactic : f.backend->tactics(query)) {
    if (!tactic.support.ok || tactic.is_view) continue;
    const auto timed = f.backend->prepare_timing(query, tactic);
    for (int i = 0; i < 3; ++i) EXPECT_GT(timed->run_ms(), 0.0) << tactic.name;
  }
}

TEST(CpuProgram, WrongUseIsAnInternalError) {
  Fixture f;
  const auto graph = small_graph();
  const auto program = f.backend->compile(plain_spec(graph, *f.backend, {{"n", {1, 4, 64}}}));
  const auto execution = program->create_execution();
  const auto stream = f.backend->create_stream();
  void* bindings[] = {nullptr};
  EXPECT_THROW(execution->run(bindings, *stream), Error);
  execution->set_shapes({{"n", 4}});
  EXPECT_THROW(execution->run(bindings, *stream), Error);
}

TEST(CpuBackend, NamesItsTargetAndDevice) {
  Fixture f;
  const Target& target = f.backend->target();
  EXPECT_EQ(target.backend, "cpu");
  EXPECT_EQ(target.threads, 2);
  EXPECT_NE(target.key.find("onednn-"), std::string::npos);
  EXPECT_EQ(target.key.find("threads"), std::string::npos);  // another thread count is no other target
  const auto rows = f.backend->device_information();
  const auto row = [&](std::string_view key) {
    for (const auto& [name, value] : rows)
      if (name == key) return value;
    return std::string("none");
  };
  // What scripts read as numbers begins with one.
  for (const char* key :
       {"Compute Capability", "SMs", "Device Global Memory", "Shared Memory per SM", "Memory Bus Width",
        "Application Compute Clock Rate", "Application Memory Clock Rate"})
    EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(row(key)[0]))) << key << ": " << row(key);
  EXPECT_EQ(row("SMs"), "2");
  EXPECT_EQ(row("Selected Device ID"), "cpu");
  EXPECT_TRUE(f.backend->supports_compute_type(DType::Float32).ok);
  EXPECT_FALSE(f.backend->supports_compute_type(DType::Int8).ok);
}

TEST(CpuBackend, RefusesUnknownInstructionSets) {
  const auto pool = std::make_shared<ThreadPool>(1);
  try {
    create_cpu_backend({.isa_cap = "sse2"}, pool);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_NE(std::string(error.what()).find("avx512_bf16"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lathe::cpu
