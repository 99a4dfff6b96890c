// SPDX-License-Identifier: Apache-2.0
//
// Every tactic that is offered for the layers of bench/problems fits the GPUs that tests/devices/ describes,
// and generated kernels compile for each of them. No GPU is needed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "backend/check/layer_case.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/run/cuda_backend.h"
#include "base/file.h"
#include "bench/problem.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cuda {
namespace {

std::vector<std::string> described_gpus() {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator("tests/devices"))
    if (file.path().filename().string().starts_with("sm_")) files.push_back(file.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::shared_ptr<const Device> describe(const std::string& path) {
  return describe_device(DeviceProperties::from_json(read_file(path), path));
}

// The layers of the recipes, and those that vary them, each in its other types, too.
const std::vector<bench::Problem>& problems() {
  static const std::vector<bench::Problem> all = [] {
    std::vector<bench::Problem> read;
    for (const char* list : {"recipes.txt", "kernels_gpu.txt"}) {
      std::ifstream file(std::string("bench/problems/") + list);
      for (std::string line; std::getline(file, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        for (std::string word; words >> word;) {
          read.push_back(bench::parse_problem(word));
          GraphEditor(read.back().graph)
              .set_allowed_types(read.back().node, {DType::Float16, DType::BFloat16});
        }
      }
    }
    return read;
  }();
  return all;
}

// Which asks a GPU that is there.
bool is_of_library(const TacticFamily& family) {
  return family.runner == "CudnnConvolution" || family.runner == "CublasLt";
}

void expect_fits(const KernelSource& kernel, const DeviceProperties& gpu) {
  EXPECT_LE(kernel.shared_bytes, gpu.shared_bytes_per_block);
  EXPECT_LE(kernel.threads, 1024);
  EXPECT_TRUE(kernel.cluster == 1 || (gpu.has_clusters() && kernel.cluster <= (gpu.is_hopper() ? 16 : 8)))
      << kernel.cluster;
  const int resident = std::max(kernel.resident, 1);
  EXPECT_LE(resident * kernel.threads, gpu.threads_per_multiprocessor);
  EXPECT_LE(resident * (kernel.shared_bytes + 1024), gpu.shared_bytes_per_multiprocessor);
  // The compiler keeps within what is left for each thread: below 24 it spills.
  EXPECT_GE(gpu.registers_per_multiprocessor / (resident * kernel.threads), 24);
}

// One name for the same parameters, and other parameters for another name: of the tactics of a layer with the
// same types.
void expect_unique_names(const std::vector<Tactic>& tactics) {
  std::map<std::string, std::string> name_of, params_of;
  for (const Tactic& t : tactics) {
    if (!t.support.ok) continue;
    std::string types = t.runner, params;
    for (const auto* list : {&t.inputs, &t.outputs})
      for (const TensorType& type : *list) types += " " + to_string(type);
    for (const auto& [name, value] : t.params.entries()) params += " " + name + "=" + std::to_string(value);
    EXPECT_TRUE(name_of.emplace(types + params, t.name).second) << t.name << params << " is listed twice";
    EXPECT_TRUE(params_of.emplace(types + " " + t.name, params).second)
        << t.name << " has also other parameters";
  }
}

TEST(DescribedGpus, AreSixArchitectures) {
  std::set<std::pair<int, int>> capabilities;
  for (const std::string& path : described_gpus()) {
    const auto device = describe(path);
    const DeviceProperties& gpu = device->properties;
    capabilities.emplace(gpu.major, gpu.minor);
    const DeviceModel model = gpu.model();
    EXPECT_EQ(model.units, gpu.multiprocessors);
    EXPECT_GT(model.ops_per_ns(DType::Float16), model.ops_per_ns(DType::Float32)) << path;
    // L2 is faster than memory, and memory as fast as the maker says (300 to 8,200 GB/s).
    EXPECT_GT(model.bytes_per_ns(1e6), model.bytes_per_ns(1e9)) << path;
    EXPECT_GE(model.bytes_per_ns(1e9), 295) << path;
    EXPECT_LE(model.bytes_per_ns(1e9), 8300) << path;
  }
  EXPECT_EQ(capabilities, (std::set<std::pair<int, int>>{{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}));
}

TEST(DescribedGpus, EveryTacticFits) {
  std::map<std::string, int> kernels;  // by GPU
  for (const std::string& path : described_gpus()) {
    const auto device = describe(path);
    SCOPED_TRACE(path);
    const SymbolRanges ranges;
    for (const bench::Problem& problem : problems()) {
      SCOPED_TRACE(problem.text);
      const LayerQuery query{problem.graph, problem.node, ranges};
      for (const TacticFamily& family : tactic_families()) {
        if (is_of_library(family)) continue;
        const std::vector<Tactic> tactics = family.list(query, *device);
        expect_unique_names(tactics);
        for (const Tactic& tactic : tactics) {
          if (!tactic.support.ok || family.sources == nullptr) continue;
          SCOPED_TRACE(tactic.name);
          for (const KernelSource& kernel : family.sources(query, tactic, *device)) {
            expect_fits(kernel, device->properties);
            ++kernels[path];
          }
        }
      }
    }
  }
  ASSERT_EQ(kernels.size(), 6u);
  for (const auto& [path, count] : kernels) EXPECT_GT(count, 500) << path;
}

// 128 x 128 x 64 needs 110,592 bytes of shared memory.
TEST(DescribedGpus, LargeTilesAreOfferedOnlyWhereTheyFit) {
  std::map<std::string, bool> offered;
  for (const std::string& path : described_gpus()) {
    const auto device = describe(path);
    const SymbolRanges ranges;
    bool& found = offered[device->properties.name];
    for (const bench::Problem& problem : problems())
      for (const TacticFamily& family : tactic_families())
        if (family.runner == "ImplicitGemm")
          for (const Tactic& t : family.list({problem.graph, problem.node, ranges}, *device))
            found = found || t.name.starts_with("cuda_gemm_mma_128x128x64_");
  }
  EXPECT_TRUE(offered["NVIDIA A100-SXM4-80GB"]);
  EXPECT_FALSE(offered["NVIDIA A10"]);
  EXPECT_FALSE(offered["NVIDIA L4"]);
  EXPECT_FALSE(offered["NVIDIA GeForce RTX 5090"]);
}

TEST(DescribedGpus, GeneratedKernelsCompileForEach) {
  if (describe(described_gpus().at(0))->libraries->nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not there";
  const SymbolRanges ranges;
  for (const std::string& path : described_gpus()) {
    const auto device = describe(path);
    SCOPED_TRACE(path);
    std::set<std::string_view> compiled;  // families
    for (const char* text : {"conv:n1c64h14k64r3,f16,relu", "attention:b1h2s128d64,f16", "softmax:m64n128"}) {
      bench::Problem problem = bench::parse_problem(text);
      GraphEditor(problem.graph).set_allowed_types(problem.node, {DType::Float16});
      const LayerQuery query{problem.graph, problem.node, ranges};
      for (const TacticFamily& family : tactic_families()) {
        if (family.sources == nullptr || family.runner == "CudnnConvolution") continue;
        for (const Tactic& tactic : family.list(query, *device)) {
          if (!tactic.support.ok || !compiled.insert(family.runner).second) continue;
          for (const KernelSource& kernel : family.sources(query, tactic, *device))
            EXPECT_NO_THROW(compile_source(*device, kernel.entry, kernel.source)) << tactic.name;
        }
      }
    }
    EXPECT_EQ(compiled.contains("HopperConvolution"), device->properties.is_hopper());
    for (const char* family : {"ImplicitGemm", "Attention", "SoftMax"})
      EXPECT_TRUE(compiled.contains(family)) << family;
  }
}

// How many rows there are is known when NonZero has run: no family may ask for more than their most.
TEST(DescribedGpus, ListTacticsForSizesThatARunFinds) {
  Graph graph;
  GraphEditor editor(graph);
  const auto constant = [&](const std::string& name, const Extents& extents) {
    return editor.add_constant(
        name, Tensor::from_doubles(DType::Float32, extents,
                                   std::vector<double>(static_cast<size_t>(element_count(extents)), 0.5)));
  };
  const auto append = [&](const std::string& name, Op op, std::vector<ValueId> inputs, size_t outputs = 1) {
    const auto results = append_node(editor, name, std::move(op), std::move(inputs), {}, {}, outputs);
    editor.mark_output(results[0]);
    return results[0];
  };
  const ValueId which = editor.add_input("which", DType::Bool, to_shape({64}));
  const ValueId found = append("found", NonZero{}, {which});
  const ValueId rows = append("rows", Gather{0}, {constant("table", {64, 192}), found});  // [1, count, 192]
  const Dim count = graph.value(rows).shape[1];
  append("mean", Reduce{.kind = ReduceKind::Mean, .axes = Ints{2}}, {rows});
  append("most", Reduce{.kind = ReduceKind::Max, .axes = Ints{1}}, {rows});
  append("product", MatMul{}, {rows, constant("weights", {192, 64})});
  const ValueId images = append("images", ReshapeOp{.shape = Shape{count, Dim(3), Dim(8), Dim(8)}}, {rows});
  append(
      "conv",
      Conv{
          .kernel = {3, 3}, .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
      {images, constant("filters", {64, 3, 3, 3})});
  const ValueId steps = append("steps", ReshapeOp{.shape = Shape{count, Dim(1), Dim(192)}}, {rows});
  append("lstm", LSTM{}, {steps, constant("w", {256, 192}), constant("r", {256, 64})}, 3);
  const SymbolRanges ranges;
  for (const std::string& path : described_gpus()) {
    const auto device = describe(path);
    for (const NodeId node : graph.order())
      for (const TacticFamily& family : tactic_families()) {
        if (is_of_library(family)) continue;
        EXPECT_NO_THROW(family.list({graph, node, ranges}, *device))
            << path << ", " << family.runner << ", " << graph.node(node).name;
      }
  }
}

// Layers that bench/problems has no words for: of sequences, samples of images, random numbers, matrices.
std::vector<LayerCase> other_layers() {
  const auto recurrent = [](Op op, int64_t gates, int64_t hidden) {
    const int64_t rows = gates * hidden;
    return LayerCase{.op = std::move(op),
                     .inputs = {{.extents = {4, 3, 40}},
                                {.extents = {rows, 40}, .constant = true},
                                {.extents = {rows, hidden}, .constant = true},
                                {.extents = {2 * rows}, .constant = true}},
                     .outputs = gates == 4 ? size_t{3} : size_t{2},
                     .allowed_types = {DType::Float16}};
  };
  return {
      recurrent(LSTM{}, 4, 256),
      recurrent(GRU{}, 3, 256),
      recurrent(RNN{}, 1, 300),
      {.op = LinearAttention{.rule = LinearAttentionRule::Linear, .q_heads = 2, .kv_heads = 2},
       .inputs = {{.extents = {1, 4, 256}}, {.extents = {1, 4, 256}}, {.extents = {1, 4, 128}}},
       .outputs = 2},
      {.op = GridSample{ResizeMode::Cubic}, .inputs = {{.extents = {1, 3, 8, 8}}, {.extents = {1, 4, 4, 2}}}},
      {.op = RoiAlign{.output_height = 7, .output_width = 7},
       .inputs = {{.extents = {1, 16, 20, 20}},
                  {.extents = {5, 4}},
                  {.dtype = DType::Int64, .extents = {5}, .low = 0, .high = 0.5}}},
      {.op = DeformConv{.kernel = {3, 3}},
       .inputs = {{.extents = {1, 4, 6, 6}}, {.extents = {8, 4, 3, 3}}, {.extents = {1, 18, 4, 4}}}},
      {.op = RandomNormal{.shape = to_shape(Extents{100})}, .inputs = {}},
      {.op = Inverse{}, .inputs = {{.extents = {5, 4, 4}}}}};
}

TEST(DescribedGpus, OtherLayersFitAndCompileForEach) {
  for (const std::string& path : described_gpus()) {
    const auto device = describe(path);
    SCOPED_TRACE(path);
    std::set<std::string> compiled;  // families and types
    for (const LayerCase& layer : other_layers()) {
      const LayerProblem problem = make_problem(layer);
      int supported = 0;
      for (const TacticFamily& family : tactic_families()) {
        if (family.sources == nullptr) continue;
        const std::vector<Tactic> tactics = family.list(problem.query(), *device);
        expect_unique_names(tactics);
        for (const Tactic& tactic : tactics) {
          if (!tactic.support.ok) continue;
          SCOPED_TRACE(tactic.name);
          ++supported;
          const bool first =
              compiled.insert(tactic.runner + lathe::describe(tactic).substr(tactic.name.size())).second;
          for (const KernelSource& kernel : family.sources(problem.query(), tactic, *device)) {
            expect_fits(kernel, device->properties);
            if (first && device->libraries->nvrtc != nullptr) {
              EXPECT_NO_THROW(compile_source(*device, kernel.entry, kernel.source));
            }
          }
        }
      }
      EXPECT_GT(supported, 0) << op_name(layer.op);
    }
  }
}

}  // namespace
}  // namespace lathe::cuda
