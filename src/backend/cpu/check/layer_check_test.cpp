// SPDX-License-Identifier: Apache-2.0
//
// The comparison of tactics with the oracle; see layer_check.h. (Named _test so that it belongs to the test
// program.)
#include "backend/cpu/check/layer_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "backend/cpu/check/tactic_check.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/tile/amx_emulation.h"

namespace lathe::cpu {
namespace {

constexpr int kApart = -1;

// Operands where a kernel reads and writes them: 64-byte aligned, as in the arena; the result in the memory
// of an input or apart.
struct Placed {
  std::vector<OperandMemory> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  OperandMemory scratch;

  Placed(const LayerBuffers& buffers, size_t scratch_bytes, int result_in = kApart)
      : scratch(std::vector<std::byte>(scratch_bytes, std::byte{0xff}), kAlignment) {
    for (const auto& bytes : buffers.inputs) in.push_back(place(bytes, inputs));
    for (const auto& bytes : buffers.outputs) out.push_back(place(bytes, outputs));
    if (result_in == kApart) return;
    const auto& shared = buffers.inputs.at(static_cast<size_t>(result_in));
    in[static_cast<size_t>(result_in)] = std::memcpy(out[0], shared.data(), shared.size());
  }
  LayerArgs args() const { return {in, out, scratch.data()}; }
  void read_results(LayerBuffers& buffers) const {
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i] != nullptr) std::memcpy(buffers.outputs[i].data(), out[i], buffers.outputs[i].size());
  }

 private:
  static constexpr size_t kAlignment = 64;
  static std::byte* place(const std::vector<std::byte>& bytes, std::vector<OperandMemory>& kept) {
    if (bytes.empty()) return nullptr;
    kept.emplace_back(bytes, kAlignment);
    return kept.back().data();
  }
};

std::string describe(const Tactic& tactic, Isa isa, int threads) {
  return lathe::describe(tactic) + " [" + std::string(isa_name(isa)) + ", " + std::to_string(threads) +
         " threads]";
}

ShapeContext shape_context(const LayerProblem& p, int threads) {
  return {p.symbols, p.input_extents(), p.output_extents(), threads};
}

}  // namespace

namespace {

// One run on NaN, one on infinities, one on denormal numbers and -0.
void check_specials(const LayerKernel& kernel, const LayerCase& layer, const Tactic& tactic, Isa isa,
                    const std::vector<LayerProblem>& problems, ThreadPool& pool) {
  for (const LayerProblem& p : problems) {
    if (!is_checked_with(tactic, p.special)) continue;
    const auto prepared = kernel.prepare(shape_context(p, pool.size()));
    LayerBuffers buffers = make_buffers(p, tactic);
    const Placed placed(buffers, prepared->scratch_bytes());
    const LayerArgs args = placed.args();
    pool.run(prepared->members(pool.size()),
             [&](const Worker& worker) { run_pieces(*prepared, args, worker); });
    placed.read_results(buffers);
    static constexpr const char* kNames[] = {"", " with NaN", " with infinities", " with denormal numbers"};
    expect_results(layer, p, tactic, buffers,
                   describe(tactic, isa, pool.size()) + kNames[static_cast<size_t>(p.special)]);
  }
}

}  // namespace

bool has_avx512() {
  return read_cpu_info().features.has(CpuFeature::Avx512);
}

bool has_avx512_bf16() {
  return make_machine(read_cpu_info(), std::nullopt, 1).isa() >= Isa::Avx512Bf16;
}

bool has_amx_fp16() {
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  return machine.amx != nullptr && machine.has(CpuFeature::Fp16);
}

int check_layer(const TacticFamily& family, const LayerCase& layer) {
  const LayerProblem p = make_problem(layer);
  const std::vector<LayerProblem> special = special_problems(layer, p);
  const LayerQuery query = p.query();
  int runs = 0;
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (const int threads : {1, 2, 3}) pools.push_back(std::make_unique<ThreadPool>(threads));
  const CpuInfo info = read_cpu_info();
  const Isa best = make_machine(info, std::nullopt, 1).isa();
  for (const Isa isa : {Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx}) {
    // AMX is emulated where the CPU has all but its tiles.
    const bool emulates = isa == Isa::Amx && best == Isa::Avx512Bf16;
    if (isa > best && !emulates) break;
    Machine machine = make_machine(info, isa, 3);
    if (emulates) machine.amx = &emulated_amx_table();
    machine.divides_quickly =
        isa == Isa::Avx512;  // so that both forms are run, whatever this machine prefers
    int emulated = 0;
    for (const Tactic& tactic : family.list(query, machine)) {
      if (!tactic.support.ok || (emulates && tactic.params.get("amx", 0) == 0)) continue;
      if (emulates && ++emulated > layer.emulated) continue;
      MemoryBlobStore blobs;
      const PackContext pack{blobs, "k"};
      const auto kernel = family.make(query, tactic, machine, pack);
      std::vector<int> places = tactic.in_place_inputs;
      places.push_back(kApart);
      for (size_t run = 0; run < 3 * places.size(); ++run) {
        const int threads = static_cast<int>(run % 3) + 1, place = places[run / 3];
        const auto prepared = kernel->prepare(shape_context(p, threads));
        LayerBuffers buffers = make_buffers(p, tactic);
        const Placed placed(buffers, prepared->scratch_bytes(), place);
        const LayerArgs args = placed.args();
        const int members = prepared->members(threads);
        pools[static_cast<size_t>(threads) - 1]->run(
            members, [&](const Worker& worker) { run_pieces(*prepared, args, worker); });
        placed.read_results(buffers);
        const std::string name = describe(tactic, isa, threads) + (place == kApart ? "" : " in place");
        expect_results(layer, p, tactic, buffers, name);
        if (members == 1 || prepared->meets(members)) continue;
        LayerBuffers again = make_buffers(p, tactic);
        const Placed other(again, prepared->scratch_bytes(), place);
        run_alone_in_team(*prepared, other.args(), members);
        other.read_results(again);
        expect_results(layer, p, tactic, again, name + " by one of them");
      }
      check_specials(*kernel, layer, tactic, isa, special, *pools[1]);
      ++runs;
    }
  }
  return runs;
}

std::vector<std::string> refusals(const TacticFamily& family, const LayerCase& layer) {
  const LayerProblem p = make_problem(layer);
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  std::vector<std::string> out;
  for (const Tactic& t : family.list(p.query(), machine))
    if (!t.support.ok) out.push_back(describe(t, machine.isa(), 1) + ": " + t.support.reason);
  return out;
}

}  // namespace lathe::cpu
