// SPDX-License-Identifier: Apache-2.0
//
// The comparison of generated kernels with the oracle; see generated_check.h. (Named _test so that it belongs
// to the test program.) Kernels of a layer are compiled together by the host's compiler, each in a namespace
// of its own.
#include "backend/cuda/codegen/generated_check.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "backend/check/grid_case.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/device/h200_check.h"
#include "backend/cuda/device/libraries.h"
#include "base/error.h"
#include "base/file.h"
#include "ir/symbol_extents.h"
#include "ops/op_def.h"

namespace lathe::cuda {
namespace {

constexpr size_t kAlignment = 256;

// --- the emulator -----------------------------------------------------------------------------------------
class Emulator {
 public:
  Emulator()
      : folder_(std::filesystem::path(testing::TempDir()) / ("lathe_emulator_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    for (const char* header : {"shim.h", "hopper.h"})
      std::filesystem::copy_file(std::filesystem::path("src/backend/cuda/emulator") / header,
                                 folder_ / header, std::filesystem::copy_options::overwrite_existing);
    // Precompiled: most of the time would go into the standard headers.
    const std::string header = (folder_ / "shim.h").string();
    const std::string command = compiler() + " -x c++-header " + header + " -o " + header + ".pch";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  ~Emulator() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // launch_0, launch_1, ... of the given kernels.
  void* build(const std::vector<const KernelSource*>& kernels) {
    const std::string stem = (folder_ / ("k" + std::to_string(++count_))).string();
    std::ofstream file(stem + ".cpp");
    for (size_t i = 0; i < kernels.size(); ++i) {
      std::string text = kernels[i]->source.substr(kernels[i]->hardware_bytes);
      const std::string linkage = "extern \"C\" __global__";
      text.replace(text.find(linkage), linkage.size(), "__global__");
      file << "namespace k" << i << " {\n" << text << "}\n";
      file << "extern \"C\" int launch_" << i
           << "(void** args, const unsigned* grid, unsigned threads, unsigned cluster) { return "
           << "emulator::launch(k" << i << "::" << kernels[i]->entry
           << ", args, grid, threads, cluster); }\n";
    }
    file.close();
    const std::string command = compiler() + " -shared -o " + stem + ".so -include " +
                                (folder_ / "shim.h").string() + " " + stem + ".cpp";
    if (std::system(command.c_str()) != 0) {
      std::filesystem::copy_file(stem + ".cpp", "build/emulator_failed.cpp",
                                 std::filesystem::copy_options::overwrite_existing);
      return nullptr;
    }
    return dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }

 private:
  // Clang needs an eighth of GCC's time for these sources, and kernels run briefly: together less without
  // optimisation.
  static std::string compiler() { return "clang++-16 -std=c++20 -O0 -w -fPIC -ffp-contract=off"; }
  std::filesystem::path folder_;
  int count_ = 0;
};

// TensorMap of emulator/hopper.h.
struct alignas(64) EmulatedMap {
  int64_t base = 0;
  int rank = 0, bytes = 2, box[5] = {};
  long long extents[5] = {}, strides[5] = {};
  int first[2] = {}, last[2] = {}, steps[2] = {};
};

EmulatedMap emulated_map(const TensorView& view, int64_t base, const SymbolValues& symbols) {
  EmulatedMap map;
  map.base = base;
  map.rank = static_cast<int>(view.extents.size());
  map.bytes = dtype_size(view.type);
  for (size_t d = 0; d < view.box.size(); ++d) map.box[d] = view.box[d];
  for (size_t d = 0; d < view.extents.size(); ++d) {
    map.extents[d] = view.extents[d].evaluate(symbols);
    map.strides[d] = view.strides[d].evaluate(symbols);
  }
  for (size_t d = 0; d < 2 && view.windows; ++d) {
    map.first[d] = static_cast<int>(view.windows->first[d].evaluate(symbols));
    map.last[d] = static_cast<int>(view.windows->last[d].evaluate(symbols));
    map.steps[d] = view.windows->steps[d];
  }
  return map;
}

using Launch = int (*)(void** args, const unsigned* grid, unsigned threads, unsigned cluster);

// The layer's place for sizes that it finds, after a run.
using FoundSizes = std::map<std::string, int64_t>;

FoundSizes run_emulated(const SymbolValues& symbols, const Tactic& tactic, const LayerSource& layer,
                        void* library, size_t first, LayerBuffers& b) {
  std::vector<OperandMemory> inputs, outputs;
  for (const auto& x : b.inputs) inputs.emplace_back(x, kAlignment);
  for (const auto& x : b.outputs) outputs.emplace_back(x, kAlignment);
  std::map<std::string, OperandMemory> blocks;
  for (const auto& [name, block] : layer.blocks) {
    std::vector<std::byte> made = block.make();
    check(static_cast<int64_t>(made.size()) == block.bytes,
          "block '" + name + "' has another size than it says");
    blocks.emplace(name, OperandMemory(made, kAlignment));
  }
  const auto scratch_bytes = static_cast<size_t>(upper_extent(layer.scratch_bytes, symbols));
  const OperandMemory scratch(std::vector<std::byte>(scratch_bytes, std::byte{0xff}), kAlignment);
  for (size_t k = 0; k < layer.kernels.size(); ++k) {
    const KernelSource& kernel = layer.kernels[k];
    std::vector<int64_t> storage;
    for (const KernelArg& arg : kernel.args) {
      switch (arg.kind) {
        case KernelArg::Kind::Input:
          storage.push_back(reinterpret_cast<int64_t>(inputs.at(arg.index).data()));
          break;
        case KernelArg::Kind::Output:
          storage.push_back(reinterpret_cast<int64_t>(outputs.at(arg.index).data()));
          break;
        case KernelArg::Kind::Scratch:
          storage.push_back(reinterpret_cast<int64_t>(scratch.data() + upper_extent(arg.value, symbols)));
          break;
        case KernelArg::Kind::Packed:
          storage.push_back(reinterpret_cast<int64_t>(blocks.at(arg.block).data()));
          break;
        case KernelArg::Kind::Number:
          storage.push_back(upper_extent(arg.value, symbols));
          break;
        case KernelArg::Kind::Late:
          storage.push_back(0);
          break;
      }
    }
    std::vector<void*> args;
    for (int64_t& s : storage) args.push_back(&s);
    std::deque<EmulatedMap> maps;
    for (size_t i = 0; i < args.size(); ++i)
      if (kernel.args[i].view)
        args[i] = &maps.emplace_back(emulated_map(*kernel.args[i].view, storage[i], symbols));
    unsigned grid[3];
    for (size_t d = 0; d < 3; ++d) grid[d] = static_cast<unsigned>(upper_extent(kernel.grid[d], symbols));
    const auto launch =
        reinterpret_cast<Launch>(dlsym(library, ("launch_" + std::to_string(first + k)).c_str()));
    EXPECT_NE(launch, nullptr);
    if (launch == nullptr) return {};
    EXPECT_EQ(launch(args.data(), grid, static_cast<unsigned>(kernel.threads),
                     static_cast<unsigned>(kernel.cluster)),
              0)
        << describe(tactic) << ": " << kernel.entry
        << ": threads wait at a barrier for others that have left";
  }
  for (size_t i = 0; i < b.outputs.size(); ++i)
    if (!b.outputs[i].empty()) std::memcpy(b.outputs[i].data(), outputs[i].data(), b.outputs[i].size());
  FoundSizes found;
  for (size_t i = 0; i < layer.found.size(); ++i)
    std::memcpy(&found[layer.found[i]], scratch.data() + i * sizeof(int64_t), sizeof(int64_t));
  return found;
}

// --- the GPU ----------------------------------------------------------------------------------------------
FoundSizes run_on_gpu(const ShapeContext& context, const LayerSource& source, LayerBuffers& b) {
  const Device& device = *gpu_at_hand();
  device.make_current();
  MemoryBlobStore blobs;
  const auto kernel = make_generated_layer(source, device, {blobs, "k"});
  kernel->make_forms(device, blobs);
  const auto prepared = kernel->prepare(context);
  std::vector<DeviceMemory> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  const auto upload = [&](const std::vector<std::byte>& bytes) -> void* {
    if (bytes.empty()) return nullptr;
    memory.emplace_back(device, std::span<const std::byte>(bytes));
    return memory.back().data();
  };
  for (const auto& x : b.inputs) in.push_back(upload(x));
  for (const auto& x : b.outputs) out.push_back(upload(x));
  const DeviceMemory scratch(device, prepared->scratch_bytes() + 256);
  LayerArgs args{in, out, static_cast<std::byte*>(scratch.data())};
  const Driver& driver = *device.driver;
  CUstream stream = nullptr;
  driver.require(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a stream");
  driver.require(driver.cuMemsetD8Async(scratch.address(), 0xff, scratch.bytes(), stream), "poison");
  const auto run = [&] {
    prepared->enqueue(args, stream);
    driver.require(driver.cuStreamSynchronize(stream), "running a kernel");
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i])
        driver.require(driver.cuMemcpyDtoH(b.outputs[i].data(), reinterpret_cast<CUdeviceptr>(out[i]),
                                           b.outputs[i].size()),
                       "copying the result");
  };
  const auto empty = b.outputs;
  run();
  if (prepared->overlap().takes_order) {
    const auto alone = b.outputs;
    for (const LaunchPlace place : {LaunchPlace::Leads, LaunchPlace::Follows}) {
      for (size_t i = 0; i < out.size(); ++i)
        if (out[i])
          driver.require(driver.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(out[i]), empty[i].data(),
                                                  empty[i].size(), stream),
                         "poison");
      args.order = {.place = place};
      run();
      EXPECT_EQ(b.outputs, alone) << source.kernels[0].entry << " in another place";
    }
  }
  driver.cuStreamDestroy(stream);
  SymbolValues values;
  prepared->resolve(args, values);
  return {values.begin(), values.end()};
}

// The problem's symbols, and the sizes of its results.
SymbolValues with_sizes(const LayerProblem& p) {
  SymbolValues symbols = p.symbols;
  const Node& node = p.graph.node(p.node);
  for (size_t o = 0; o < p.expected.size(); ++o) {
    if (node.outputs[o] == kNoValue) continue;
    const Shape& shape = p.graph.value(node.outputs[o]).shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto name = shape[d].as_symbol()) symbols.emplace(*name, p.expected[o].extents()[d]);
  }
  return symbols;
}

// The sizes that a run found are those of the results.
void expect_found(const LayerProblem& p, const FoundSizes& found, const std::string& what) {
  const Node& node = p.graph.node(p.node);
  for (const auto& [name, size] : found)
    for (size_t o = 0; o < p.expected.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      const Shape& shape = p.graph.value(node.outputs[o]).shape;
      for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d].as_symbol() == name) {
          EXPECT_EQ(size, p.expected[o].extents()[d]) << what << ": " << name;
        }
    }
}

// What tactics are listed for: the GPU that is there, else an H200.
std::shared_ptr<const Device> described() {
  static const auto device =
      describe_device(DeviceProperties::from_json(read_file("tests/gpu/h200.json"), "tests/gpu/h200.json"));
  return gpu_at_hand() ? gpu_at_hand() : device;
}

// Where there is no GPU, each kernel is compiled twice and emulated, which takes many times what it takes to
// run it. So of what a test lists, the first tactic and every third are run, unless LATHE_TEST_ALL=1.
bool runs_all() {
  static const bool all = gpu_at_hand() || std::getenv("LATHE_TEST_ALL") != nullptr;
  return all;
}

bool is_run(size_t place) {
  return runs_all() || place % 3 == 0;
}

// Kernels compile for the GPU; those of one tactic and types differ little, so one of them stands for all (in
// short runs one of each tactic).
void compile_once(const std::shared_ptr<const Device>& device, const Tactic& tactic,
                  const LayerSource& source) {
  static std::set<std::string> seen;
  if (device->libraries->nvrtc == nullptr || !seen.insert(runs_all() ? describe(tactic) : tactic.name).second)
    return;
  for (const KernelSource& kernel : source.kernels) {
    compile_source(*device, kernel.entry, kernel.source);
    if (!kernel.overlap.takes_order) continue;
    for (const LaunchPlace place : {LaunchPlace::Leads, LaunchPlace::Follows})
      compile_source(*device, kernel.entry, kernel.source_for(place));
  }
}

}  // namespace

namespace {

// Null where there is a GPU.
Emulator* emulator() {
  static const auto made = gpu_at_hand() ? nullptr : std::make_unique<Emulator>();
  return made.get();
}

}  // namespace

int check_generated(const GeneratedFamily& family, const std::vector<LayerCase>& layers) {
  struct Run {
    size_t layer = 0;
    Tactic tactic;
    LayerSource source;
  };
  std::vector<LayerProblem> problems;
  std::vector<std::vector<LayerProblem>> specials;  // of each
  std::vector<Run> runs;
  size_t listed = 0;
  for (const LayerCase& layer : layers) {
    problems.push_back(make_problem(layer));
    const LayerProblem& p = problems.back();
    specials.push_back(special_problems(layer, p));
    const LayerQuery query = p.query();
    std::map<std::string, int> seen;  // per types
    for (const Tactic& tactic : family.list(query, *described()))
      if (tactic.support.ok &&
          (gpu_at_hand() || seen[describe(tactic).substr(tactic.name.size())]++ < layer.emulated) &&
          is_run(listed++))
        runs.push_back({problems.size() - 1, tactic, family.generate(query, tactic, *described())});
  }
  std::vector<const KernelSource*> kernels;
  for (const Run& run : runs)
    for (const KernelSource& k : run.source.kernels) kernels.push_back(&k);
  if (kernels.empty()) return 0;
  void* library = gpu_at_hand() ? nullptr : emulator()->build(kernels);
  if (library == nullptr && !gpu_at_hand()) {
    ADD_FAILURE() << "the sources do not compile: build/emulator_failed.cpp";
    return 0;
  }
  size_t first = 0;
  for (const Run& run : runs) {
    const LayerProblem& p = problems[run.layer];
    SCOPED_TRACE("case " + std::to_string(run.layer) + ": " +
                 std::string(op_display_name(layers[run.layer].op)));
    if (!gpu_at_hand()) compile_once(described(), run.tactic, run.source);
    const auto check_run = [&](const LayerProblem& problem) {
      LayerBuffers buffers = make_buffers(problem, run.tactic);
      // Sizes that the kernels do not find themselves are known before: they follow from values.
      const SymbolValues symbols = run.source.found.empty() ? with_sizes(problem) : problem.symbols;
      const FoundSizes found =
          gpu_at_hand()
              ? run_on_gpu({symbols, problem.input_extents(), problem.output_extents()}, run.source, buffers)
              : run_emulated(symbols, run.tactic, run.source, library, first, buffers);
      if (!run.source.found.empty()) {
        EXPECT_EQ(found.size(), found_names(problem.query()).size()) << describe(run.tactic);
      }
      expect_found(problem, found, describe(run.tactic));
      expect_results(layers[run.layer], problem, run.tactic, buffers, describe(run.tactic));
    };
    check_run(p);
    for (const LayerProblem& special : specials[run.layer])
      if (is_checked_with(run.tactic, special.special)) check_run(special);
    first += run.source.kernels.size();
  }
  return static_cast<int>(listed);
}

std::vector<std::string> check_generated_grids(const GeneratedFamily& family,
                                               const std::vector<std::string>& graphs, int emulated,
                                               std::shared_ptr<const Device> listed) {
  if (!listed) listed = described();
  struct Run {
    const GridCase* layer = nullptr;
    Tactic tactic;
    LayerSource source;
  };
  std::deque<GridCase> layers;
  std::deque<Run> runs;
  std::vector<std::string> found;
  for (const std::string& graph : graphs) {
    const GridCase& layer = layers.emplace_back(graph, std::vector<DType>{DType::Float16});
    std::map<std::string, int> seen;  // per types
    for (const Tactic& tactic : family.list(layer.query(), *listed))
      if (tactic.support.ok && layer.stores_integers(tactic) &&
          (gpu_at_hand() || seen[describe(tactic).substr(tactic.name.size())]++ < emulated)) {
        found.push_back(describe(tactic));
        if (is_run(found.size() - 1))
          runs.push_back({&layer, tactic, family.generate(layer.query(), tactic, *listed)});
      }
  }
  std::vector<const KernelSource*> kernels;
  for (const Run& run : runs)
    for (const KernelSource& k : run.source.kernels) kernels.push_back(&k);
  void* library = gpu_at_hand() || kernels.empty() ? nullptr : emulator()->build(kernels);
  if (library == nullptr && !gpu_at_hand() && !kernels.empty()) {
    ADD_FAILURE() << "the sources do not compile: build/emulator_failed.cpp";
    return {};
  }
  size_t first = 0;
  for (const Run& run : runs) {
    const GridCase& layer = *run.layer;
    const Tensor expected = layer.expected(run.tactic);
    LayerBuffers buffers;
    std::vector<Extents> inputs;
    for (size_t i = 0; i < layer.node().inputs.size(); ++i) {
      buffers.inputs.push_back(layer.stored_operand(run.tactic, i));
      inputs.push_back(layer.extents(layer.node().inputs[i]));
    }
    buffers.outputs.emplace_back(expected.bytes().size(), std::byte{0xcd});
    const SymbolValues symbols;
    if (gpu_at_hand()) {
      run_on_gpu({symbols, inputs, {expected.extents()}}, run.source, buffers);
    } else {
      compile_once(listed, run.tactic, run.source);
      run_emulated(symbols, run.tactic, run.source, library, first, buffers);
    }
    expect_on_grid(layer, run.tactic, buffers.outputs[0].data(), expected, describe(run.tactic),
                   gpu_at_hand() ? SmallFloatSums::Cut : SmallFloatSums::Whole);
    first += run.source.kernels.size();
  }
  return found;
}

std::vector<std::string> generated_grid_refusals(const GeneratedFamily& family, const std::string& graph) {
  const GridCase layer(graph, {DType::Float16});
  std::vector<std::string> out;
  for (const Tactic& t : family.list(layer.query(), *described()))
    if (!t.support.ok) out.push_back(describe(t) + ": " + t.support.reason);
  return out;
}

std::vector<std::string> generated_refusals(const GeneratedFamily& family, const LayerCase& layer) {
  const LayerProblem p = make_problem(layer);
  std::vector<std::string> out;
  for (const Tactic& t : family.list(p.query(), *described()))
    if (!t.support.ok) out.push_back(describe(t) + ": " + t.support.reason);
  return out;
}

}  // namespace lathe::cuda
