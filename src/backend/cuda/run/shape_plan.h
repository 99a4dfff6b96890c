// SPDX-License-Identifier: Apache-2.0
//
// A run of layers at concrete shapes, ready to be enqueued: prepared layers and the addresses of all
// operands. Made once per shapes; a run only patches the caller's buffers in.
//
// Launching 60 kernels one by one costs the host 150 us, as one CUDA graph 1 us. So when shapes and buffers
// come a second time the layers are recorded as graphs: one, or several around layers that work on the host.
// In a graph, layers that do not need one another overlap (launch_groups.h); in an eager run each waits for
// the one in front. A recording counts only when its replay gave the bytes that the eager run gave.
//
// Shapes that come once, as those of a decoder's steps do, share graphs: the layers that know the shape get
// other sizes and arguments.
#pragma once

#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/device/recorded_graph.h"
#include "backend/cuda/device/stream.h"
#include "backend/cuda/run/launch_groups.h"
#include "backend/cuda/run/program.h"
#include "backend/grown_memory.h"
#include "backend/operand_table.h"

namespace lathe::cuda {

// What a layer reads and writes, by operand.
struct OperandBytes {
  std::vector<int64_t> inputs, outputs;
};

struct Step {
  std::shared_ptr<const PreparedLayer> prepared;  // null: nothing to do (a view, or no elements)
  std::shared_ptr<const OperandBytes> bytes;      // null: the layer overlaps with no other one
  LaunchOrder order = {};                         // in the recording that is made
};

// What decides the calls that a step makes.
struct EnqueuedStep {
  std::shared_ptr<const PreparedLayer> prepared;
  LaunchOrder order;
  std::vector<const void*> addresses;  // scratch, inputs, outputs
  bool operator==(const EnqueuedStep&) const = default;
};

// The graphs that shapes share which come once: one for each piece that can be recorded. They are made when a
// few such shapes have come, from a plan whose recording gave the right bytes. Another plan's steps then get
// into them, those that differ from what is there.
struct UpdatedGraphs {
  static constexpr int kFewRuns = 4, kMostRefusals = 8;
  struct Piece {
    SteppedGraph graph;
    size_t first = 0;                 // layer
    std::vector<EnqueuedStep> steps;  // as they are in it; none: it has to be made anew
  };

  std::vector<Piece> pieces;
  std::vector<LayerUse> uses;  // memory for group()
  std::unique_ptr<GpuStream> recorder;
  int fresh_runs = 0;  // of shapes or buffers that had not been met
  int refusals = 0;    // updates that CUDA did not take
  bool is_off = false;

  // Counts a run of a shape that had not been met.
  bool are_due() { return !is_off && pieces.empty() && ++fresh_runs >= kFewRuns; }
  void turn_off() {
    pieces.clear();
    is_off = true;
  }
};

class ShapePlan {
 public:
  // Layers [first, last). `symbols` has all that these layers' inputs need. What `like`, a plan of the same
  // layers, has prepared for the same values of a layer's symbols is shared: of a decoder's step few layers
  // know how long the past is.
  ShapePlan(const CudaProgram& program, size_t first, size_t last, const SymbolValues& symbols,
            const ShapePlan* like = nullptr);

  const SymbolValues& symbols() const { return symbols_; }
  size_t first_layer() const { return first_; }
  const std::vector<Step>& steps() const { return steps_; }
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Sets the addresses that are not known at preparation. Cheap when they are those of the last call.
  // Memory whose size these symbols say is taken from `grown`, which stays for as long as steps run.
  void bind(std::byte* arena, std::byte* scratch, std::span<void* const> bindings, GrownMemory& grown);
  LayerArgs args(size_t index) const { return {operands_.inputs(index), operands_.outputs(index), scratch_}; }
  // One layer by itself: it waits for all before it.
  void enqueue_step(size_t index, CUstream stream, std::span<double> nested_ms = {}) const {
    enqueue(index, stream, {}, nested_ms);
  }
  void enqueue_all(CUstream stream) const;
  // The same as one or more CUDA graphs where possible; see above.
  void run(CUstream stream, UpdatedGraphs& updated);
  // How the last run() was launched.
  const std::string& note() const { return note_; }

 private:
  // Steps that are recorded together, or one that cannot be.
  struct Piece {
    size_t first = 0, last = 0;
    bool capturable = true;
    bool operator==(const Piece&) const = default;
  };
  struct Recording {
    std::vector<void*> addresses;       // arena, scratch, bindings, slots
    std::vector<RecordedGraph> graphs;  // one per capturable piece
    bool usable = false;
    std::string note;
  };

  void prepare_step(size_t index);
  const std::string& name_of(size_t index) const;
  std::vector<Piece> find_pieces();
  // Which layers overlap, at the addresses that are bound.
  void group(std::vector<LayerUse>& uses);
  void enqueue(size_t index, CUstream stream, const LaunchOrder& order,
               std::span<double> nested_ms = {}) const;
  void enqueue_piece(const Piece& piece, CUstream stream) const;
  Recording record(CUstream stream);
  bool record_pieces(Recording& recording);
  bool can_be_updated() const;
  void make_updated(UpdatedGraphs& updated);
  // As graphs that other shapes left; false when there are none for these layers, and nothing was enqueued.
  bool run_updated(CUstream stream, UpdatedGraphs& updated);
  EnqueuedStep enqueued(size_t index) const;
  SteppedGraph::Calls calls_of(const Piece& piece) const;
  UpdatedGraphs::Piece recorded(const Piece& piece, CUstream recorder) const;
  // Makes graph `number` that of the piece; false when it cannot be recorded.
  bool update(const Piece& piece, CUstream stream, UpdatedGraphs& updated, size_t number) const;
  void replay(const Recording& recording, CUstream stream) const;
  // The bytes of all graph outputs that these layers write.
  std::vector<std::vector<std::byte>> output_bytes(CUstream stream) const;
  void poison_outputs(CUstream stream) const;
  struct Result {
    CUdeviceptr address = 0;
    size_t bytes = 0;
  };
  std::vector<Result> results() const;

  const CudaProgram& program_;
  size_t first_ = 0;
  SymbolValues symbols_;
  std::vector<Step> steps_;
  OperandTable operands_;
  std::vector<Piece> pieces_;
  std::string uncapturable_;  // why there is more than one piece
  GrownResults grown_results_;
  GrownMemory* grown_ = nullptr;
  size_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  std::vector<void*> bound_;              // arena, scratch, bindings, slots
  std::vector<std::vector<void*>> seen_;  // addresses that ran once
  std::list<Recording> recordings_;       // most recently used first
  std::string note_;
};

}  // namespace lathe::cuda
