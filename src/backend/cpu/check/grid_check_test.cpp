// SPDX-License-Identifier: Apache-2.0
//
// See grid_check.h. (Named _test so that it belongs to the test program.)
#include "backend/cpu/check/grid_check.h"

#include <gtest/gtest.h>

#include "backend/check/grid_case.h"
#include "backend/check/layer_case.h"
#include "backend/cpu/check/tactic_check.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/tile/integer_emulation.h"

namespace lathe::cpu {
namespace {

void run_tactic(const TacticFamily& family, const GridCase& p, const Tactic& tactic, const Machine& machine,
                const std::string& name) {
  MemoryBlobStore blobs;
  const PackContext pack{blobs, "k"};
  const auto kernel = family.make(p.query(), tactic, machine, pack);
  const Tensor expected = p.expected(tactic);
  std::vector<std::vector<std::byte>> memory;
  for (size_t i = 0; i < p.node().inputs.size(); ++i) memory.push_back(p.stored_operand(tactic, i));
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
      expect_on_grid(p, tactic, static_cast<const std::byte*>(out), expected,
                     name + ", " + std::to_string(threads) + " threads");
      if (::testing::Test::HasFatalFailure()) return;
    }
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
  const GridCase p(graph);
  std::vector<std::string> ran;
  for (const auto& [kernels, machine] : machines())
    for (const Tactic& tactic : family.list(p.query(), machine)) {
      if (!tactic.support.ok || !p.stores_integers(tactic)) continue;
      EXPECT_NE(tactic.outputs[0].format.kind, Format::Kind::ChannelBlocked) << describe(tactic);
      ran.push_back(describe(tactic) + " [" + kernels + "]");
      run_tactic(family, p, tactic, machine, ran.back());
    }
  return ran;
}

std::vector<std::string> grid_refusals(const TacticFamily& family, const std::string& graph) {
  const GridCase p(graph);
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
