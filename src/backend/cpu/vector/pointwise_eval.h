// SPDX-License-Identifier: Apache-2.0
//
// Runs a pointwise program over memory: as a layer, or as the epilogue of another layer on pieces of its
// result while they are in cache.
//
// A program is compiled once per extents (PointwiseEvaluator) into calls of vector loops over runs of
// kPointwisePiece FP32 elements that stay in L1. The result's storage order decides the walk: its dims are
// merged as far as all operands agree, so that every run is contiguous in the result, and each operand is
// contiguous, a single value, or gathered.
//
// Epilogue wraps this for tactics: it lists operand types, keeps constant operands, and applies itself to a
// tile.
//
//   // list():
//   if (Support s = Epilogue::list(query, result_type, tactic.inputs); !s.ok) tactic.support = s;
//   // make():
//   Epilogue epilogue(query, tactic, machine);
//   // prepare():
//   auto prepared = epilogue.prepare(context);             // what is computed is FP32 here
//   // run(), on `rows` x `cols` elements that start `offset` elements into the result's storage:
//   prepared->apply(args, tile, tile_stride, offset, rows, row_stride, cols);
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/vector/pointwise_table.h"
#include "backend/integer_operands.h"
#include "ir/graph.h"

namespace lathe::cpu {

inline constexpr int64_t kPointwisePiece = 512;

const PointwiseTable& pointwise_table(Isa isa);

// One operand or the result, as it lies in memory.
struct PointwiseOperand {
  TensorType type;
  Extents extents;
  std::optional<ByteGrid> grid = std::nullopt;  // of a type UInt8
};

class PointwiseEvaluator {
 public:
  static constexpr int kMaxInputs = 12;
  // What integers are in a program: integers, whose arithmetic wraps around (only conversions are offered),
  // or numbers that are read into FP32 and stay in the range of what is stored, as quantisation has them.
  enum class Integers : uint8_t { Wrap, Numbers };
  // No: an operation or a type needs the reference tactic (integer arithmetic, for example). What is stored
  // as bytes of a grid counts as Float32.
  static Support supports(const PointwiseProgram& program, std::span<const DType> inputs, DType output,
                          Integers integers = Integers::Wrap);

  // Inputs broadcast to `output` by numpy's rule. An input has the output's format, or is linear, or has one
  // element.
  PointwiseEvaluator(const PointwiseProgram& program, std::vector<PointwiseOperand> inputs,
                     PointwiseOperand output, Isa isa);

  int64_t storage_elements() const { return storage_elements_; }

  // A matrix inside the result's storage.
  struct Tile {
    int64_t offset = 0;  // of its first element, in elements
    int64_t rows = 1;
    int64_t row_stride = 0;  // elements between rows
    int64_t cols = 0;
  };
  // Elements [begin, end) of the storage. The output may be one of the inputs that has its type and extents.
  void run(std::span<const void* const> inputs, void* output, int64_t begin, int64_t end) const;
  // A tile whose values for input 0 come from `first` (in input 0's type), rows `first_stride` elements
  // apart; it may be the output itself. inputs[0] is not used.
  void run_tile(const void* first, int64_t first_stride, std::span<const void* const> inputs, void* output,
                const Tile& tile) const;

 private:
  static constexpr int kMaxDims = 10;
  static constexpr int kMaxSlots = 24;
  static constexpr int kMaxSteps = 64;

  // How an input lies along a run (the innermost walk dims).
  enum class Access : uint8_t {
    Contiguous,
    Scalar,
    Splat /* scalar, wanted as a vector */,
    Periodic,
    General
  };
  struct Input {
    DType dtype = DType::Undefined;
    std::optional<ByteGrid> grid;
    bool used = false;
    bool splat = false;  // a single value must be spread out for some step
    Access access = Access::Contiguous;
    int64_t strides[kMaxDims] = {};  // per walk dim, in elements; 0: broadcast
    int slot = 0;                    // where a converted or gathered copy goes
  };
  struct Step {
    PointwiseCode code = PointwiseCode::Identity;
    float alpha = 0, beta = 0;
    int arity = 1;
    int operands[3] = {};  // < input count: an input; else a step
    int slot = 0;
    UnaryLoop unary = nullptr;
    BinaryLoops binary{};
  };
  struct Run {                            // consecutive elements of the result inside one innermost group
    const std::byte* inputs[kMaxInputs];  // at the group's first element
    const std::byte* first = nullptr;     // replaces input 0: contiguous values
    std::byte* output = nullptr;
    int64_t start = 0;  // position in the group
    int64_t count = 0;
  };

  void compile(const PointwiseProgram& program, Isa isa);
  void set_walk(const std::vector<PointwiseOperand>& inputs, const PointwiseOperand& output);
  void walk(const std::byte* first, std::span<const void* const> inputs, std::byte* output, int64_t begin,
            int64_t end) const;
  void execute(const Run& run) const;
  const float* load(const Run& run, size_t input, int64_t done, int64_t count, float* slot) const;
  const float* run_steps(const float** values, float (*slots)[kPointwisePiece], int64_t count,
                         float* target) const;
  void store(const float* result, std::byte* out, int64_t count) const;
  void run_narrow_tile(const std::byte* first, int64_t first_stride, std::span<const void* const> inputs,
                       std::byte* output, const Tile& tile) const;
  void load_run(const Input& input, const std::byte* base, int64_t stride, int64_t count, float* out) const;
  float single(const Input& input, const std::byte* base, int64_t position) const;
  void gather(const Input& input, const std::byte* base, int64_t position, int64_t count, float* out) const;
  void step(const Step& step, const float* const* operands, float* out, int64_t count) const;
  void clear_padding(std::byte* output, int64_t begin, int64_t end) const;

  const PointwiseTable* table_ = nullptr;
  std::vector<Step> steps_;
  std::vector<Input> inputs_;
  DType output_type_ = DType::Undefined;
  std::optional<ByteGrid> output_grid_;
  int64_t output_size_ = 4;  // bytes per element
  int dims_ = 1;             // of the walk, storage order
  int64_t extents_[kMaxDims] = {};
  bool differs_by_row_ = false;    // an operand has one number for each group, as a scale per channel has
  int outer_ = 0;                  // dims before the innermost group (which has one or two)
  int64_t group_ = 1, inner_ = 1;  // elements of the group, of its last dim
  int64_t piece_ = kPointwisePiece;
  int64_t storage_elements_ = 0;
  // Blocked formats: channels in the last block (0 when it is full), and the geometry to find it.
  int64_t tail_ = 0, block_ = 1, channel_blocks_ = 1, spatial_ = 1;
};

// How a tactic whose result has type `result` wants a pointwise operand stored: Undefined for a constant,
// bytes beside bytes where it lies on a grid.
// Sets `reason` when it cannot be used.
TensorType operand_type(const Value& value, const Shape& result_shape, const TensorType& result,
                        std::string& reason);

// The epilogue of a layer at concrete extents.
class PreparedEpilogue {
 public:
  // `values` holds what the layer computed for the tile (type `computed` given to prepare()); the result goes
  // to output 0. `values` may be the output itself. Does nothing when that is so and there is nothing to
  // compute.
  void apply(const LayerArgs& args, const void* values, int64_t values_stride, int64_t offset, int64_t rows,
             int64_t row_stride, int64_t cols) const;
  // Nothing to compute and nothing to convert: a tactic may write its result directly.
  bool is_identity() const { return identity_; }

 private:
  friend class Epilogue;
  std::unique_ptr<PointwiseEvaluator> evaluator_;
  std::vector<const void*> constants_;  // per program input: the constant's address, or null
  std::vector<size_t> arg_index_;       // per program input: index into LayerArgs.inputs
  std::shared_ptr<const void> keep_alive_;
  bool identity_ = false;
  int64_t element_bytes_ = 4;  // of the output
};

class Epilogue {
 public:
  // Appends the types of the layer's epilogue operands to `inputs` (Undefined for constants) for a result of
  // type `output`. A refusal says what is in the way.
  static Support list(const LayerQuery& query, const TensorType& output, std::vector<TensorType>& inputs);

  Epilogue(const LayerQuery& query, const Tactic& tactic, const Machine& machine);
  bool empty() const { return program_.empty(); }
  std::shared_ptr<const PreparedEpilogue> prepare(const ShapeContext& context,
                                                  DType computed = DType::Float32) const;

 private:
  PointwiseProgram program_;
  TensorType output_;
  std::vector<TensorType> operand_types_;
  std::optional<ByteGrid> output_grid_;
  std::vector<std::optional<ByteGrid>> operand_grids_;
  std::vector<Tensor> constants_;
  size_t first_operand_ = 0;
  Isa isa_;
};

}  // namespace lathe::cpu
