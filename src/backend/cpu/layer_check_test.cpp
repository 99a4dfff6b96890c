// SPDX-License-Identifier: Apache-2.0
//
// The comparison of tactics with the oracle; see layer_check.h. (Named _test so that it belongs to the test program.)
#include "backend/cpu/layer_check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>

#include "backend/cpu/machine.h"
#include "backend/cpu/operand_strides.h"
#include "base/floats.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

Tensor random_tensor(const CheckedInput& input, std::mt19937& random) {
  const int64_t n = element_count(input.extents);
  std::vector<double> values(static_cast<size_t>(n));
  std::uniform_real_distribution<double> uniform(input.low, input.high);
  for (double& v : values) v = bf16_to_float(float_to_bf16(static_cast<float>(uniform(random))));
  if (!is_float(input.dtype))
    for (double& v : values) v = std::floor(v);
  return Tensor::from_doubles(input.dtype, input.extents, values);
}

struct Problem {
  Graph graph;
  NodeId node = kNoNode;
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
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
    return input.constant ? editor.add_constant(name, t)
                          : editor.add_input(name, input.dtype, to_shape(input.extents));
  };
  for (const CheckedInput& input : layer.inputs) ids.push_back(add(input));
  const std::vector<ValueId> outputs = append_node(editor, "layer", layer.op, ids, {}, {}, layer.outputs);
  p.node = p.graph.order().back();
  for (const CheckedInput& input : layer.operands) operand_ids.push_back(add(input));
  if (!layer.epilogue.empty()) editor.set_epilogue(p.node, layer.epilogue, operand_ids);
  editor.set_allowed_types(p.node, layer.allowed_types);
  for (const ValueId v : outputs) editor.mark_output(v);
  const SymbolValues symbols;
  EvaluateContext context{.inputs = p.inputs, .output_count = outputs.size(), .symbols = &symbols};
  p.expected = evaluate_node(p.graph.node(p.node), context, p.graph.value(outputs[0]).dtype);
  p.expected.resize(outputs.size());  // operators may give optional results that nobody asked for
  return p;
}

// Where a logical index lies in storage.
int64_t storage_offset(const Extents& extents, const Format& format, int64_t linear) {
  Extents index(extents.size());
  for (size_t d = extents.size(); d-- > 0; linear /= extents[d]) index[d] = linear % extents[d];
  if (format.is_linear())
    return [&] {
      int64_t o = 0;
      for (size_t d = 0; d < extents.size(); ++d) o = o * extents[d] + index[d];
      return o;
    }();
  const int64_t c = extents[1], block = format.kind == Format::Kind::ChannelBlocked ? format.block : c;
  int64_t o = index[0] * ((c + block - 1) / block) + index[1] / block;
  for (size_t d = 2; d < extents.size(); ++d) o = o * extents[d] + index[d];
  return o * block + index[1] % block;
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

// 64-byte aligned, and exactly as long as asked for: a sanitizer sees the first byte too many.
class Memory {
 public:
  Memory() = default;
  Memory(int64_t bytes, int fill)
      : bytes_(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), std::align_val_t(64)))) {
    std::memset(bytes_.get(), fill, static_cast<size_t>(bytes));
  }
  std::byte* data() const { return bytes_.get(); }

 private:
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  std::unique_ptr<std::byte, Delete> bytes_;
};

struct Buffers {
  std::vector<Memory> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  Memory scratch;
};

void fill_buffers(const Problem& p, const Tactic& t, const Graph& graph, Buffers& b) {
  const Node& node = graph.node(p.node);
  b.inputs.resize(p.inputs.size());
  b.outputs.resize(p.expected.size());
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    b.in.push_back(nullptr);
    if (t.inputs[i].dtype == DType::Undefined) continue;
    const Tensor& x = p.inputs[i];
    b.inputs[i] = Memory(storage_bytes(t.inputs[i].dtype, x.extents(), t.inputs[i].format), 0);
    std::byte* base = b.inputs[i].data();
    for (int64_t k = 0; k < x.size(); ++k)
      write_element(t.inputs[i].dtype, base, storage_offset(x.extents(), t.inputs[i].format, k), x, k);
    b.in.back() = base;
  }
  for (size_t i = 0; i < p.expected.size(); ++i) {
    b.out.push_back(nullptr);
    if (node.outputs[i] == kNoValue) continue;
    const auto bytes = storage_bytes(t.outputs[i].dtype, p.expected[i].extents(), t.outputs[i].format);
    b.outputs[i] = Memory(bytes + static_cast<int64_t>(kGuard), 0xcd);
    b.out.back() = b.outputs[i].data();
  }
}

std::string describe(const Tactic& t, Isa isa, int threads) {
  std::string text =
      t.name + " [" + std::string(isa_name(isa)) + ", " + std::to_string(threads) + " threads]";
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

void compare(const LayerCase& layer, const Problem& p, const Tactic& t, const Buffers& b,
             const std::string& what) {
  for (size_t o = 0; o < p.expected.size(); ++o) {
    if (b.out[o] == nullptr) continue;
    const Tensor& want = p.expected[o];
    const DType type = t.outputs[o].dtype;
    const auto* base = static_cast<const std::byte*>(b.out[o]);
    const std::vector<double> values = want.to_doubles();
    const int64_t bytes = storage_bytes(type, want.extents(), t.outputs[o].format);
    const int64_t stored_count = bytes / dtype_bytes(type, 1);
    const std::vector<double> stored_values =
        Tensor::wrap(type, {stored_count}, {base, static_cast<size_t>(bytes)}, nullptr).to_doubles();
    double largest = 0;
    for (const double v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    const double limit = is_float(type) ? layer.tolerance * t.error_factor * largest : 0;
    for (int64_t k = 0; k < want.size(); ++k) {
      const double expected = values[static_cast<size_t>(k)];
      const double got =
          stored_values[static_cast<size_t>(storage_offset(want.extents(), t.outputs[o].format, k))];
      if (got == expected || (std::isnan(got) && std::isnan(expected))) continue;
      if (std::abs(got - expected) <= limit + rounding_of(type) * std::abs(expected)) continue;
      ADD_FAILURE() << what << "\n  output " << o << " element " << k << " of " << to_string(want.extents())
                    << ": " << got << ", expected " << expected << " (largest " << largest << ")";
      return;
    }
    const Extents& e = want.extents();
    for (size_t g = 0; g < kGuard; ++g)
      if (base[static_cast<size_t>(bytes) + g] != std::byte{0xcd}) {
        ADD_FAILURE() << what << "\n  writes behind output " << o;
        return;
      }
    if (t.outputs[o].format.kind != Format::Kind::ChannelBlocked) continue;
    Extents padded = e;
    padded[1] =
        (e[1] + t.outputs[o].format.block - 1) / t.outputs[o].format.block * t.outputs[o].format.block;
    int64_t spatial = 1;
    for (size_t d = 2; d < e.size(); ++d) spatial *= e[d];
    for (int64_t n = 0; n < e[0]; ++n)
      for (int64_t c = e[1]; c < padded[1]; ++c)
        for (int64_t s = 0; s < spatial; ++s) {
          const int64_t at = storage_offset(padded, t.outputs[o].format, (n * padded[1] + c) * spatial + s);
          if (stored_values[static_cast<size_t>(at)] == 0) continue;
          ADD_FAILURE() << what << "\n  channel padding of output " << o << " is not zero";
          return;
        }
  }
}

ShapeContext shape_context(const Problem& p, const SymbolValues& symbols, int threads) {
  ShapeContext context{symbols, {}, {}, threads};
  for (const Tensor& t : p.inputs) context.inputs.push_back(t.extents());
  for (const Tensor& t : p.expected) context.outputs.push_back(t.extents());
  return context;
}

}  // namespace

int check_layer(const TacticFamily& family, const LayerCase& layer) {
  const Problem p = make_problem(layer);
  const SymbolRanges ranges;
  const LayerQuery query{p.graph, p.node, ranges};
  const SymbolValues symbols;
  int runs = 0;
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (const int threads : {1, 2, 3}) pools.push_back(std::make_unique<ThreadPool>(threads));
  const CpuInfo info = read_cpu_info();
  const Isa best = make_machine(info, std::nullopt, 1).isa;
  for (const Isa isa : {Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx}) {
    if (isa > best) break;
    const Machine machine = make_machine(info, isa, 3);
    for (const Tactic& tactic : family.list(query, machine)) {
      if (!tactic.support.ok) continue;
      MemoryBlobStore blobs;
      const PackContext pack{blobs, "k"};
      const auto kernel = family.make(query, tactic, machine, pack);
      for (const int threads : {1, 2, 3}) {
        const auto prepared = kernel->prepare(shape_context(p, symbols, threads));
        Buffers buffers;
        fill_buffers(p, tactic, p.graph, buffers);
        buffers.scratch = Memory(static_cast<int64_t>(prepared->scratch_bytes()), 0xff);
        const LayerArgs args{buffers.in, buffers.out, buffers.scratch.data()};
        pools[static_cast<size_t>(threads) - 1]->run(
            prepared->members(threads), [&](const Worker& worker) { prepared->run(args, worker); });
        compare(layer, p, tactic, buffers, describe(tactic, isa, threads));
      }
      ++runs;
    }
  }
  return runs;
}

std::vector<std::string> refusals(const TacticFamily& family, const LayerCase& layer) {
  const Problem p = make_problem(layer);
  const SymbolRanges ranges;
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  std::vector<std::string> out;
  for (const Tactic& t : family.list({p.graph, p.node, ranges}, machine))
    if (!t.support.ok) out.push_back(describe(t, machine.isa, 1) + ": " + t.support.reason);
  return out;
}

std::vector<std::string> time_layer(const TacticFamily& family, const LayerCase& layer, int threads) {
  const Problem p = make_problem(layer);
  const SymbolRanges ranges;
  const SymbolValues symbols;
  const LayerQuery query{p.graph, p.node, ranges};
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, threads);
  std::vector<std::string> out;
  for (const Tactic& tactic : family.list(query, machine)) {
    if (!tactic.support.ok) continue;
    MemoryBlobStore blobs;
    const auto kernel = family.make(query, tactic, machine, {blobs, "k"});
    const auto prepared = kernel->prepare(shape_context(p, symbols, threads));
    Buffers buffers;
    fill_buffers(p, tactic, p.graph, buffers);
    buffers.scratch = Memory(static_cast<int64_t>(prepared->scratch_bytes()), 0);
    const LayerArgs args{buffers.in, buffers.out, buffers.scratch.data()};
    ThreadPool pool(threads);
    double best = 1e30;
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::milliseconds(150);
    pool.run(prepared->members(threads), [&](const Worker& worker) {
      for (int i = 0; i < 5 || (worker.count == 1 && Clock::now() < until) || (worker.count > 1 && i < 50);
           ++i) {
        worker.barrier();
        const auto start = Clock::now();
        prepared->run(args, worker);
        worker.barrier();
        if (worker.index == 0)
          best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      }
    });
    char time[32];
    std::snprintf(time, sizeof time, ": %.1f us", best);
    out.push_back(describe(tactic, machine.isa, threads) + time);
  }
  return out;
}

}  // namespace lathe::cpu
