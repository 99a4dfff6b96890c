// SPDX-License-Identifier: Apache-2.0
//
// What a CPU tactic is inside: a family lists its tactics for a layer, makes a LayerKernel (weights packed
// once), and that prepares a PreparedLayer for concrete extents, which every member of the team runs on its
// part.
//
// A new family is one file with a `TacticFamily x_tactics()` function and one line in tactics.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/appending.h"
#include "backend/device_model.h"
#include "backend/packing.h"
#include "backend/program.h"
#include "backend/result_memory.h"
#include "backend/tactic.h"
#include "base/thread_pool.h"

namespace lathe::cpu {

// What kernels are compiled for, and what --cpuIsa names: each includes the ones before it. What a machine
// has is a set of features.
enum class Isa : uint8_t { Avx2, Avx512, Avx512Bf16, Amx };

struct AmxTable;
struct IntegerTable;

struct Machine {
  CpuFeatures features = {CpuFeature::Avx2};  // what the CPU has, without what --cpuIsa takes away
  const AmxTable* amx = nullptr;  // products in AMX tiles (tile/amx_table.h); null where they cannot be used
  // Products of bytes (tile/integer_table.h): in vectors, and in AMX tiles or null.
  const IntegerTable *integers = nullptr, *integer_tiles = nullptr;
  bool divides_quickly =
      false;  // a vector in less time than an estimate of the quotient with a step of Newton's method
  int threads = 1;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;

  bool has(CpuFeature feature) const { return features.has(feature); }
  // The kernels to take: those of the highest level that the machine has all of.
  Isa isa() const {
    if (!has(CpuFeature::Avx512)) return Isa::Avx2;
    if (!has(CpuFeature::Bf16)) return Isa::Avx512;
    return has(CpuFeature::AmxBf16) ? Isa::Amx : Isa::Avx512Bf16;
  }
};

// Addresses of one layer's operands, in the node's order; null where absent or where the tactic packed a
// constant.
struct LayerArgs {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  std::byte* scratch = nullptr;  // scratch_bytes(), shared by the team, 64-byte aligned, contents undefined
  ResultMemory* results = nullptr;  // for a layer that finds sizes
  // A profiled run of a layer with bodies adds the milliseconds of their layers here, in the order of
  // nested_layers(); empty: nobody asks.
  std::span<double> nested_ms = {};
};

// A layer at concrete extents. Immutable: several executions may not share one, but run() is const for the
// team.
class PreparedLayer {
 public:
  virtual ~PreparedLayer() = default;
  virtual size_t scratch_bytes() const { return 0; }
  // How many pieces the work has, at most `available`. run() is called for each, by whichever thread, and in
  // portions where there is a piece for each thread (Worker::slice() gives a portion's range; memory of its
  // own a thread finds by its index). No barrier is needed between layers of one piece.
  virtual int members(int available) const { return available; }
  // Whether run() calls share() or barrier() when it works in `count` pieces: then `count` must be all
  // threads that are available, and each calls run() once. It ends with one of the two. With share() alone
  // nobody waits for a thread that does not come; barrier() does, and fetches it.
  virtual bool meets(int /*count*/) const { return false; }
  virtual void run(const LayerArgs& args, const Worker& worker) const = 0;
  // Whether it asks for the memory of results whose size it finds (LayerArgs::results) when it has them.
  // Others get room for the bound.
  virtual bool takes_memory() const { return false; }
  // After a run of a layer with data-dependent outputs: the values of its new symbols. Called by member 0.
  virtual void resolve(const LayerArgs&, SymbolValues&) const {}
};

// The whole team runs a layer that has a piece for each of its members, and has done so when this returns.
inline void run_pieces(const PreparedLayer& layer, const LayerArgs& args, const Worker& team) {
  if (team.count == 1 || !layer.meets(team.count))
    return team.share(team.count, [&](const Worker& worker) { layer.run(args, worker); });
  layer.run(args, team);
}

struct ShapeContext {
  const SymbolValues& symbols;
  std::vector<Extents> inputs, outputs;  // data-dependent dims at their upper bound
  int threads = 1;
  // By operand; empty: none has room. Only state that is appended to in place has (backend/appending.h).
  std::vector<Room> input_rooms = {}, output_rooms = {};

  // The extents that an operand's strides in memory come from.
  Extents stored_input(size_t index) const {
    return input_rooms.empty() ? inputs[index] : with_room(inputs[index], input_rooms[index]);
  }
  Extents stored_output(size_t index) const {
    return output_rooms.empty() ? outputs[index] : with_room(outputs[index], output_rooms[index]);
  }
};

class LayerKernel {
 public:
  virtual ~LayerKernel() = default;
  virtual std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const = 0;
  // Whether prepare() heeds the room of an input. Where nothing lies in front of the room's axis it makes no
  // difference.
  virtual bool reads_with_room(size_t /*input*/) const { return false; }
  // Whether prepare() takes a result with room as one whose first operand lies in it already: the layer
  // writes what follows.
  virtual bool appends() const { return false; }
};

struct TacticFamily {
  std::string_view runner;
  // Tactics of the layer, supported and refused, best guess first. Nothing for operators that are not the
  // family's.
  std::vector<Tactic> (*list)(const LayerQuery& query, const Machine& machine);
  std::unique_ptr<LayerKernel> (*make)(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                       const PackContext& pack);
  // Whether a tactic of a loaded engine fits the layer, where list() would take too long or depends on the
  // number of threads, which may be another one than when the engine was built. Null: it must be in list().
  Support (*accepts)(const LayerQuery& query, const Tactic& tactic, const Machine& machine) = nullptr;
};

// tactics.cpp: all families, in the order of expectation.
std::vector<TacticFamily> tactic_families();

}  // namespace lathe::cpu
