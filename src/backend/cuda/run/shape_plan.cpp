// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/shape_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backend/cuda/device/timeline.h"
#include "backend/cuda/run/launch_groups.h"
#include "backend/cuda/run/reference.h"
#include "backend/no_elements.h"
#include "backend/plan_steps.h"
#include "backend/shape_check.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

// A caller with double buffers has two sets of addresses; more sets than this are run eagerly.
constexpr size_t kKeptRecordings = 8;

CUdeviceptr device_address(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

}  // namespace

ShapePlan::ShapePlan(const CudaProgram& program, size_t first, size_t last, const SymbolValues& symbols,
                     const ShapePlan* like)
    : program_(program), first_(first), symbols_(symbols), steps_(last - first), operands_(last - first) {
  ShapeCheck shapes(program.spec(), symbols, LateSpread::Nowhere);
  share_steps(
      program, first, steps_.size(), symbols, like,
      [&](size_t begin, size_t end) {
        shapes.check(first + begin, first + end);
        for (size_t i = begin; i < end; ++i) prepare_step(i);
      },
      [&](size_t i) { steps_[i] = like->steps_[i]; });
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].prepared == nullptr) continue;
    operands_.place(i, program_.graph().node(program_.layers()[first_ + i].node), program_.spec(), symbols_,
                    [&](ValueId id) { return program_.constant(id); });
    scratch_bytes_ = std::max(scratch_bytes_, steps_[i].prepared->scratch_bytes());
  }
  pieces_ = find_pieces();
  grown_results_ =
      GrownResults(program.spec(), first, steps_.size(), symbols, [this](size_t step, ValueId id) {
        return finds_size(program_, steps_[step].prepared.get(), id, symbols_);
      });
}

void ShapePlan::prepare_step(size_t index) try {
  const ProgramLayer& layer = program_.layers()[first_ + index];
  if (layer.kernel == nullptr) return;
  const Graph& graph = program_.graph();
  const Node& node = graph.node(layer.node);
  const ShapeContext context{.symbols = symbols_,
                             .inputs = upper_extents(graph, node.inputs, symbols_),
                             .outputs = upper_extents(graph, node.outputs, symbols_)};
  if (!has_work(program_, first_ + index, context.outputs)) return;
  const Tactic& tactic = program_.spec().choices[first_ + index].tactic;
  steps_[index].prepared =
      needs_reference(node, tactic.runner, context.inputs, context.outputs)
          ? make_reference({graph, layer.node, program_.spec().ranges}, tactic, *program_.device())
                ->prepare(context)
          : layer.kernel->prepare(context);
  // How much a layer writes that finds a size is not known.
  if (!program_.segments().new_symbols[first_ + index].empty() ||
      !steps_[index].prepared->overlap().takes_order)
    return;
  const auto bytes_of = [&](const std::vector<ValueId>& values) {
    std::vector<int64_t> bytes;
    for (const ValueId id : values)
      bytes.push_back(id == kNoValue ? 0 : stored_bytes(graph.value(id), symbols_));
    return bytes;
  };
  steps_[index].bytes =
      std::make_shared<const OperandBytes>(OperandBytes{bytes_of(node.inputs), bytes_of(node.outputs)});
} catch (Error& error) {
  error.add_context(fmt::format("preparing layer '{}'", name_of(index)));
  throw;
}

std::vector<ShapePlan::Piece> ShapePlan::find_pieces() {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.prepared == nullptr) continue;
    const Support support = step.prepared->capturable();
    if (!support.ok && uncapturable_.empty()) uncapturable_ = support.reason;
    if (pieces.empty() || !support.ok || !pieces.back().capturable)
      pieces.push_back({i, i + 1, support.ok});
    else
      pieces.back().last = i + 1;
  }
  return pieces;
}

void ShapePlan::bind(std::byte* arena, std::byte* scratch, std::span<void* const> bindings,
                     GrownMemory& grown) {
  grown_ = &grown;
  grown_results_.reserve(grown);
  std::vector<void*> addresses = {arena, scratch};
  addresses.insert(addresses.end(), bindings.begin(), bindings.end());
  addresses.insert(addresses.end(), grown.addresses().begin(), grown.addresses().end());
  if (addresses == bound_) return;
  operands_.bind(arena, bindings, grown.addresses());
  scratch_ = scratch;
  bound_ = std::move(addresses);
}

void ShapePlan::group(std::vector<LayerUse>& uses) {
  uses.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    uses[i].clear();
    if (step.prepared == nullptr) continue;
    uses[i].is_launched = true;
    if (step.bytes == nullptr) continue;
    uses[i].overlap = step.prepared->overlap();
    const Node& node = program_.graph().node(program_.layers()[first_ + i].node);
    for (size_t k = 0; k < node.inputs.size(); ++k)
      (k < node.op_input_count() ? uses[i].reads : uses[i].late_reads)
          .push_back({operands_.inputs(i)[k], step.bytes->inputs[k]});
    for (size_t k = 0; k < node.outputs.size(); ++k)
      uses[i].writes.push_back({operands_.outputs(i)[k], step.bytes->outputs[k]});
  }
  const std::vector<LaunchOrder> orders = group_launches(uses);
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i].order = orders[i];
}

const std::string& ShapePlan::name_of(size_t index) const {
  return program_.graph().node(program_.layers()[first_ + index].node).name;
}

void ShapePlan::enqueue(size_t index, CUstream stream, const LaunchOrder& order,
                        std::span<double> nested_ms) const {
  const Step& step = steps_[index];
  if (step.prepared == nullptr) return;
  // Also while a graph is recorded: a profiler traces a replay's kernels back to where they were recorded.
  const TimelineRange range(name_of(index));
  LayerArgs operands = args(index);
  operands.nested_ms = nested_ms;
  std::optional<TakenResults> results;
  if (step.prepared->takes_memory() && grown_results_.takes_any())
    operands.results = &results.emplace(*grown_, grown_results_, index);
  try {
    operands.order = order;
    step.prepared->enqueue(operands, stream);
  } catch (Error& error) {
    error.add_context(fmt::format("in layer '{}'", name_of(index)));
    throw;
  }
}

SteppedGraph::Calls ShapePlan::calls_of(const Piece& piece) const {
  return {.enqueue = [this, &piece](
                         size_t step,
                         CUstream s) { enqueue(piece.first + step, s, steps_[piece.first + step].order); },
          .visit =
              [this, &piece](size_t number, const LaunchVisitor& visitor) {
                const Step& step = steps_[piece.first + number];
                LayerArgs operands = args(piece.first + number);
                operands.order = step.order;
                return step.prepared == nullptr || step.prepared->visit_launches(operands, visitor);
              }};
}

void ShapePlan::enqueue_all(CUstream stream) const {
  for (size_t i = 0; i < steps_.size(); ++i) enqueue_step(i, stream);
}

void ShapePlan::enqueue_piece(const Piece& piece, CUstream stream) const {
  for (size_t i = piece.first; i < piece.last; ++i) enqueue(i, stream, steps_[i].order);
}

void ShapePlan::run(CUstream stream, UpdatedGraphs& updated) {
  const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                  [&](const Recording& r) { return r.addresses == bound_; });
  if (found != recordings_.end()) {
    recordings_.splice(recordings_.begin(), recordings_, found);
    note_ = recordings_.front().note;
    if (recordings_.front().usable) return replay(recordings_.front(), stream);
    return enqueue_all(stream);
  }
  bool is_shared = false;
  if (std::find(seen_.begin(), seen_.end(), bound_) == seen_.end()) {
    if (seen_.size() >= kKeptRecordings) seen_.erase(seen_.begin());
    seen_.push_back(bound_);
    if (run_updated(stream, updated)) return;
    is_shared = can_be_updated() && updated.are_due();
    note_ = "launched layer by layer: the first run of these shapes and buffers";
    if (!is_shared) return enqueue_all(stream);
  }
  recordings_.push_front(record(stream));
  if (recordings_.size() > kKeptRecordings) recordings_.pop_back();
  note_ = recordings_.front().note;
  if (is_shared) make_updated(updated);
}

// While calls are recorded, no memory can be had.
bool ShapePlan::can_be_updated() const {
  return !grown_results_.takes_any();
}

EnqueuedStep ShapePlan::enqueued(size_t index) const {
  EnqueuedStep step{steps_[index].prepared, steps_[index].order, {scratch_}};
  const auto inputs = operands_.inputs(index);
  const auto outputs = operands_.outputs(index);
  step.addresses.insert(step.addresses.end(), inputs.begin(), inputs.end());
  step.addresses.insert(step.addresses.end(), outputs.begin(), outputs.end());
  return step;
}

UpdatedGraphs::Piece ShapePlan::recorded(const Piece& piece, CUstream recorder) const {
  UpdatedGraphs::Piece made{
      SteppedGraph(*program_.device(), recorder, piece.last - piece.first, calls_of(piece)), piece.first, {}};
  for (size_t i = piece.first; i < piece.last; ++i) made.steps.push_back(enqueued(i));
  return made;
}

void ShapePlan::make_updated(UpdatedGraphs& updated) {
  if (!recordings_.front().usable) return updated.turn_off();
  try {
    updated.recorder = std::make_unique<GpuStream>(program_.device());
    for (const Piece& piece : pieces_)
      if (piece.capturable) updated.pieces.push_back(recorded(piece, updated.recorder->handle()));
  } catch (const Error&) {
    updated.turn_off();
  }
}

bool ShapePlan::run_updated(CUstream stream, UpdatedGraphs& updated) {
  const auto capturable =
      std::count_if(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece.capturable; });
  if (updated.pieces.empty() || updated.pieces.size() != static_cast<size_t>(capturable) || !can_be_updated())
    return false;
  group(updated.uses);
  size_t next = 0, nodes = 0;
  for (const Piece& piece : pieces_) {
    if (!piece.capturable || !update(piece, stream, updated, next)) {
      for (size_t i = piece.first; i < piece.last; ++i) enqueue_step(i, stream);
    } else {
      updated.pieces[next].graph.launch(stream);
      nodes += updated.pieces[next].graph.nodes();
    }
    next += piece.capturable ? 1 : 0;
  }
  note_ = fmt::format("launched as {} of {} nodes, updated for these shapes and buffers",
                      capturable == 1 ? "one CUDA graph" : fmt::format("{} CUDA graphs", capturable), nodes);
  if (updated.refusals >= UpdatedGraphs::kMostRefusals) updated.turn_off();
  return true;
}

bool ShapePlan::update(const Piece& piece, CUstream stream, UpdatedGraphs& updated, size_t number) const {
  const CUstream recorder = updated.recorder->handle();
  UpdatedGraphs::Piece& shared = updated.pieces[number];
  // At other sizes other layers may be those that no graph takes, and a piece begins or ends elsewhere.
  const bool is_same = shared.first == piece.first && shared.steps.size() == piece.last - piece.first;
  std::vector<size_t> changed;
  for (size_t i = 0; is_same && i < shared.steps.size(); ++i) {
    EnqueuedStep now = enqueued(piece.first + i);
    if (now == shared.steps[i]) continue;
    shared.steps[i] = std::move(now);
    changed.push_back(i);
  }
  try {
    if (is_same && shared.graph.update(recorder, changed, calls_of(piece))) return true;
    ++updated.refusals;
    UpdatedGraphs::Piece other = recorded(piece, recorder);
    const Driver& driver = *program_.device()->driver;
    driver.require(driver.cuStreamSynchronize(stream), "waiting for a graph that is not needed any more");
    shared = std::move(other);
    return true;
  } catch (const Error&) {  // something in it cannot be recorded at these sizes
    ++updated.refusals;
    shared.steps.clear();
    return false;
  }
}

// False, with the reason in the note, when nothing can be recorded.
bool ShapePlan::record_pieces(Recording& recording) {
  // The caller's stream may be the default one, which cannot be recorded, or get other work meanwhile.
  GpuStream recorder(program_.device());
  try {
    size_t nodes = 0, conditional = 0;
    for (const Piece& piece : pieces_) {
      if (!piece.capturable) continue;
      recording.graphs.emplace_back(*program_.device(), recorder.handle(),
                                    [&](CUstream s) { enqueue_piece(piece, s); });
      nodes += recording.graphs.back().nodes();
      conditional += recording.graphs.back().conditional_nodes();
    }
    if (recording.graphs.empty()) {
      recording.note = "launched layer by layer: " + uncapturable_;
      return false;
    }
    const std::string what =
        fmt::format("{} nodes{}", nodes, conditional > 0 ? fmt::format(", {} conditional", conditional) : "");
    recording.note = recording.graphs.size() == 1 && uncapturable_.empty()
                         ? fmt::format("launched as one CUDA graph of {}", what)
                         : fmt::format("launched as {} CUDA graphs of {} together: {}",
                                       recording.graphs.size(), what, uncapturable_);
    return true;
  } catch (const Error& error) {
    recording.graphs.clear();
    // A layer may know by now that it cannot be recorded; then the others are.
    std::vector<Piece> pieces = find_pieces();
    if (pieces != pieces_) {
      pieces_ = std::move(pieces);
      return record_pieces(recording);
    }
    recording.note = fmt::format("launched layer by layer: {}", error.what());
    return false;
  }
}

ShapePlan::Recording ShapePlan::record(CUstream stream) {
  Recording recording{.addresses = bound_};
  enqueue_all(stream);
  if (std::none_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece.capturable; })) {
    recording.note = "launched layer by layer: " + uncapturable_;
    return recording;
  }
  const auto eager = output_bytes(stream);
  std::vector<LayerUse> uses;
  group(uses);
  if (!record_pieces(recording)) {
    enqueue_all(stream);
    return recording;
  }
  poison_outputs(stream);
  replay(recording, stream);
  recording.usable = output_bytes(stream) == eager;
  if (!recording.usable) {
    recording.note =
        "launched layer by layer: the replay of a CUDA graph gave other bytes than the eager run";
    enqueue_all(stream);
  }
  return recording;
}

void ShapePlan::replay(const Recording& recording, CUstream stream) const {
  size_t next = 0;
  for (const Piece& piece : pieces_) {
    if (piece.capturable)
      recording.graphs[next++].launch(stream);
    else
      enqueue_piece(piece, stream);
  }
}

std::vector<ShapePlan::Result> ShapePlan::results() const {
  std::vector<Result> found;
  const Graph& graph = program_.graph();
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].prepared == nullptr) continue;
    const Node& node = graph.node(program_.layers()[first_ + i].node);
    // Data-dependent results are written up to what was found; behind that lies whatever lay there.
    if (!program_.segments().new_symbols[first_ + i].empty()) continue;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == kNoValue || !graph.is_output(node.outputs[k])) continue;
      const Value& value = graph.value(node.outputs[k]);
      const int64_t bytes = dtype_bytes(value.dtype, element_count(upper_extents(value.shape, symbols_)));
      found.push_back({device_address(operands_.outputs(i)[k]), static_cast<size_t>(bytes)});
    }
  }
  return found;
}

std::vector<std::vector<std::byte>> ShapePlan::output_bytes(CUstream stream) const {
  const Driver& driver = *program_.device()->driver;
  driver.require(driver.cuStreamSynchronize(stream), "running the layers");
  std::vector<std::vector<std::byte>> all;
  for (const Result& result : results()) {
    all.emplace_back(result.bytes);
    if (result.bytes > 0)
      driver.require(driver.cuMemcpyDtoH(all.back().data(), result.address, result.bytes),
                     "reading an output");
  }
  return all;
}

void ShapePlan::poison_outputs(CUstream stream) const {
  const Driver& driver = *program_.device()->driver;
  for (const Result& result : results())
    if (result.bytes > 0)
      driver.require(driver.cuMemsetD8Async(result.address, 0xFF, result.bytes, stream),
                     "clearing an output");
}

}  // namespace lathe::cuda
