// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan in CUDA graphs: one recording, launched with values that take other ways than those that
// were there when it was made. Where there is no GPU, what can be known without one.
#include <gtest/gtest.h>

#include "backend/cuda/device/conditional_nodes.h"
#include "backend/cuda/device/h200_check.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/device/recorded_graph.h"
#include "backend/cuda/device/stream.h"
#include "backend/cuda/run/body_kernels.h"
#include "ir/text.h"
#include "lathe_device_text/conditions.h"
#include "ops/build.h"
#include "ops/interpreter.h"

namespace lathe::cuda {
TacticFamily control_flow_tactics();
namespace {

// A choice in a choice; one branch gives what it captures, and another a constant.
constexpr std::string_view kChoice = R"(graph "g" {
  input %c: bool[]
  input %d: bool[]
  input %x: float32[2, 3]
  %y: float32[2, 3] = If "outer" (%c, %d, %x) {
    then_branch=graph "then" {
      input %d: bool[]
      input %x: float32[2, 3]
      %n: float32[2, 3] = Pointwise "neg" (%x) {code=Neg}
      %z: float32[2, 3] = If "inner" (%d, %n) {
        then_branch=graph "then" {
          input %n: float32[2, 3]
          %e: float32[2, 3] = Pointwise "double" (%n, %n) {code=Add}
          output %e
        },
        else_branch=graph "else" {
          input %n: float32[2, 3]
          output %n
        }}
      output %z
    },
    else_branch=graph "else" {
      input %d: bool[]
      input %x: float32[2, 3]
      const %k: float32[2, 3] = [1, 2, 3, 4, 5, 6]
      output %k
    }}
  output %y
})";

// Fibonacci's numbers, whose carried values change places; the iteration is carried, too, and so is the
// condition, which another iteration may find false.
constexpr std::string_view kWhile = R"(graph "g" {
  input %count: int64[]
  input %start: bool[]
  input %a: float32[2]
  input %b: float32[2]
  input %none: int64[]
  input %on: bool[]
  input %limit: float32[]
  %last: float32[2], %now: float32[2], %i: int64[], %still: bool[] = Loop "loop" (%count, %start, %a, %b, %none, %on, %limit) {
    body=graph "body" {
      input %i: int64[]
      input %go: bool[]
      input %a: float32[2]
      input %b: float32[2]
      input %before: int64[]
      input %on: bool[]
      input %limit: float32[]
      %sum: float32[2] = Pointwise "sum" (%a, %b) {code=Add}
      %all: float32[] = Reduce "all" (%sum) {kind=Sum, axes=[0], keepdims=false}
      %less: bool[] = Pointwise "less" (%all, %limit) {code=Less}
      output %on
      output %b
      output %sum
      output %i
      output %less
    }, carried=4}
  output %last
  output %now
  output %i
  output %still
})";

// A loop in a loop, and an If in that; the trip count of the inner one is a constant.
constexpr std::string_view kNested = R"(graph "g" {
  input %count: int64[]
  input %x: float32[4]
  input %odd: bool[]
  %y: float32[4] = Loop "outer" (%count, _, %x, %odd) {
    body=graph "body" {
      input %i: int64[]
      input %go: bool[]
      input %x: float32[4]
      input %odd: bool[]
      const %three: int64[] = [3]
      const %half: float32[] = [0.5]
      %s: float32[4], %all: float32[3, 4] = Loop "inner" (%three, _, %x, %odd, %half) {
        body=graph "body" {
          input %k: int64[]
          input %go: bool[]
          input %x: float32[4]
          input %odd: bool[]
          input %half: float32[]
          %h: float32[4] = Pointwise "half" (%x, %half) {code=Mul}
          %z: float32[4] = If "if" (%odd, %h) {
            then_branch=graph "then" { input %h: float32[4] %n: float32[4] = Pointwise "neg" (%h) {code=Neg} output %n },
            else_branch=graph "else" { input %h: float32[4] %a: float32[4] = Pointwise "tanh" (%h) {code=Tanh} output %a }}
          output %go
          output %z
          output %h
        }, carried=1}
      %sum: float32[4] = Reduce "sum" (%all) {kind=Sum, axes=[0], keepdims=false}
      %both: float32[4] = Pointwise "both" (%s, %sum) {code=Add}
      output %go
      output %both
    }, carried=1}
  output %y
})";

constexpr std::string_view kScan = R"(graph "g" {
  input %h: float32[3]
  input %x: float32[5, 3]
  %last: float32[3], %all: float32[5, 3] = Scan "scan" (%h, %x) {
    body=graph "body" {
      input %h: float32[3]
      input %x: float32[3]
      %s: float32[3] = Pointwise "sum" (%h, %x) {code=Add}
      %t: float32[3] = Pointwise "tanh" (%s) {code=Tanh}
      output %t
      output %s
    }, states=1, input_axes=[0], input_reversed=[1], output_axes=[0], output_reversed=[0]}
  output %last
  output %all
})";

Tensor flag(bool value) {
  return Tensor::from_doubles(DType::Bool, {}, std::vector<double>{value ? 1.0 : 0.0});
}
Tensor number(int64_t value) {
  return Tensor::scalar_i64(value);
}
Tensor floats(Extents extents, const std::vector<float>& values) {
  return Tensor::from<float>(std::move(extents), values);
}

struct Prepared {
  Graph graph;
  MemoryBlobStore blobs;
  SymbolRanges ranges;
  std::unique_ptr<LayerKernel> kernel;
  std::unique_ptr<PreparedLayer> layer;
};

std::unique_ptr<Prepared> prepare(std::string_view text, const Device& device) {
  auto p = std::make_unique<Prepared>();
  p->graph = parse_graph(text);
  verify_graph(p->graph);
  const LayerQuery query{p->graph, p->graph.order().at(0), p->ranges};
  const Tactic tactic = control_flow_tactics().list(query, device).at(0);
  EXPECT_TRUE(tactic.support.ok) << tactic.support.reason;
  p->kernel = control_flow_tactics().make(query, tactic, device, {p->blobs, "k"});
  static const SymbolValues none;
  p->layer = p->kernel->prepare(shape_context(query, none));
  return p;
}

std::string why_not(std::string_view text) {
  const Graph graph = parse_graph(text);
  return why_not_recorded(graph.node(graph.order().at(0)).op, {});
}

// Records with the first operands, and launches with each; results must be the reference's. Gives how many
// conditional nodes the graph has, at its top.
size_t check_recorded(std::string_view text, const std::vector<std::vector<Tensor>>& all_operands) {
  const auto device = gpu_at_hand();
  device->make_current();
  const auto p = prepare(text, *device);
  EXPECT_TRUE(p->layer->capturable().ok) << p->layer->capturable().reason;
  std::vector<DeviceMemory> memory;
  std::vector<const void*> from;
  std::vector<void*> to;
  const auto room = [&](ValueId id) {
    const Value& value = p->graph.value(id);
    memory.emplace_back(
        *device, static_cast<size_t>(dtype_bytes(value.dtype, element_count(evaluate(value.shape, {})))));
    return memory.back().data();
  };
  for (const ValueId input : p->graph.node(p->graph.order()[0]).inputs)
    from.push_back(input == kNoValue ? nullptr : room(input));
  for (const ValueId output : p->graph.node(p->graph.order()[0]).outputs) to.push_back(room(output));
  const auto put = [&](const std::vector<Tensor>& operands) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId id = p->graph.inputs()[i];
      const auto& inputs = p->graph.node(p->graph.order()[0]).inputs;
      const auto at = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), id) - inputs.begin());
      device->driver->require(
          device->driver->cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(from[at]), operands[i].bytes().data(),
                                       operands[i].bytes().size()),
          "operands");
    }
    device->driver->require(device->driver->cuCtxSynchronize(), "operands");
  };
  put(all_operands[0]);
  GpuStream stream(device), recorder(device);
  const LayerArgs args{.inputs = from, .outputs = to};
  const RecordedGraph recorded(*device, recorder.handle(), [&](CUstream s) { p->layer->enqueue(args, s); });
  for (const std::vector<Tensor>& operands : all_operands) {
    put(operands);
    recorded.launch(stream.handle());
    stream.synchronize();
    const std::vector<Tensor> right = interpret(p->graph, operands);
    for (size_t i = 0; i < right.size(); ++i) {
      Tensor there = Tensor::allocate(right[i].dtype(), right[i].extents());
      device->driver->require(
          device->driver->cuMemcpyDtoH(there.mutable_bytes().data(), reinterpret_cast<CUdeviceptr>(to[i]),
                                       there.bytes().size()),
          "results");
      const std::vector<double> a = there.to_doubles(), b = right[i].to_doubles();
      for (size_t k = 0; k < a.size(); ++k)
        EXPECT_NEAR(a[k], b[k], 1e-5 * std::max(1.0, std::abs(b[k]))) << "result " << i << " element " << k;
    }
  }
  return recorded.conditional_nodes();
}

TEST(RecordedBodies, TheGpuTakesABranch) {
  if (gpu_at_hand() == nullptr) {
    EXPECT_EQ(why_not(kChoice), "");
    return;
  }
  std::vector<std::vector<Tensor>> operands;
  for (const int ways : {0, 1, 2, 3, 1, 0})
    operands.push_back({flag((ways & 1) != 0), flag((ways & 2) != 0),
                        floats({2, 3}, {1, -2, 3, static_cast<float>(ways), 0.5f, -0.25f})});
  EXPECT_EQ(check_recorded(kChoice, operands), 1u);
}

TEST(RecordedBodies, TheGpuEndsALoop) {
  if (gpu_at_hand() == nullptr) {
    EXPECT_EQ(why_not(kWhile), "");
    return;
  }
  const auto run = [](int64_t trips, bool start, float limit) {
    return std::vector<Tensor>{number(trips), flag(start), floats({2}, {0, 1}), floats({2}, {1, 1}),
                               number(-7),    flag(true),  floats({}, {limit})};
  };
  EXPECT_EQ(check_recorded(kWhile, {run(3, true, 1e6f), run(0, true, 1e6f), run(10, false, 1e6f),
                                    run(20, true, 100), run(1, true, -1), run(25, true, 1e9f)}),
            1u);
}

TEST(RecordedBodies, LoopsAndBranchesInALoop) {
  if (gpu_at_hand() == nullptr) {
    EXPECT_EQ(why_not(kNested), "");
    return;
  }
  std::vector<std::vector<Tensor>> operands;
  for (const int64_t trips : {2, 0, 1, 7})
    for (const bool odd : {true, false})
      operands.push_back({number(trips), floats({4}, {0.1f, 0.2f, -0.3f, 0.4f}), flag(odd)});
  EXPECT_EQ(check_recorded(kNested, operands), 1u);
}

// The host knows how often: no node of the graph is conditional.
TEST(RecordedBodies, IterationsThatAreKnownStandOneBehindTheOther) {
  if (gpu_at_hand() == nullptr) {
    EXPECT_EQ(why_not(kScan), "");
    return;
  }
  std::vector<float> x(15);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i) - 0.6f;
  EXPECT_EQ(check_recorded(kScan, {{floats({3}, {0, 1, 2}), floats({5, 3}, x)},
                                   {floats({3}, {5, 1, -2}), floats({5, 3}, x)}}),
            0u);
}

TEST(RecordedBodies, SizesThatAreFoundKeepTheLayerApart) {
  EXPECT_EQ(why_not(R"(graph "g" {
  input %count: int64[]
  input %x: float32[2]
  %y: float32[loop.output0.dim0<=2147483647] = Loop "loop" (%count, _, %x) {
    body=graph "body" {
      input %i: int64[]
      input %go: bool[]
      input %x: float32[loop.carried0.dim0]
      %next: float32[2*loop.carried0.dim0] = Concat "grow" (%x, %x) {axis=0}
      output %go
      output %next
    }, carried=1}
  output %y
})"),
            "the size of 'next' is found while it runs");
}

TEST(RecordedBodies, AGpuThatIsOnlyDescribedSetsNoCondition) {
  const auto device = h200();
  if (device->libraries->nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not there";
  MemoryBlobStore blobs;
  EXPECT_EQ(ConditionalNodes(*device, blobs).support().reason, "the GPU is only described");
  const auto p = prepare(kScan, *device);
  EXPECT_EQ(p->layer->capturable().reason,
            "the host enqueues the bodies of 'scan' (Scan), because the GPU is only described");
  // Its kernel compiles; the driver of a GPU links it.
  EXPECT_FALSE(compile_source(*device, "set_condition", std::string(device_text::conditions::kSetCondition),
                              {"--relocatable-device-code=true"})
                   .empty());
}

}  // namespace
}  // namespace lathe::cuda
