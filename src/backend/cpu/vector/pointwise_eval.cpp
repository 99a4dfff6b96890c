// SPDX-License-Identifier: Apache-2.0
//
// Compiling a pointwise program to vector loops, and walking the result's storage. See pointwise_eval.h for
// the idea.
#include "backend/cpu/vector/pointwise_eval.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/pointwise_loops.h"
#include "base/error.h"
#include "base/floats.h"

namespace lathe::cpu {
namespace {

template <class T>
float element(const std::byte* base, int64_t i) {
  return static_cast<float>(reinterpret_cast<const T*>(base)[i]);
}

float load_element(DType dtype, const std::byte* base, int64_t i) {
  switch (dtype) {
    case DType::Float32:
      return element<float>(base, i);
    case DType::BFloat16:
      return bf16_to_float(reinterpret_cast<const uint16_t*>(base)[i]);
    case DType::Float16:
      return fp16_to_float(reinterpret_cast<const uint16_t*>(base)[i]);
    case DType::Bool:
      return base[i] != std::byte{0} ? 1.0f : 0.0f;
    case DType::UInt8:
      return element<uint8_t>(base, i);
    case DType::Int8:
      return element<int8_t>(base, i);
    case DType::UInt16:
      return element<uint16_t>(base, i);
    case DType::Int16:
      return element<int16_t>(base, i);
    case DType::UInt32:
      return element<uint32_t>(base, i);
    case DType::Int32:
      return element<int32_t>(base, i);
    case DType::UInt64:
      return element<uint64_t>(base, i);
    case DType::Int64:
      return element<int64_t>(base, i);
    default:
      check(false, "pointwise operand type");
      return 0;
  }
}

// The loops of an integer type; null for a type without.
PointwiseTable::LoadIntegers integer_load(const PointwiseTable& t, DType dtype) {
  switch (dtype) {
    case DType::Int8:
      return t.load_i8;
    case DType::UInt8:
      return t.load_u8;
    case DType::Int16:
      return t.load_i16;
    case DType::UInt16:
      return t.load_u16;
    case DType::Int32:
      return t.load_i32;
    case DType::Int64:
      return t.load_i64;
    default:
      return nullptr;
  }
}

PointwiseTable::StoreIntegers integer_store(const PointwiseTable& t, DType dtype) {
  switch (dtype) {
    case DType::Int8:
      return t.store_i8;
    case DType::UInt8:
      return t.store_u8;
    case DType::Int16:
      return t.store_i16;
    case DType::UInt16:
      return t.store_u16;
    case DType::Int32:
      return t.store_i32;
    case DType::Int64:
      return t.store_i64;
    default:
      return nullptr;
  }
}

// Every number of the type is one of FP32.
bool is_exact_in_fp32(DType dtype) {
  return is_integer(dtype) && dtype_info(dtype).bits >= 8 && dtype_info(dtype).bits <= 16;
}

bool is_loaded_float(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::BFloat16 || dtype == DType::Float16;
}

// Where each step's result lives: a slot is free again after the result's last reader. `first_free` slots are
// taken. Returns how many slots there are in all.
int assign_step_slots(const PointwiseProgram& program, int first_free, std::vector<int>& slot_of_step) {
  const auto steps = static_cast<int>(program.steps.size());
  std::vector<int> last_use(program.steps.size(), steps);
  for (int s = 0; s < steps; ++s)
    for (const int operand : program.steps[static_cast<size_t>(s)].operands)
      if (operand >= program.input_count) last_use[static_cast<size_t>(operand - program.input_count)] = s;
  std::vector<int> free_slots;
  int slots = first_free;
  slot_of_step.assign(program.steps.size(), 0);
  for (int s = 0; s < steps; ++s) {
    // A result may take the slot of an operand that ends here: loops read an element before they write it.
    for (int p = 0; p < s; ++p)
      if (last_use[static_cast<size_t>(p)] == s) free_slots.push_back(slot_of_step[static_cast<size_t>(p)]);
    if (free_slots.empty()) free_slots.push_back(slots++);
    slot_of_step[static_cast<size_t>(s)] = free_slots.back();
    free_slots.pop_back();
  }
  return slots;
}

// The program without a rounding to the grid of its result and a clip to the grid's range at its end: bytes
// are stored so in any case.
PointwiseProgram without_storing_steps(PointwiseProgram program, const std::optional<ByteGrid>& grid) {
  if (!grid) return program;
  std::vector<PointwiseStep>& steps = program.steps;
  const float low = (0 - grid->zero) * grid->scale, high = (255 - grid->zero) * grid->scale,
              half = 0.5f * grid->scale;
  const auto is_stored_so = [&](const PointwiseStep& step) {
    if (step.code == PointwiseCode::RoundTo) return step.alpha == grid->scale;
    return step.code == PointwiseCode::Clip && step.alpha < low + half && step.beta > high - half;
  };
  while (steps.size() > 1 && is_stored_so(steps.back()) &&
         steps.back().operands[0] == program.input_count + static_cast<int>(steps.size()) - 2)
    steps.pop_back();
  return program;
}

}  // namespace

Support PointwiseEvaluator::supports(const PointwiseProgram& program, std::span<const DType> inputs,
                                     DType output, Integers integers) {
  const bool only_converts = program.steps.size() == 1 && program.steps[0].code == PointwiseCode::Identity;
  const bool from_float =
      std::all_of(inputs.begin(), inputs.end(), [](DType dtype) { return is_loaded_float(dtype); });
  const bool stores_integer =
      integer_store(pointwise_table(Isa::Avx2), output) != nullptr &&
      ((integers == Integers::Numbers && is_exact_in_fp32(output)) || (only_converts && from_float));
  if (!is_loaded_float(output) && output != DType::Bool && !stores_integer)
    return Support::no("the vector evaluator does not write " + std::string(dtype_name(output)));
  if (inputs.size() > kMaxInputs || program.steps.size() > kMaxSteps)
    return Support::no("the program has more than 12 operands or 64 steps");
  for (const DType dtype : inputs) {
    if (is_loaded_float(dtype) || dtype == DType::Bool) continue;
    if (only_converts && is_integer(dtype) && dtype_info(dtype).bits >= 8) continue;
    if (integers == Integers::Numbers && is_exact_in_fp32(dtype)) continue;
    return Support::no("the vector evaluator computes in FP32, which would be wrong for " +
                       std::string(dtype_name(dtype)));
  }
  for (const PointwiseStep& step : program.steps)
    if (is_bitwise(step.code)) return Support::no("no vector loop for " + std::string(enum_name(step.code)));
  std::vector<int> slots;
  if (assign_step_slots(program, program.input_count, slots) > kMaxSlots)
    return Support::no("the program keeps more than 24 values alive at once");
  return {};
}

PointwiseEvaluator::PointwiseEvaluator(const PointwiseProgram& program, std::vector<PointwiseOperand> inputs,
                                       PointwiseOperand output, Isa isa)
    : output_type_(output.type.dtype),
      output_grid_(output.grid),
      output_size_(dtype_bytes(output.type.dtype, 1)) {
  inputs_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs_[i].dtype = inputs[i].type.dtype;
    inputs_[i].grid = inputs[i].grid;
  }
  compile(without_storing_steps(program, output.grid), isa);
  set_walk(inputs, output);
}

void PointwiseEvaluator::compile(const PointwiseProgram& program, Isa isa) {
  table_ = &pointwise_table(isa);
  const size_t input_count = inputs_.size();
  check(static_cast<size_t>(program.input_count) == input_count && !program.steps.empty(),
        "pointwise program and operands differ");
  for (const PointwiseStep& source : program.steps) {
    Step step;
    step.code = source.code;
    step.alpha = source.alpha;
    step.beta = source.beta;
    step.arity = static_cast<int>(source.operands.size());
    for (int i = 0; i < step.arity; ++i) {
      step.operands[i] = source.operands[static_cast<size_t>(i)];
      if (static_cast<size_t>(step.operands[i]) < input_count)
        inputs_[static_cast<size_t>(step.operands[i])].used = true;
    }
    step.unary = unary_loop(*table_, step.code);
    step.binary = binary_loops(*table_, step.code);
    check(step.unary || step.binary.vector_vector || step.code == PointwiseCode::Where,
          "pointwise operation without a loop");
    // Binary loops take one single value; everything else wants vectors.
    const bool takes_scalar = step.binary.vector_vector != nullptr;
    int singles = 0;
    for (int i = 0; i < step.arity; ++i) {
      if (static_cast<size_t>(step.operands[i]) >= input_count) continue;
      if (!takes_scalar || singles > 0) inputs_[static_cast<size_t>(step.operands[i])].splat = true;
      ++singles;
    }
    steps_.push_back(step);
  }
  // Input copies keep their slots for a whole run.
  int slots = 0;
  for (Input& input : inputs_)
    if (input.used) input.slot = slots++;
  std::vector<int> slot_of_step;
  slots = assign_step_slots(program, slots, slot_of_step);
  check(slots <= kMaxSlots, "pointwise program keeps too many values alive");
  for (size_t s = 0; s < steps_.size(); ++s) steps_[s].slot = slot_of_step[s];
}

void PointwiseEvaluator::set_walk(const std::vector<PointwiseOperand>& inputs,
                                  const PointwiseOperand& output) {
  const StorageWalk walk = storage_walk(output.extents, output.type.format);
  storage_elements_ = 1;
  std::vector<Extents> strides;
  for (const PointwiseOperand& input : inputs)
    strides.push_back(operand_strides(input.extents, input.type.format, output.extents, output.type.format));
  // Merge dims from the outside in: an inner dim continues the one before it when that holds for every
  // operand.
  dims_ = 0;
  for (size_t d = 0; d < walk.extents.size(); ++d) {
    const int64_t extent = walk.extents[d];
    storage_elements_ *= extent;
    if (extent == 1) continue;
    bool joins = dims_ > 0;
    for (size_t i = 0; i < inputs.size() && joins; ++i)
      joins = inputs_[i].strides[dims_ - 1] == strides[i][d] * extent;
    if (!joins) check(++dims_ <= kMaxDims, "pointwise walk has too many dims");
    const int at = dims_ - 1;
    extents_[at] = joins ? extents_[at] * extent : extent;
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].strides[at] = strides[i][d];
  }
  if (dims_ == 0) {
    dims_ = 1;
    extents_[0] = storage_elements_;
  }
  // Short rows are taken together: the group has two dims then.
  inner_ = extents_[dims_ - 1];
  const bool two = dims_ > 1 && inner_ <= kPointwisePiece / 2;
  outer_ = dims_ - (two ? 2 : 1);
  group_ = two ? inner_ * extents_[dims_ - 2] : inner_;
  piece_ = two ? kPointwisePiece / inner_ * inner_ : kPointwisePiece;
  differs_by_row_ = false;
  for (Input& input : inputs_) {
    const int64_t inner = input.strides[dims_ - 1], outer = two ? input.strides[dims_ - 2] : inner * inner_;
    if (inner == 0 && outer == 0)
      input.access = input.splat ? Access::Splat : Access::Scalar;
    else if (inner == 1 && (!two || outer == inner_))
      input.access = Access::Contiguous;
    else if (two && outer == 0)
      input.access = Access::Periodic;
    else
      input.access = Access::General;
    if (input.access == Access::Scalar && outer_ > 0 && input.strides[outer_ - 1] != 0)
      differs_by_row_ = true;
  }
  if (output.type.format.kind == Format::Kind::ChannelBlocked) {
    block_ = output.type.format.block;
    tail_ = output.extents[1] % block_;
    channel_blocks_ = (output.extents[1] + block_ - 1) / block_;
    spatial_ = 1;
    for (size_t d = 2; d < output.extents.size(); ++d) spatial_ *= output.extents[d];
  }
}

void PointwiseEvaluator::run(std::span<const void* const> inputs, void* output, int64_t begin,
                             int64_t end) const {
  walk(nullptr, inputs, static_cast<std::byte*>(output), begin, end);
}

void PointwiseEvaluator::run_tile(const void* first, int64_t first_stride,
                                  std::span<const void* const> inputs, void* output, const Tile& tile) const {
  const auto* source = static_cast<const std::byte*>(first);
  auto* target = static_cast<std::byte*>(output);
  if (tile.row_stride == tile.cols && (first_stride == tile.cols || tile.rows == 1)) {
    walk(source, inputs, target, tile.offset, tile.offset + tile.rows * tile.cols);
    return;
  }
  const bool inside = dims_ == 1 || (dims_ == 2 && tile.row_stride % inner_ == 0 &&
                                     tile.offset % inner_ + tile.cols <= inner_);
  if (inside && !differs_by_row_ && tail_ == 0 && tile.rows > 1 && tile.cols <= kPointwisePiece / 4) {
    run_narrow_tile(source, first_stride, inputs, target, tile);
    return;
  }
  const int64_t step = first_stride * dtype_bytes(inputs_[0].dtype, 1);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t begin = tile.offset + r * tile.row_stride;
    walk(source + r * step, inputs, target, begin, begin + tile.cols);
  }
}

void PointwiseEvaluator::walk(const std::byte* first, std::span<const void* const> inputs, std::byte* output,
                              int64_t begin, int64_t end) const {
  if (begin >= end) return;
  int64_t index[kMaxDims];
  Run run;
  run.start = begin % group_;
  int64_t rest = begin / group_;
  for (int d = outer_ - 1; d >= 0; --d) {
    index[d] = rest % extents_[d];
    rest /= extents_[d];
  }
  for (int64_t at = begin; at < end; at += run.count) {
    run.count = std::min(end - at, group_ - run.start);
    run.output = output + at * output_size_;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].used) continue;
      int64_t offset = 0;
      for (int d = 0; d < outer_; ++d) offset += index[d] * inputs_[i].strides[d];
      if (first != nullptr && i == 0) continue;
      run.inputs[i] = static_cast<const std::byte*>(inputs[i]) + offset * dtype_bytes(inputs_[i].dtype, 1);
    }
    if (first != nullptr) run.first = first + (at - begin) * dtype_bytes(inputs_[0].dtype, 1);
    execute(run);
    run.start = 0;
    for (int d = outer_ - 1; d >= 0 && ++index[d] == extents_[d]; --d) index[d] = 0;
  }
  if (tail_ != 0) clear_padding(output, begin, end);
}

void PointwiseEvaluator::execute(const Run& run) const {
  alignas(64) float slots[kMaxSlots][kPointwisePiece];
  const float* values[kMaxInputs + kMaxSteps];
  for (int64_t done = 0; done < run.count; done += piece_) {
    const int64_t count = std::min(piece_, run.count - done);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].used) values[i] = load(run, i, done, count, slots[inputs_[i].slot]);
    std::byte* out = run.output + done * output_size_;
    float* direct = output_type_ == DType::Float32 ? reinterpret_cast<float*>(out) : nullptr;
    const float* result = run_steps(values, slots, count, direct);
    if (direct == nullptr) store(result, out, count);
  }
}

// Runs all steps; the last one writes to `target` when there is one, else to its slot. Returns where the
// result is.
const float* PointwiseEvaluator::run_steps(const float** values, float (*slots)[kPointwisePiece],
                                           int64_t count, float* target) const {
  const size_t input_count = inputs_.size();
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& current = steps_[s];
    const float* operands[3];
    for (int i = 0; i < current.arity; ++i) operands[i] = values[current.operands[i]];
    const bool last = s + 1 == steps_.size();
    float* to = last && target != nullptr ? target : slots[current.slot];
    step(current, operands, to, count);
    values[input_count + s] = to;
  }
  return values[input_count + steps_.size() - 1];
}

void PointwiseEvaluator::store(const float* result, std::byte* out, int64_t count) const {
  if (output_grid_) {
    auto* bytes = reinterpret_cast<uint8_t*>(out);
    return table_->store_grid(result, bytes, count, output_grid_->scale, output_grid_->zero);
  }
  switch (output_type_) {
    case DType::Float32:
      std::memcpy(out, result, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::BFloat16:
      table_->store_bf16(result, reinterpret_cast<uint16_t*>(out), count);
      return;
    case DType::Float16:
      table_->store_f16(result, reinterpret_cast<uint16_t*>(out), count);
      return;
    case DType::Bool:
      table_->store_bool(result, reinterpret_cast<uint8_t*>(out), count);
      return;
    default:
      integer_store(*table_, output_type_)(result, out, count);
  }
}

// A tile whose rows stay inside the innermost walk dim: several rows per piece, gathered and scattered row by
// row, so that the steps still run over long pieces. Products produce such tiles, 16 or 32 columns wide.
void PointwiseEvaluator::run_narrow_tile(const std::byte* first, int64_t first_stride,
                                         std::span<const void* const> inputs, std::byte* output,
                                         const Tile& tile) const {
  alignas(64) float slots[kMaxSlots][kPointwisePiece];
  const float* values[kMaxInputs + kMaxSteps];
  const int64_t piece_rows = kPointwisePiece / tile.cols;
  const bool two = dims_ == 2;
  for (int64_t r0 = 0; r0 < tile.rows; r0 += piece_rows) {
    const int64_t rows = std::min(piece_rows, tile.rows - r0), count = rows * tile.cols;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      if (!input.used) continue;
      float* slot = slots[input.slot];
      values[i] = slot;
      const int64_t size = dtype_bytes(input.dtype, 1);
      int64_t inner = input.strides[dims_ - 1], step = first_stride;
      const std::byte* base = first + r0 * first_stride * size;
      if (i > 0) {
        const int64_t outer = two ? input.strides[0] : inner * inner_;
        step = two ? tile.row_stride / inner_ * outer : tile.row_stride * inner;
        const int64_t start =
            two ? tile.offset / inner_ * outer + tile.offset % inner_ * inner : tile.offset * inner;
        base = static_cast<const std::byte*>(inputs[i]) + (start + r0 * step) * size;
      } else {
        inner = 1;
      }
      if (input.dtype == DType::Float32 && inner == 1 && step == tile.cols) {
        values[i] = reinterpret_cast<const float*>(base);
        continue;
      }
      if (step == 0 && r0 > 0) continue;  // the same for all rows
      if (i > 0 && input.access == Access::Scalar) {
        slot[0] = single(input, base, 0);
        continue;
      }
      if (input.dtype == DType::Float32 && inner == 1) {
        table_->copy_rows(reinterpret_cast<const float*>(base), step, slot, tile.cols, rows, tile.cols);
        continue;
      }
      for (int64_t r = 0; r < rows; ++r, base += step * size)
        load_run(input, base, inner, tile.cols, slot + r * tile.cols);
    }
    std::byte* out = output + (tile.offset + r0 * tile.row_stride) * output_size_;
    const bool dense = tile.row_stride == tile.cols && output_type_ == DType::Float32;
    const float* result = run_steps(values, slots, count, dense ? reinterpret_cast<float*>(out) : nullptr);
    if (dense) continue;
    if (output_type_ == DType::Float32) {
      table_->copy_rows(result, tile.cols, reinterpret_cast<float*>(out), tile.row_stride, rows, tile.cols);
      continue;
    }
    for (int64_t r = 0; r < rows; ++r)
      store(result + r * tile.cols, out + r * tile.row_stride * output_size_, tile.cols);
  }
}

void PointwiseEvaluator::step(const Step& step, const float* const* operands, float* out,
                              int64_t count) const {
  const int input_count = static_cast<int>(inputs_.size());
  const auto single = [&](int i) {
    return step.operands[i] < input_count &&
           inputs_[static_cast<size_t>(step.operands[i])].access == Access::Scalar;
  };
  if (step.unary) {
    step.unary(operands[0], out, count, step.alpha, step.beta);
  } else if (step.binary.vector_vector) {
    const BinaryLoop loop = single(0)   ? step.binary.scalar_vector
                            : single(1) ? step.binary.vector_scalar
                                        : step.binary.vector_vector;
    loop(operands[0], operands[1], out, count);
  } else {
    table_->where(operands[0], operands[1], operands[2], out, count);
  }
}

const float* PointwiseEvaluator::load(const Run& run, size_t index, int64_t done, int64_t count,
                                      float* slot) const {
  const Input& input = inputs_[index];
  const std::byte* base = run.inputs[index];
  int64_t position = run.start + done;
  Access access = input.access;
  if (index == 0 && run.first != nullptr) {
    base = run.first;
    position = done;
    access = Access::Contiguous;
  }
  switch (access) {
    case Access::Contiguous:
      if (input.dtype == DType::Float32) return reinterpret_cast<const float*>(base) + position;
      gather(input, base, position, count, slot);
      return slot;
    case Access::Scalar:
      if (done == 0) slot[0] = single(input, base, 0);
      return slot;
    case Access::Splat:
      if (done == 0) table_->splat(single(input, base, 0), slot, count);
      return slot;
    case Access::Periodic:
    case Access::General:
      break;
  }
  // Rows of the group, or parts of them at both ends. A periodic operand has the same phase in every piece.
  if (access == Access::Periodic && done > 0) return slot;
  const int64_t size = dtype_bytes(input.dtype, 1), inner = input.strides[dims_ - 1];
  const int64_t outer = outer_ == dims_ - 2 ? input.strides[dims_ - 2] : 0;
  int64_t row = outer_ == dims_ - 2 ? position / inner_ : 0;
  int64_t col = position - row * inner_;
  if (access == Access::Periodic && col == 0) {  // short periods: double what is there
    load_run(input, base, inner, std::min(inner_, count), slot);
    for (int64_t filled = inner_; filled < count; filled *= 2)
      std::memcpy(slot + filled, slot, static_cast<size_t>(std::min(filled, count - filled)) * sizeof(float));
    return slot;
  }
  for (int64_t i = 0; i < count; ++row, col = 0) {
    const int64_t n = std::min(count - i, inner_ - col);
    const std::byte* at = base + (row * outer + col * inner) * size;
    load_run(input, at, inner, n, slot + i);
    i += n;
  }
  return slot;
}

// `count` elements that lie `stride` apart, as FP32.
void PointwiseEvaluator::load_run(const Input& input, const std::byte* base, int64_t stride, int64_t count,
                                  float* out) const {
  if (stride == 0) {
    table_->splat(single(input, base, 0), out, count);
  } else if (stride == 1) {
    gather(input, base, 0, count, out);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = single(input, base, i * stride);
  }
}

float PointwiseEvaluator::single(const Input& input, const std::byte* base, int64_t position) const {
  const float stored = load_element(input.dtype, base, position);
  return input.grid ? (stored - input.grid->zero) * input.grid->scale : stored;
}

void PointwiseEvaluator::gather(const Input& input, const std::byte* base, int64_t position, int64_t count,
                                float* out) const {
  const std::byte* at = base + position * dtype_bytes(input.dtype, 1);
  if (input.grid) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(at);
    return table_->load_grid(bytes, out, count, input.grid->scale, input.grid->zero);
  }
  switch (input.dtype) {
    case DType::Float32:
      std::memcpy(out, at, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::BFloat16:
      table_->load_bf16(reinterpret_cast<const uint16_t*>(at), out, count);
      return;
    case DType::Float16:
      table_->load_f16(reinterpret_cast<const uint16_t*>(at), out, count);
      return;
    case DType::Bool:
      table_->load_bool(reinterpret_cast<const uint8_t*>(at), out, count);
      return;
    default:
      if (const auto load = integer_load(*table_, input.dtype)) return load(at, out, count);
      for (int64_t i = 0; i < count; ++i) out[i] = load_element(input.dtype, at, i);
  }
}

void PointwiseEvaluator::clear_padding(std::byte* output, int64_t begin, int64_t end) const {
  const int64_t plane = spatial_ * block_;
  for (int64_t at = begin / block_; at * block_ < end; ++at) {
    const int64_t channel_block = at * block_ / plane % channel_blocks_;
    if (channel_block != channel_blocks_ - 1) {  // on to the next last block
      at += (channel_blocks_ - 1 - channel_block) * spatial_ - at % spatial_ - 1;
      continue;
    }
    const int64_t from = std::max(at * block_ + tail_, begin), to = std::min((at + 1) * block_, end);
    if (from < to)
      std::memset(output + from * output_size_, 0, static_cast<size_t>((to - from) * output_size_));
  }
}

}  // namespace lathe::cpu
