// SPDX-License-Identifier: Apache-2.0
//
// What a CUDA tactic is inside: a family lists its tactics for a layer, makes a LayerKernel (constants packed
// and uploaded, sources compiled), and that prepares a PreparedLayer for concrete extents, which enqueues the
// layer on a stream.
//
// A new family is one file with a `TacticFamily x_tactics()` function and one line in tactics.cpp.
//
// Operands are 16-byte aligned in device memory. Constants that a tactic does not pack lie there too, linear,
// in their own type. list(), make() and prepare() also work for a device that is only described; nothing is
// uploaded or loaded then.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/codegen/kernel_source.h"
#include "backend/cuda/device/gpu_kernel.h"
#include "backend/packing.h"
#include "backend/program.h"
#include "backend/result_memory.h"
#include "backend/tactic.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {

// Device addresses of one layer's operands, in the node's order; null where absent or where the tactic packed
// a constant.
struct LayerArgs {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  std::byte* scratch = nullptr;     // scratch_bytes() of device memory, 256-byte aligned, contents undefined
  ResultMemory* results = nullptr;  // null: every result has its place
  // A profiled run of a layer with bodies adds the milliseconds of their layers here, in the order of
  // nested_layers(); empty: nobody asks.
  std::span<double> nested_ms = {};
  LaunchOrder order = {};  // only where overlap() allows it
};

// A layer at concrete extents. Immutable.
class PreparedLayer {
 public:
  virtual ~PreparedLayer() = default;
  virtual size_t scratch_bytes() const { return 0; }
  // Enqueues the layer. It must not wait for the stream, allocate, or copy from pageable memory, unless
  // capturable() says so: the same calls are recorded into a CUDA graph.
  virtual void enqueue(const LayerArgs& args, CUstream stream) const = 0;
  // Shows the launches of enqueue() instead, where it makes nothing else, as many kernels whatever the
  // operands' addresses are, and none without blocks. False: it may do other things.
  virtual bool visit_launches(const LayerArgs&, const LaunchVisitor&) const { return false; }
  // Of all its kernels, as if they were one.
  virtual LaunchOverlap overlap() const { return {}; }
  // No, with the reason, when the layer works on the host in between.
  virtual Support capturable() const { return {}; }
  // Whether enqueue() asks LayerArgs::results for memory when it knows how large a result is.
  virtual bool takes_memory() const { return false; }
  // After a run of a layer with data-dependent outputs, when the stream is idle: the values of its new
  // symbols.
  virtual void resolve(const LayerArgs&, SymbolValues&) const {}
};

struct ShapeContext {
  const SymbolValues& symbols;
  std::vector<Extents> inputs, outputs;  // data-dependent dims at their upper bound
};

// Of the layer at these symbols, which outlive it.
inline ShapeContext shape_context(const LayerQuery& query, const SymbolValues& symbols) {
  return {.symbols = symbols,
          .inputs = upper_extents(query.graph, query.layer().inputs, symbols),
          .outputs = upper_extents(query.graph, query.layer().outputs, symbols)};
}

class LayerKernel {
 public:
  virtual ~LayerKernel() = default;
  virtual std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const = 0;
  // What only a network needs: forms of kernels for other places than by themselves (LaunchPlace).
  virtual void make_forms(const Device&, BlobStore&) {}
};

struct TacticFamily {
  std::string_view runner;
  // Tactics of the layer, supported and refused, best guess first. Nothing for operators that are not the
  // family's.
  std::vector<Tactic> (*list)(const LayerQuery& query, const Device& device);
  // `device` outlives the kernel.
  std::unique_ptr<LayerKernel> (*make)(const LayerQuery& query, const Tactic& tactic, const Device& device,
                                       const PackContext& pack);
  // The kernels that make() will compile, for compiling them ahead on other threads. Null: none.
  std::vector<KernelSource> (*sources)(const LayerQuery& query, const Tactic& tactic,
                                       const Device& device) = nullptr;
  // Whether a tactic of a loaded engine fits the layer, where list() asks a library and takes too long. Null:
  // it must be in list().
  Support (*accepts)(const LayerQuery& query, const Tactic& tactic, const Device& device) = nullptr;
  // What the packed constants depend on besides the types of the operands: tactics with the same key pack
  // alike, and share what one of them has packed while a layer is timed. Null: each packs in its own way.
  std::string (*packing_key)(const Tactic& tactic) = nullptr;
  // Whether its tactics are expected to beat all other families' for this layer, wherever it stands in the
  // list. Null: no.
  bool (*leads)(const LayerQuery& query, const Device& device) = nullptr;
};

// tactics.cpp: all families, in the order of expectation.
std::vector<TacticFamily> tactic_families();
const std::vector<TacticFamily>& all_families();  // the same, kept

// Throws Input when no family offers the tactic for the layer; a program's choices may come from a file.
void check_choice(const std::vector<Graph>& graphs, NodeId layer, const SymbolRanges& ranges,
                  const Tactic& tactic, const Device& device);
// Names the tactic's packed constants among those of its layer; the same for tactics that pack alike.
std::string packing_key(const Tactic& tactic);
// The kernel of a layer.
std::unique_ptr<LayerKernel> make_kernel(const LayerQuery& query, const Tactic& tactic, const Device& device,
                                         const PackContext& pack);

}  // namespace lathe::cuda
