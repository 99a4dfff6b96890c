// SPDX-License-Identifier: Apache-2.0
//
// Reformat and Cast between float types, and between floats and bytes of their grid. Four ways, by what
// changes:
//   type only (same format)         the pointwise evaluator's identity over pieces of the storage
//   bytes of two to four channels   to channels-last, in registers: the pixels of pictures
//   format, FP32, BF16 and bytes    oneDNN's reorder, split over the spatial positions
//   anything else                   element by element, for types that nobody is in a hurry with
#include "backend/cpu/run/reformat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/transpose_tile.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/hash.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kReformatRunner = "Reformat";

float load_float(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::BFloat16:
      return bf16_to_float(static_cast<const uint16_t*>(data)[index]);
    case DType::Float16:
      return fp16_to_float(static_cast<const uint16_t*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void store_float(void* data, DType dtype, int64_t index, float value) {
  switch (dtype) {
    case DType::BFloat16:
      static_cast<uint16_t*>(data)[index] = float_to_bf16(value);
      return;
    case DType::Float16:
      static_cast<uint16_t*>(data)[index] = float_to_fp16(value);
      return;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

// A type together with the grid of its bytes.
struct TypeOnGrid {
  TensorType type;
  std::optional<ByteGrid> grid;
};

float load_number(const TypeOnGrid& stored, const void* data, int64_t index) {
  if (!stored.grid) return load_float(data, stored.type.dtype, index);
  return (static_cast<float>(static_cast<const uint8_t*>(data)[index]) - stored.grid->zero) *
         stored.grid->scale;
}

void store_number(const TypeOnGrid& stored, void* data, int64_t index, float value) {
  if (!stored.grid) return store_float(data, stored.type.dtype, index, value);
  const float steps = std::nearbyint(value / stored.grid->scale) + stored.grid->zero;
  static_cast<uint8_t*>(data)[index] =
      static_cast<uint8_t>(std::isnan(steps) ? stored.grid->zero : std::clamp(steps, 0.0f, 255.0f));
}

bool is_small_float(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::BFloat16 || dtype == DType::Float16;
}

// Element by element, images [begin, end).
void convert_slowly(const TypeOnGrid& stored_from, const void* source, const TypeOnGrid& stored_to,
                    void* target, const Extents& extents, int64_t begin, int64_t end) {
  const TensorType &from = stored_from.type, &to = stored_to.type;
  const StorageLayout in(extents, from.format), out(extents, to.format);
  const int64_t size = dtype_bytes(from.dtype, 1);
  const auto* bytes_in = static_cast<const std::byte*>(source);
  auto* bytes_out = static_cast<std::byte*>(target);
  for (int64_t n = begin; n < end; ++n)
    for (int64_t c = 0; c < out.padded_channels(); ++c)
      for (int64_t s = 0; s < out.positions; ++s) {
        const int64_t put = out.at(n, c, s);
        if (from.dtype != to.dtype)
          store_number(stored_to, target, put,
                       c < in.channels ? load_number(stored_from, source, in.at(n, c, s)) : 0.0f);
        else if (c < in.channels)
          std::memcpy(bytes_out + put * size, bytes_in + in.at(n, c, s) * size, static_cast<size_t>(size));
        else
          std::memset(bytes_out + put * size, 0, static_cast<size_t>(size));
      }
}

bool is_flat_copy(const TensorType& from, const TensorType& to, const Extents& extents) {
  return from.dtype == to.dtype && is_same_layout(extents, from.format, to.format);
}

class PreparedSlow final : public PreparedLayer {
 public:
  PreparedSlow(TypeOnGrid from, TypeOnGrid to, Extents extents)
      : from_(from), to_(to), extents_(std::move(extents)) {}
  int members(int available) const override {
    return static_cast<int>(std::clamp<int64_t>(StorageLayout(extents_, kLinear).images, 1, available));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (is_flat_copy(from_.type, to_.type, extents_)) {
      const auto bytes = storage_bytes(from_.type.dtype, extents_, from_.type.format);
      const auto part = worker.slice(bytes, 4096);
      if (part.begin < part.end)
        std::memcpy(static_cast<std::byte*>(args.outputs[0]) + part.begin,
                    static_cast<const std::byte*>(args.inputs[0]) + part.begin,
                    static_cast<size_t>(part.end - part.begin));
      return;
    }
    const auto part = worker.slice(StorageLayout(extents_, kLinear).images);
    convert_slowly(from_, args.inputs[0], to_, args.outputs[0], extents_, part.begin, part.end);
  }

 private:
  const TypeOnGrid from_, to_;
  const Extents extents_;
};

// Type only: pieces of the storage, wherever they begin.
class PreparedCast final : public PreparedLayer {
 public:
  PreparedCast(const TypeOnGrid& from, const TypeOnGrid& to, const Extents& extents, Isa isa)
      : evaluator_(identity(), {{from.type, extents, from.grid}}, {to.type, extents, to.grid}, isa) {}
  int members(int available) const override {
    return static_cast<int>(std::clamp<int64_t>(evaluator_.storage_elements() / 8192, 1, available));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto part = worker.slice(evaluator_.storage_elements(), 64);
    if (part.begin < part.end) evaluator_.run(args.inputs, args.outputs[0], part.begin, part.end);
  }

 private:
  static PointwiseProgram identity() {
    PointwiseProgram program;
    program.input_count = 1;
    program.steps.push_back({PointwiseCode::Identity, 0, 0, {0}});
    return program;
  }
  PointwiseEvaluator evaluator_;
};

// oneDNN's reorder on ranges of spatial positions, all images at once.
class PreparedReorder final : public PreparedLayer {
 public:
  PreparedReorder(const TensorType& from, const TensorType& to, const Extents& extents, int threads) {
    const StorageLayout layout(extents, kLinear);
    const Extents folded = {layout.images, layout.channels, layout.positions};
    const dnnl::memory::desc in = onednn_desc(from, folded), out = onednn_desc(to, folded);
    // Enough work for each member to be worth a meeting, and in portions that are worth a call.
    const int64_t worth = std::clamp<int64_t>(element_count(extents) / 8192, 1, layout.positions);
    const int64_t parts = worth <= threads ? worth : std::min<int64_t>(worth / threads, 4) * threads;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = layout.positions * i / parts, end = layout.positions * (i + 1) / parts;
      const dnnl::memory::dims dims = {layout.images, layout.channels, end - begin}, start = {0, 0, begin};
      const auto part_in = in.submemory_desc(dims, start), part_out = out.submemory_desc(dims, start);
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const dnnl::reorder::primitive_desc desc(onednn_engine(), part_in, onednn_engine(), part_out,
                                               attributes);
      OnednnCall call{with_onednn_memory([&] { return dnnl::reorder(desc); })};
      call.add_input(DNNL_ARG_FROM, part_in, 0, 0);
      call.add_output(DNNL_ARG_TO, part_out, 0, 0);
      call.add_scratch(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
      calls_.push_back(std::move(call));
      scratch_ = std::max(scratch_, (desc.scratchpad_desc().get_size() + 63) / 64 * 64);
    }
  }
  size_t scratch_bytes() const override { return scratch_ * calls_.size(); }
  int members(int available) const override { return std::min(available, static_cast<int>(calls_.size())); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice(static_cast<int64_t>(calls_.size()));
    for (auto i = static_cast<size_t>(part.begin); i < static_cast<size_t>(part.end); ++i)
      calls_[i].run(args, args.scratch + scratch_ * i);
  }

 private:
  std::vector<OnednnCall> calls_;
  size_t scratch_ = 0;
};

// Bytes of a few channels, which become neighbours.
class PreparedInterleave final : public PreparedLayer {
 public:
  explicit PreparedInterleave(const Extents& extents) : layout_(extents, kLinear) {}
  int members(int available) const override {
    const int64_t worth = layout_.images * layout_.channels * layout_.positions / 65536;
    return static_cast<int>(std::clamp<int64_t>(worth, 1, available));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* const from = static_cast<const std::byte*>(args.inputs[0]);
    auto* const to = static_cast<std::byte*>(args.outputs[0]);
    const int64_t image = layout_.channels * layout_.positions;
    const Worker::Range part = worker.slice(layout_.images * layout_.positions, 16);
    for (int64_t at = part.begin; at < part.end;) {
      const int64_t n = at / layout_.positions, first = at % layout_.positions,
                    count = std::min(part.end - at, layout_.positions - first);
      interleave_bytes_avx2(from + n * image + first, layout_.positions, layout_.channels,
                            to + n * image + first * layout_.channels, count);
      at += count;
    }
  }

 private:
  const StorageLayout layout_;
};

class ReformatKernel final : public LayerKernel {
 public:
  ReformatKernel(TypeOnGrid from, TypeOnGrid to, Isa isa) : from_(from), to_(to), isa_(isa) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& extents = context.outputs[0];
    const TensorType &from = from_.type, &to = to_.type;
    const bool same_format = is_same_layout(extents, from.format, to.format);
    if ((is_small_float(from.dtype) || from_.grid) && from.dtype != to.dtype && same_format)
      return std::make_unique<PreparedCast>(from_, to_, extents, isa_);
    const auto fast = [](DType t) { return t == DType::Float32 || t == DType::BFloat16; };
    const bool bytes = from.dtype == to.dtype && dtype_info(to.dtype).bits == 8 && is_integer(to.dtype);
    const int64_t channels = StorageLayout(extents, kLinear).channels;
    if (bytes && from.format == kLinear && to.format == kChannelsLast && channels > 1 &&
        channels <= kMostInterleaved)
      return std::make_unique<PreparedInterleave>(extents);
    if (((fast(from.dtype) && fast(to.dtype)) || bytes) && !same_format)
      return std::make_unique<PreparedReorder>(from, to, extents, context.threads);
    return std::make_unique<PreparedSlow>(from_, to_, extents);
  }

 private:
  const TypeOnGrid from_, to_;
  const Isa isa_;
};

std::vector<Tactic> list_reformats(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const bool is_reformat = std::holds_alternative<Reformat>(node.op);
  if ((!is_reformat && !std::holds_alternative<Cast>(node.op)) || !node.epilogue.empty()) return {};
  const Value &in = query.graph.value(node.inputs[0]), &out = query.graph.value(node.outputs[0]);
  const auto is_number = [](const Value& value) {
    return is_small_float(value.dtype) || byte_grid(value, {value.dtype, value.format});
  };
  const bool convertible = is_number(in) && is_number(out) && (is_reformat || is_float(in.dtype));
  if (!is_reformat && !convertible) return {};
  Tactic tactic{.runner = std::string(kReformatRunner), .name = is_reformat ? "reformat" : "cast_float"};
  tactic.id = hash_text(tactic.name);
  if (in.dtype != out.dtype && !convertible)
    tactic.support = Support::no(fmt::format("no conversion from {} to {} (a Cast does that)",
                                             dtype_name(in.dtype), dtype_name(out.dtype)));
  if (is_reformat) {
    tactic.inputs = {{in.dtype, in.format}};
    tactic.outputs = {{out.dtype, out.format}};
    return {tactic};
  }
  std::vector<Tactic> tactics;
  for (const Format format : {kLinear, kChannelsLast, kBlocked16, kBlocked8}) {
    if (!format.is_linear() && in.shape.size() < 3) continue;
    tactic.inputs = {{in.dtype, format}};
    tactic.outputs = {{out.dtype, format}};
    tactics.push_back(tactic);
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_reformat(const LayerQuery& query, const Tactic& tactic,
                                           const Machine& machine, const PackContext&) {
  const Node& node = query.layer();
  const TensorType &from = tactic.inputs[0], &to = tactic.outputs[0];
  return std::make_unique<ReformatKernel>(
      TypeOnGrid{from, byte_grid(query.graph.value(node.inputs[0]), from)},
      TypeOnGrid{to, byte_grid(query.graph.value(node.outputs[0]), to)}, machine.isa());
}

}  // namespace

std::unique_ptr<PreparedLayer> prepare_reformat(const TensorType& from, const TensorType& to,
                                                const Extents& extents, const Machine& machine, int threads) {
  const SymbolValues none;
  return ReformatKernel({from, {}}, {to, {}}, machine.isa())
      .prepare({.symbols = none, .inputs = {extents}, .outputs = {extents}, .threads = threads});
}

TacticFamily reformat_tactics() {
  return {kReformatRunner, list_reformats, make_reformat};
}

}  // namespace lathe::cpu
