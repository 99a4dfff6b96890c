// SPDX-License-Identifier: Apache-2.0
//
// The comparison of generated kernels with the oracle; see generated_check.h. (Named _test so that it belongs to the test
// program.) Kernels of a layer are compiled together by the host's compiler, each in a namespace of its own.
#include "backend/cuda/generated_check.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <thread>

#include "backend/cuda/generated_layer.h"
#include "backend/cuda/libraries.h"
#include "base/error.h"
#include "base/floats.h"
#include "ops/build.h"

namespace lathe::cuda {
namespace {

Tensor random_tensor(const CheckedInput& input, std::mt19937& random) {
  std::vector<double> values(static_cast<size_t>(element_count(input.extents)));
  std::uniform_real_distribution<double> uniform(input.low, input.high);
  for (double& v : values) v = bf16_to_float(float_to_bf16(static_cast<float>(uniform(random))));
  if (!is_float(input.dtype))
    for (double& v : values) v = std::floor(v);
  return Tensor::from_doubles(input.dtype, input.extents, values);
}

struct Problem {
  Graph graph;
  NodeId node = kNoNode;
  std::vector<Tensor> inputs, expected;
  SymbolRanges ranges;
  SymbolValues symbols;
};

Problem make_problem(const LayerCase& layer) {
  Problem p;
  GraphEditor editor(p.graph);
  std::mt19937 random(7);
  std::vector<ValueId> ids, operand_ids;
  const auto add = [&](const CheckedInput& input) {
    if (input.absent) {
      p.inputs.emplace_back();
      return kNoValue;
    }
    Tensor t = random_tensor(input, random);
    p.inputs.push_back(t);
    const std::string name = "x" + std::to_string(p.inputs.size());
    if (input.constant) return editor.add_constant(name, t);
    Shape shape = to_shape(input.extents);
    if (layer.dynamic_batch && shape.size() == layer.inputs[0].extents.size() &&
        input.extents[0] == layer.inputs[0].extents[0]) {
      shape[0] = Dim::symbol("batch");
      p.symbols["batch"] = input.extents[0];
      p.ranges["batch"] = {1, input.extents[0], input.extents[0] * 2};
    }
    return editor.add_input(name, input.dtype, shape);
  };
  for (const CheckedInput& input : layer.inputs) ids.push_back(add(input));
  if (std::holds_alternative<Reformat>(layer.op)) {
    const Value x = p.graph.value(ids[0]);
    editor.set_type(ids[0], layer.from.dtype, layer.from.format);
    p.node = editor.add_node(
        "layer", layer.op, ids,
        {{.name = "y", .dtype = layer.to.dtype, .shape = x.shape, .format = layer.to.format}}, {});
    p.expected = p.inputs;
    return p;
  }
  const std::vector<ValueId> outputs = append_node(editor, "layer", layer.op, ids, {}, {}, layer.outputs);
  p.node = p.graph.order().back();
  for (const CheckedInput& input : layer.operands) operand_ids.push_back(add(input));
  if (!layer.epilogue.empty()) editor.set_epilogue(p.node, layer.epilogue, operand_ids);
  editor.set_allowed_types(p.node, layer.allowed_types);
  for (const ValueId v : outputs) editor.mark_output(v);
  static ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  EvaluateContext context{
      .inputs = p.inputs, .output_count = outputs.size(), .symbols = &p.symbols, .pool = &pool};
  p.expected = evaluate_node(p.graph.node(p.node), context, p.graph.value(outputs[0]).dtype);
  p.expected.resize(outputs.size());
  return p;
}

// Where a logical index lies in storage.
int64_t storage_offset(const Extents& extents, const Format& format, int64_t linear) {
  if (format.is_linear()) return linear;
  Extents index(extents.size());
  for (size_t d = extents.size(); d-- > 0; linear /= extents[d]) index[d] = linear % extents[d];
  int64_t o = 0;
  for (const size_t d : storage_order(extents.size(), format)) o = o * extents[d] + index[d];
  return o;
}

void write_element(DType type, std::byte* base, int64_t i, const Tensor& from, int64_t k) {
  const int64_t bytes = dtype_bytes(type, 1);
  if (type == from.dtype()) {
    std::memcpy(base + i * bytes, from.bytes().data() + k * bytes, static_cast<size_t>(bytes));
    return;
  }
  const float value = from.data<float>()[static_cast<size_t>(k)];
  const uint16_t bits = type == DType::BFloat16 ? float_to_bf16(value) : float_to_fp16(value);
  std::memcpy(base + i * 2, &bits, 2);
}

constexpr size_t kGuard = 128;
using Bytes = std::vector<std::byte>;

// Exactly as long as asked for, and aligned.
struct Aligned {
  explicit Aligned(const Bytes& content)
      : data(static_cast<std::byte*>(::operator new(content.size() + 1, std::align_val_t(256)))) {
    std::memcpy(data, content.data(), content.size());
  }
  Aligned(const Aligned&) = delete;
  ~Aligned() { ::operator delete(data, std::align_val_t(256)); }
  std::byte* data;
};

struct Buffers {
  std::vector<Bytes> inputs, outputs;  // empty: absent
};

Buffers make_buffers(const Problem& p, const Tactic& t) {
  Buffers b;
  const Node& node = p.graph.node(p.node);
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    b.inputs.emplace_back();
    if (t.inputs[i].dtype == DType::Undefined) continue;
    const Tensor& x = p.inputs[i];
    b.inputs[i].resize(
        static_cast<size_t>(storage_bytes(t.inputs[i].dtype, x.extents(), t.inputs[i].format)));
    for (int64_t k = 0; k < x.size(); ++k)
      write_element(t.inputs[i].dtype, b.inputs[i].data(), storage_offset(x.extents(), t.inputs[i].format, k),
                    x, k);
  }
  for (size_t i = 0; i < p.expected.size(); ++i) {
    b.outputs.emplace_back();
    if (node.outputs[i] == kNoValue) continue;
    const auto bytes = storage_bytes(t.outputs[i].dtype, p.expected[i].extents(), t.outputs[i].format);
    b.outputs[i].assign(static_cast<size_t>(bytes) + kGuard, std::byte{0xcd});
  }
  return b;
}

std::string describe(const Tactic& t) {
  std::string text = t.name;
  for (const TensorType& type : t.inputs) text += " " + to_string(type);
  text += " ->";
  for (const TensorType& type : t.outputs) text += " " + to_string(type);
  return text;
}

double rounding_of(DType type) {
  if (type == DType::BFloat16) return 1.0 / 256;
  if (type == DType::Float16) return 1.0 / 2048;
  return 0;
}

void compare(const LayerCase& layer, const Problem& p, const Tactic& t, const Buffers& b) {
  for (size_t o = 0; o < p.expected.size(); ++o) {
    if (b.outputs[o].empty()) continue;
    const Tensor& want = p.expected[o];
    const DType type = t.outputs[o].dtype;
    const std::vector<double> values = want.to_doubles();
    const std::span<const std::byte> stored(b.outputs[o].data(), b.outputs[o].size() - kGuard);
    const std::vector<double> got_values =
        Tensor::wrap(type, {static_cast<int64_t>(stored.size()) / dtype_bytes(type, 1)}, stored, nullptr)
            .to_doubles();
    double largest = 0;
    for (const double v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    const double limit = is_float(type) ? (layer.tolerance + rounding_of(type) * (layer.rounding - 0.9) / 4) *
                                              t.error_factor * largest
                                        : 0;
    for (int64_t k = 0; k < want.size(); ++k) {
      const double expected = values[static_cast<size_t>(k)];
      const double got =
          got_values[static_cast<size_t>(storage_offset(want.extents(), t.outputs[o].format, k))];
      if (got == expected || (std::isnan(got) && std::isnan(expected))) continue;
      if (std::abs(got - expected) <= limit + layer.rounding * rounding_of(type) * std::abs(expected))
        continue;
      ADD_FAILURE() << describe(t) << "\n  output " << o << " element " << k << " of "
                    << to_string(want.extents()) << ": " << got << ", expected " << expected << " (largest "
                    << largest << ")";
      return;
    }
    for (size_t g = 0; g < kGuard; ++g)
      if (b.outputs[o][stored.size() + g] != std::byte{0xcd}) {
        ADD_FAILURE() << describe(t) << "\n  writes behind output " << o;
        return;
      }
  }
}

// --- the emulator ------------------------------------------------------------------------------------------------
class Emulator {
 public:
  Emulator()
      : folder_(std::filesystem::path(testing::TempDir()) / ("lathe_emulator_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file("src/backend/cuda/emulator/shim.h", folder_ / "shim.h",
                               std::filesystem::copy_options::overwrite_existing);
    // Precompiled: most of the time would go into the standard headers.
    const std::string command = compiler() + " -x c++-header " + (folder_ / "shim.h").string();
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
      std::string text = kernels[i]->source.substr(device_primitives().size());
      const std::string linkage = "extern \"C\" __global__";
      text.replace(text.find(linkage), linkage.size(), "__global__");
      file << "namespace k" << i << " {\n" << text << "}\n";
      file << "extern \"C\" int launch_" << i
           << "(void** args, const unsigned* grid, unsigned threads) { return "
           << "emulator::launch(k" << i << "::" << kernels[i]->entry << ", args, grid, threads); }\n";
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
  static std::string compiler() { return "c++ -std=c++20 -O1 -w -fPIC -ffp-contract=off"; }
  std::filesystem::path folder_;
  int count_ = 0;
};

using Launch = int (*)(void** args, const unsigned* grid, unsigned threads);

void run_emulated(const Problem& p, const Tactic& tactic, const LayerSource& layer, void* library,
                  size_t first, Buffers& b) {
  std::vector<std::unique_ptr<Aligned>> inputs, outputs;
  for (const Bytes& x : b.inputs) inputs.push_back(std::make_unique<Aligned>(x));
  for (const Bytes& x : b.outputs) outputs.push_back(std::make_unique<Aligned>(x));
  std::map<std::string, std::unique_ptr<Aligned>> blocks;
  for (const auto& [name, make] : layer.blocks) blocks[name] = std::make_unique<Aligned>(make());
  const Aligned scratch(Bytes(static_cast<size_t>(layer.scratch_bytes.evaluate(p.symbols)), std::byte{0xff}));
  for (size_t k = 0; k < layer.kernels.size(); ++k) {
    const KernelSource& kernel = layer.kernels[k];
    std::vector<int64_t> storage;
    for (const KernelArg& arg : kernel.args) {
      switch (arg.kind) {
        case KernelArg::Kind::Input:
          storage.push_back(reinterpret_cast<int64_t>(inputs.at(arg.index)->data));
          break;
        case KernelArg::Kind::Output:
          storage.push_back(reinterpret_cast<int64_t>(outputs.at(arg.index)->data));
          break;
        case KernelArg::Kind::Scratch:
          storage.push_back(reinterpret_cast<int64_t>(scratch.data + arg.value.evaluate(p.symbols)));
          break;
        case KernelArg::Kind::Packed:
          storage.push_back(reinterpret_cast<int64_t>(blocks.at(arg.block)->data));
          break;
        case KernelArg::Kind::Number:
          storage.push_back(arg.value.evaluate(p.symbols));
          break;
      }
    }
    std::vector<void*> args;
    for (int64_t& s : storage) args.push_back(&s);
    unsigned grid[3];
    for (size_t d = 0; d < 3; ++d) grid[d] = static_cast<unsigned>(kernel.grid[d].evaluate(p.symbols));
    const auto launch =
        reinterpret_cast<Launch>(dlsym(library, ("launch_" + std::to_string(first + k)).c_str()));
    ASSERT_NE(launch, nullptr);
    EXPECT_EQ(launch(args.data(), grid, static_cast<unsigned>(kernel.threads)), 0)
        << describe(tactic) << ": " << kernel.entry
        << ": threads wait at a barrier for others that have left";
  }
  for (size_t i = 0; i < b.outputs.size(); ++i)
    if (!b.outputs[i].empty()) std::memcpy(b.outputs[i].data(), outputs[i]->data, b.outputs[i].size());
}

// --- the GPU -----------------------------------------------------------------------------------------------------
// Null where there is none.
std::shared_ptr<const Device> gpu() {
  static const std::shared_ptr<const Device> device = []() -> std::shared_ptr<const Device> {
    try {
      return open_device(0, false);
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return device;
}

// The fastest of several replays of a graph of `repetitions` launches, per launch.
double time_on_gpu(const Driver& driver, const PreparedLayer& layer, const LayerArgs& args, CUstream stream,
                   int repetitions) {
  CUgraph graph = nullptr;
  CUgraphExec replay = nullptr;
  driver.require(driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture");
  for (int i = 0; i < repetitions; ++i) layer.enqueue(args, stream);
  driver.require(driver.cuStreamEndCapture(stream, &graph), "capture");
  driver.require(driver.cuGraphInstantiate(&replay, graph, 0), "instantiate");
  CUevent begin = nullptr, end = nullptr;
  driver.require(driver.cuEventCreate(&begin, 0), "event");
  driver.require(driver.cuEventCreate(&end, 0), "event");
  double best = 1e30;
  for (int i = 0; i < 6; ++i) {
    driver.require(driver.cuEventRecord(begin, stream), "record");
    driver.require(driver.cuGraphLaunch(replay, stream), "launch");
    driver.require(driver.cuEventRecord(end, stream), "record");
    driver.require(driver.cuEventSynchronize(end), "wait");
    float ms = 0;
    driver.require(driver.cuEventElapsedTime(&ms, begin, end), "elapsed");
    best = std::min(best, 1000.0 * ms / repetitions);
  }
  driver.cuEventDestroy(begin);
  driver.cuEventDestroy(end);
  driver.cuGraphExecDestroy(replay);
  driver.cuGraphDestroy(graph);
  return best;
}

double run_on_gpu(const Problem& p, const LayerSource& source, Buffers& b, int repetitions) {
  const Device& device = *gpu();
  device.make_current();
  MemoryBlobStore blobs;
  const auto kernel = make_generated_layer(source, device, {blobs, "k"});
  ShapeContext context{p.symbols, {}, {}};
  for (const Tensor& t : p.inputs) context.inputs.push_back(t ? t.extents() : Extents{});
  for (const Tensor& t : p.expected) context.outputs.push_back(t.extents());
  const auto prepared = kernel->prepare(context);
  std::vector<DeviceMemory> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  const auto upload = [&](const Bytes& bytes) -> void* {
    if (bytes.empty()) return nullptr;
    memory.emplace_back(device, std::span<const std::byte>(bytes));
    return memory.back().data();
  };
  for (const Bytes& x : b.inputs) in.push_back(upload(x));
  for (const Bytes& x : b.outputs) out.push_back(upload(x));
  const DeviceMemory scratch(device, prepared->scratch_bytes() + 256);
  const LayerArgs args{in, out, static_cast<std::byte*>(scratch.data())};
  const Driver& driver = *device.driver;
  CUstream stream = nullptr;
  driver.require(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a stream");
  driver.require(driver.cuMemsetD8Async(scratch.address(), 0xff, scratch.bytes(), stream), "poison");
  prepared->enqueue(args, stream);
  driver.require(driver.cuStreamSynchronize(stream), "running a kernel");
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i])
      driver.require(driver.cuMemcpyDtoH(b.outputs[i].data(), reinterpret_cast<CUdeviceptr>(out[i]),
                                         b.outputs[i].size()),
                     "copying the result");
  double best_us = 0;
  if (repetitions > 0) best_us = time_on_gpu(driver, *prepared, args, stream, repetitions);
  driver.cuStreamDestroy(stream);
  return best_us;
}

// Every kernel compiles for the GPU; kernels of the same tactic and types differ little, so one of them stands for all.
void compile_once(const Tactic& tactic, const LayerSource& source) {
  static const auto device = describe_device({});
  static std::set<std::string> seen;
  if (device->libraries->nvrtc == nullptr || !seen.insert(describe(tactic)).second) return;
  for (const KernelSource& kernel : source.kernels) compile_source(*device, kernel.entry, kernel.source);
}

}  // namespace

int check_generated(const GeneratedFamily& family, const std::vector<LayerCase>& layers) {
  static const auto emulator = gpu() ? nullptr : std::make_unique<Emulator>();
  struct Run {
    size_t layer = 0;
    Tactic tactic;
    LayerSource source;
  };
  std::vector<Problem> problems;
  std::vector<Run> runs;
  for (const LayerCase& layer : layers) {
    problems.push_back(make_problem(layer));
    const Problem& p = problems.back();
    const LayerQuery query{p.graph, p.node, p.ranges};
    std::map<std::string, int> seen;  // per types
    for (const Tactic& tactic : family.list(query))
      if (tactic.support.ok &&
          (gpu() || seen[describe(tactic).substr(tactic.name.size())]++ < layer.emulated))
        runs.push_back({problems.size() - 1, tactic, family.generate(query, tactic)});
  }
  std::vector<const KernelSource*> kernels;
  for (const Run& run : runs)
    for (const KernelSource& k : run.source.kernels) kernels.push_back(&k);
  if (kernels.empty()) return 0;
  void* library = gpu() ? nullptr : emulator->build(kernels);
  if (library == nullptr && !gpu()) {
    ADD_FAILURE() << "the sources do not compile: build/emulator_failed.cpp";
    return 0;
  }
  size_t first = 0;
  for (const Run& run : runs) {
    const Problem& p = problems[run.layer];
    SCOPED_TRACE("case " + std::to_string(run.layer) + ": " +
                 std::string(op_display_name(layers[run.layer].op)));
    Buffers buffers = make_buffers(p, run.tactic);
    if (gpu()) {
      run_on_gpu(p, run.source, buffers, 0);
    } else {
      compile_once(run.tactic, run.source);
      run_emulated(p, run.tactic, run.source, library, first, buffers);
    }
    compare(layers[run.layer], p, run.tactic, buffers);
    first += run.source.kernels.size();
  }
  return static_cast<int>(runs.size());
}

void time_generated(const GeneratedFamily& family, const LayerCase& layer, std::string_view what) {
  if (!gpu()) GTEST_SKIP() << "needs a GPU";
  const Problem p = make_problem(layer);
  const LayerQuery query{p.graph, p.node, p.ranges};
  const double flops = [&] {
    std::vector<Extents> in, out;
    for (const Tensor& t : p.inputs) in.push_back(t ? t.extents() : Extents{});
    for (const Tensor& t : p.expected) out.push_back(t.extents());
    return node_flops(p.graph.node(p.node), {in, out});
  }();
  for (const Tactic& tactic : family.list(query)) {
    if (!tactic.support.ok) continue;
    Buffers buffers = make_buffers(p, tactic);
    double bytes = 0;
    for (const Bytes& b : buffers.inputs) bytes += static_cast<double>(b.size());
    for (const Bytes& b : buffers.outputs) bytes += static_cast<double>(b.size());
    const LayerSource source = family.generate(query, tactic);
    const double us = run_on_gpu(p, source, buffers, 20);
    compare(layer, p, tactic, buffers);
    fmt::print("{}: {}: {:.2f} us, {:.2f} TB/s, {:.1f} TFLOP/s\n", what, describe(tactic), us,
               bytes / us * 1e-6, flops / us * 1e-6);
  }
}

std::vector<std::string> generated_refusals(const GeneratedFamily& family, const LayerCase& layer) {
  const Problem p = make_problem(layer);
  std::vector<std::string> out;
  for (const Tactic& t : family.list({p.graph, p.node, p.ranges}))
    if (!t.support.ok) out.push_back(describe(t) + ": " + t.support.reason);
  return out;
}

}  // namespace lathe::cuda
