// SPDX-License-Identifier: Apache-2.0
//
// ScatterElements and ScatterND: the data, in which updates replace or are combined with what the indices
// name.
//
// Bytes: data copied (unless the result lies in the data's memory), indices and updates read once, what they
// name read and written. Duplicates combine in the order of the updates, so what is shared out is what no two
// indices can share: ScatterElements by the positions beside its axis, ScatterND by the elements within a
// block, or by the blocks of the data where they are small: then each member passes over all addresses.
#include <cstring>

#include "backend/cpu/index/indices.h"
#include "backend/cpu/index/scatter_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "ir/elements.h"
#include "ops/index.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kScatterRunner = "Scatter";

template <class Codec, ScatterReduction kReduction>
typename Codec::Wide combined(typename Codec::Wide old, typename Codec::Wide update) {
  using Wide = typename Codec::Wide;
  switch (kReduction) {
    case ScatterReduction::Add:
      if constexpr (Codec::kFloat) return old + update;
      return static_cast<Wide>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
    case ScatterReduction::Mul:
      if constexpr (Codec::kFloat) return old * update;
      return static_cast<Wide>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    // NaN wins. No short-circuit: which of the two it is cannot be predicted.
    case ScatterReduction::Min:
      return (update < old) | (update != update) ? update : old;
    case ScatterReduction::Max:
      return (update > old) | (update != update) ? update : old;
    case ScatterReduction::None:
      break;
  }
  return update;
}

// Calls f.operator()<Codec, reduction>().
template <class F>
void with_combination(DType type, ScatterReduction reduction, F&& f) {
  with_codec(type, [&]<class Codec>() {
    switch (reduction) {
      case ScatterReduction::Add:
        return f.template operator()<Codec, ScatterReduction::Add>();
      case ScatterReduction::Mul:
        return f.template operator()<Codec, ScatterReduction::Mul>();
      case ScatterReduction::Min:
        return f.template operator()<Codec, ScatterReduction::Min>();
      case ScatterReduction::Max:
        return f.template operator()<Codec, ScatterReduction::Max>();
      case ScatterReduction::None:
        return f.template operator()<Codec, ScatterReduction::None>();
    }
  });
}

std::optional<ScatterElement> scatter_element(DType type) {
  switch (type) {
    case DType::Float32:
      return ScatterElement::F32;
    case DType::Float64:
      return ScatterElement::F64;
    case DType::BFloat16:
      return ScatterElement::BF16;
    case DType::Float16:
      return ScatterElement::F16;
    case DType::Int8:
      return ScatterElement::I8;
    case DType::UInt8:
      return ScatterElement::U8;
    case DType::Int16:
      return ScatterElement::I16;
    case DType::UInt16:
      return ScatterElement::U16;
    case DType::Int32:
      return ScatterElement::I32;
    case DType::UInt32:
      return ScatterElement::U32;
    case DType::Int64:
      return ScatterElement::I64;
    case DType::UInt64:
      return ScatterElement::U64;
    default:
      return std::nullopt;
  }
}

// What combines neighbouring elements; null: they are copied.
ScatterLoop scatter_loop(DType type, ScatterReduction reduction, Isa isa) {
  if (reduction == ScatterReduction::None) return nullptr;
  if (const auto element = scatter_element(type)) {
    const ScatterTable& table = isa == Isa::Avx2 ? scatter_table_avx2() : scatter_table_avx512();
    const ScatterLoops& loops = reduction == ScatterReduction::Add   ? table.add
                                : reduction == ScatterReduction::Mul ? table.mul
                                : reduction == ScatterReduction::Min ? table.min
                                                                     : table.max;
    return loops.of[static_cast<size_t>(*element)];
  }
  ScatterLoop loop = nullptr;
  with_combination(type, reduction, [&]<class Codec, ScatterReduction kReduction>() {
    loop = [](std::byte* to, const std::byte* from, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        Codec::put(to, i, combined<Codec, kReduction>(Codec::get(to, i), Codec::get(from, i)));
    };
  });
  return loop;
}

class PreparedScatter : public PreparedLayer {
 public:
  PreparedScatter(IndexReader reader, DType type, int64_t elements)
      : reader_(std::move(reader)), type_(type), size_(dtype_bytes(type, 1)), bytes_(elements * size_) {}
  bool meets(int count) const override { return count > 1; }

 protected:
  static bool copies(const LayerArgs& args) { return args.outputs[0] != args.inputs[0]; }
  void copy(const LayerArgs& args, int64_t begin, int64_t bytes) const {
    std::memcpy(static_cast<std::byte*>(args.outputs[0]) + begin,
                static_cast<const std::byte*>(args.inputs[0]) + begin, static_cast<size_t>(bytes));
  }

  IndexReader reader_;
  DType type_;
  int64_t size_;   // of an element
  int64_t bytes_;  // of the data
};

// Lines along the axis. Those that are neighbours in memory go together: rows of the last dim, unless that is
// the axis.
class PreparedScatterElements final : public PreparedScatter {
 public:
  PreparedScatterElements(IndexReader reader, DType type, ScatterReduction reduction, size_t axis,
                          const Extents& x, const Extents& indices)
      : PreparedScatter(std::move(reader), type, element_count(x)),
        reduction_(reduction),
        axis_extent_(x[axis]),
        steps_(indices[axis]) {
    const Extents strides = row_major_strides(x), index_strides = row_major_strides(indices);
    axis_stride_ = strides[axis];
    index_stride_ = index_strides[axis];
    const size_t last = x.size() - 1;
    row_ = axis == last ? 1 : indices[last];
    for (size_t d = 0; d < x.size(); ++d) {
      if (d == axis || d == last) continue;
      groups_.push_back({indices[d], strides[d], index_strides[d]});
      group_count_ *= indices[d];
    }
  }
  int members(int available) const override {
    const double updates = static_cast<double>(group_count_ * steps_ * row_);
    return all_or_one(0.06 * static_cast<double>(bytes_) + 3 * updates, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (copies(args))
      worker.share(worker.count, [&](const Worker& w) {
        const Worker::Range part = w.slice(bytes_, 64);
        copy(args, part.begin, part.end - part.begin);
      });
    worker.share(worker.count, [&](const Worker& w) { scatter(args, w); });
  }

 private:
  struct Dim {
    int64_t extent, stride, index_stride;
  };
  void scatter(const LayerArgs& args, const Worker& worker) const {
    with_combination(type_, reduction_, [&]<class Codec, ScatterReduction kReduction>() {
      const Worker::Range part = worker.slice(group_count_ * row_, 8);
      for (int64_t i = part.begin; i < part.end;) {
        const int64_t from = i % row_, n = std::min(part.end - i, row_ - from);
        lines<Codec, kReduction>(args, i / row_, from, n);
        i += n;
      }
    });
  }
  template <class Codec, ScatterReduction kReduction>
  void lines(const LayerArgs& args, int64_t group, int64_t from, int64_t n) const {
    int64_t at = from, index = from;
    for (size_t d = groups_.size(); d-- > 0; group /= groups_[d].extent) {
      at += group % groups_[d].extent * groups_[d].stride;
      index += group % groups_[d].extent * groups_[d].index_stride;
    }
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    const auto* updates = static_cast<const std::byte*>(args.inputs[2]);
    for (int64_t s = 0; s < steps_; ++s)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t u = index + s * index_stride_ + j;
        const int64_t k = at + reader_.at(args.inputs[1], u, axis_extent_) * axis_stride_ + j;
        Codec::put(to, k, combined<Codec, kReduction>(Codec::get(to, k), Codec::get(updates, u)));
      }
  }

  ScatterReduction reduction_;
  int64_t axis_extent_, axis_stride_ = 1, steps_, index_stride_ = 1;
  int64_t row_ = 1, group_count_ = 1;
  std::vector<Dim> groups_;
};

// First the number of the block that each address names. Then each member copies its part of the data, which
// stays in its cache, and updates it. Updates of neighbouring blocks that follow one another go together, as
// when a slice is written.
class PreparedScatterBlocks final : public PreparedScatter {
 public:
  PreparedScatterBlocks(IndexReader reader, DType type, ScatterLoop combine, const Extents& x,
                        const Extents& indices, int threads)
      : PreparedScatter(std::move(reader), type, element_count(x)), combine_(combine) {
    const auto fixed = static_cast<size_t>(addressed_dims(to_shape(indices), to_shape(x), 0));
    addressed_.assign(x.begin(), x.begin() + static_cast<ptrdiff_t>(fixed));
    for (size_t d = fixed; d < x.size(); ++d) block_ *= x[d];
    for (size_t d = 0; d + 1 < indices.size(); ++d) addresses_ *= indices[d];
    by_blocks_ = block_ * size_ < kLeastBytes * threads;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(addresses_) * sizeof(int64_t); }
  int members(int available) const override {
    const double block_bytes = static_cast<double>(block_ * size_);
    const double updated = static_cast<double>(addresses_) * (4 + 0.03 * block_bytes);
    return all_or_one(0.06 * static_cast<double>(bytes_) + updated, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    worker.share(worker.count, [&](const Worker& w) { number_blocks(args, w); });
    worker.share(worker.count, [&](const Worker& w) { scatter(args, w); });
  }

 private:
  // A member takes columns of at least so many bytes: prefetchers fetch the lines beside shorter ones, too,
  // which another member is writing.
  static constexpr int64_t kLeastBytes = 2048;

  void number_blocks(const LayerArgs& args, const Worker& worker) const {
    auto* blocks = reinterpret_cast<int64_t*>(args.scratch);
    const auto length = static_cast<int64_t>(addressed_.size());
    const Worker::Range part = worker.slice(addresses_, 8);
    for (int64_t i = part.begin; i < part.end; ++i) {
      int64_t block = 0;
      for (int64_t k = 0; k < length; ++k) {
        const int64_t extent = addressed_[static_cast<size_t>(k)];
        block = block * extent + reader_.at(args.inputs[1], i * length + k, extent);
      }
      blocks[i] = block;
    }
  }
  void scatter(const LayerArgs& args, const Worker& worker) const {
    Worker::Range blocks{0, bytes_ / std::max<int64_t>(1, block_ * size_)}, columns{0, block_};
    if (by_blocks_)
      blocks = worker.slice(blocks.end, 1, Worker::kUncut);
    else
      columns = worker.slice(block_, 64 / size_, kLeastBytes / 64);
    const int64_t first = columns.begin * size_, width = (columns.end - columns.begin) * size_;
    if (blocks.begin >= blocks.end || width <= 0) return;
    if (copies(args)) {
      if (columns.end - columns.begin == block_)
        copy(args, blocks.begin * width, (blocks.end - blocks.begin) * width);
      else
        for (int64_t b = blocks.begin; b < blocks.end; ++b) copy(args, b * block_ * size_ + first, width);
    }
    update(args, blocks, columns);
  }
  // These columns of the updates of these blocks.
  void update(const LayerArgs& args, const Worker::Range& blocks, const Worker::Range& columns) const {
    const auto* named = reinterpret_cast<const int64_t*>(args.scratch);
    auto* to = static_cast<std::byte*>(args.outputs[0]);
    const auto* from = static_cast<const std::byte*>(args.inputs[2]);
    const int64_t width = columns.end - columns.begin;
    for (int64_t i = 0, run = 1; i < addresses_; i += run) {
      const int64_t block = named[i];
      run = 1;
      if (block < blocks.begin || block >= blocks.end) continue;
      if (width == block_)
        while (i + run < addresses_ && named[i + run] == block + run && block + run < blocks.end) ++run;
      combine(to + (block * block_ + columns.begin) * size_, from + (i * block_ + columns.begin) * size_,
              run * width);
    }
  }
  void combine(std::byte* to, const std::byte* from, int64_t n) const {
    if (combine_ != nullptr)
      combine_(to, from, n);
    else
      std::memcpy(to, from, static_cast<size_t>(n * size_));
  }

  ScatterLoop combine_;
  Extents addressed_;
  int64_t addresses_ = 1, block_ = 1;
  bool by_blocks_ = false;
};

class ScatterKernel final : public LayerKernel {
 public:
  ScatterKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(query.layer().op),
        name_(query.layer().name + " (" + std::string(op_name(op_)) + ")"),
        tactic_(tactic),
        isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &indices = context.inputs[1];
    const IndexReader reader(name_, tactic_.inputs[1].dtype);
    const DType type = tactic_.inputs[0].dtype;
    if (const auto* op = std::get_if<ScatterElements>(&op_)) {
      const auto axis = static_cast<size_t>(normalize_axis(op->axis, static_cast<int64_t>(x.size()), name_));
      check_fits_inside(indices, x, axis);
      expect_updates(context.inputs[2], indices);
      return std::make_unique<PreparedScatterElements>(reader, type, op->reduction, axis, x, indices);
    }
    const auto fixed = static_cast<size_t>(addressed_dims(to_shape(indices), to_shape(x), 0));
    Extents expected(indices.begin(), indices.end() - 1);
    expected.insert(expected.end(), x.begin() + static_cast<ptrdiff_t>(fixed), x.end());
    expect_updates(context.inputs[2], expected);
    const ScatterLoop combine = scatter_loop(type, std::get<ScatterND>(op_).reduction, isa_);
    return std::make_unique<PreparedScatterBlocks>(reader, type, combine, x, indices, context.threads);
  }

 private:
  void expect_updates(const Extents& updates, const Extents& expected) const {
    if (updates == expected) return;
    throw_input_error(name_ + ": updates of " + to_string(updates) + ", expected " + to_string(expected) +
                      " for these indices");
  }
  Op op_;
  std::string name_;
  Tactic tactic_;
  Isa isa_;
};

std::vector<Tactic> list_scatter(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const bool elements = std::holds_alternative<ScatterElements>(node.op);
  if (!elements && !std::holds_alternative<ScatterND>(node.op)) return {};
  Tactic t = linear_tactic(query, kScatterRunner, elements ? "scatter_elements" : "scatter_blocks");
  if (!node.epilogue.empty())
    t.support = Support::no("a copy applies no epilogue");
  else if (dtype_info(t.inputs[0].dtype).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  else if (!is_index_type(t.inputs[1].dtype))
    t.support = Support::no("indices must be int32 or int64");
  const bool again = node.inputs[0] == node.inputs[1] || node.inputs[0] == node.inputs[2];
  if (!again && !query.graph.value(node.inputs[0]).is_constant()) t.in_place_inputs = {0};
  return {t};
}

std::unique_ptr<LayerKernel> make_scatter(const LayerQuery& query, const Tactic& tactic,
                                          const Machine& machine, const PackContext&) {
  return std::make_unique<ScatterKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily scatter_tactics() {
  return {kScatterRunner, list_scatter, make_scatter};
}

}  // namespace lathe::cpu
