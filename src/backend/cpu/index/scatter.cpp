// SPDX-License-Identifier: Apache-2.0
//
// ScatterElements and ScatterND: the data, in which updates replace or are combined with what the indices
// name.
//
// Bytes: data copied (unless the result lies in the data's memory), indices and updates read once, what they
// name read and written. Duplicates combine in the order of the updates, so what is shared out is what no two
// indices can share: ScatterElements by the positions beside its axis, ScatterND by the elements within a
// block.
#include <cstring>

#include "backend/cpu/index/indices.h"
#include "backend/cpu/vector/own_tactic.h"
#include "ir/elements.h"
#include "ops/index.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kScatterRunner = "Scatter";

template <class Codec>
typename Codec::Wide combined(ScatterReduction reduction, typename Codec::Wide old,
                              typename Codec::Wide update) {
  using Wide = typename Codec::Wide;
  switch (reduction) {
    case ScatterReduction::Add:
      if constexpr (Codec::kFloat) return old + update;
      return static_cast<Wide>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
    case ScatterReduction::Mul:
      if constexpr (Codec::kFloat) return old * update;
      return static_cast<Wide>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    case ScatterReduction::Min:
      return update < old || update != update ? update : old;  // NaN wins
    case ScatterReduction::Max:
      return update > old || update != update ? update : old;
    case ScatterReduction::None:
      break;
  }
  return update;
}

// to[0, n) from its old values and `from`.
struct ScatterTarget {
  DType type = DType::Float32;
  ScatterReduction reduction = ScatterReduction::None;

  void combine(std::byte* to, const std::byte* from, int64_t n) const {
    if (reduction == ScatterReduction::None) {
      std::memcpy(to, from, static_cast<size_t>(dtype_bytes(type, n)));
      return;
    }
    with_codec(type, [&]<class Codec>() {
      for (int64_t i = 0; i < n; ++i)
        Codec::put(to, i, combined<Codec>(reduction, Codec::get(to, i), Codec::get(from, i)));
    });
  }
};

class PreparedScatter : public PreparedLayer {
 public:
  PreparedScatter(IndexReader reader, ScatterTarget target, int64_t elements)
      : reader_(std::move(reader)), target_(target), bytes_(dtype_bytes(target.type, elements)) {}
  bool meets(int count) const override { return count > 1; }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (args.outputs[0] != args.inputs[0])
      worker.share(worker.count, [&](const Worker& w) {
        const Worker::Range part = w.slice(bytes_, 64);
        std::memcpy(static_cast<std::byte*>(args.outputs[0]) + part.begin,
                    static_cast<const std::byte*>(args.inputs[0]) + part.begin,
                    static_cast<size_t>(part.end - part.begin));
      });
    worker.share(worker.count, [&](const Worker& w) { scatter(args, w); });
  }

 protected:
  virtual void scatter(const LayerArgs& args, const Worker& worker) const = 0;

  IndexReader reader_;
  ScatterTarget target_;
  int64_t bytes_;  // of the data
};

// Lines along the axis. Those that are neighbours in memory go together: rows of the last dim, unless that is
// the axis.
class PreparedScatterElements final : public PreparedScatter {
 public:
  PreparedScatterElements(IndexReader reader, ScatterTarget target, size_t axis, const Extents& x,
                          const Extents& indices)
      : PreparedScatter(std::move(reader), target, element_count(x)),
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

 private:
  struct Dim {
    int64_t extent, stride, index_stride;
  };
  void scatter(const LayerArgs& args, const Worker& worker) const override {
    with_codec(target_.type, [&]<class Codec>() {
      const Worker::Range part = worker.slice(group_count_ * row_, 8);
      for (int64_t i = part.begin; i < part.end;) {
        const int64_t from = i % row_, n = std::min(part.end - i, row_ - from);
        lines<Codec>(args, i / row_, from, n);
        i += n;
      }
    });
  }
  template <class Codec>
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
        Codec::put(to, k, combined<Codec>(target_.reduction, Codec::get(to, k), Codec::get(updates, u)));
      }
  }

  int64_t axis_extent_, axis_stride_ = 1, steps_, index_stride_ = 1;
  int64_t row_ = 1, group_count_ = 1;
  std::vector<Dim> groups_;
};

class PreparedScatterBlocks final : public PreparedScatter {
 public:
  PreparedScatterBlocks(IndexReader reader, ScatterTarget target, const Extents& x, const Extents& indices)
      : PreparedScatter(std::move(reader), target, element_count(x)) {
    const auto fixed = static_cast<size_t>(addressed_dims(to_shape(indices), to_shape(x), 0));
    addressed_.assign(x.begin(), x.begin() + static_cast<ptrdiff_t>(fixed));
    for (size_t d = fixed; d < x.size(); ++d) block_ *= x[d];
    for (size_t d = 0; d + 1 < indices.size(); ++d) addresses_ *= indices[d];
  }
  int members(int available) const override {
    const double updated = static_cast<double>(addresses_) * (5 + 0.3 * static_cast<double>(block_));
    return all_or_one(0.06 * static_cast<double>(bytes_) + updated, available);
  }

 private:
  void scatter(const LayerArgs& args, const Worker& worker) const override {
    const int64_t size = dtype_bytes(target_.type, 1);
    const auto length = static_cast<int64_t>(addressed_.size());
    const Worker::Range part = worker.slice(block_, std::max<int64_t>(1, 64 / size));
    if (part.begin == part.end) return;
    for (int64_t i = 0; i < addresses_; ++i) {
      int64_t block = 0;
      for (int64_t k = 0; k < length; ++k) {
        const int64_t extent = addressed_[static_cast<size_t>(k)];
        block = block * extent + reader_.at(args.inputs[1], i * length + k, extent);
      }
      target_.combine(static_cast<std::byte*>(args.outputs[0]) + (block * block_ + part.begin) * size,
                      static_cast<const std::byte*>(args.inputs[2]) + (i * block_ + part.begin) * size,
                      part.end - part.begin);
    }
  }

  Extents addressed_;
  int64_t addresses_ = 1, block_ = 1;
};

class ScatterKernel final : public LayerKernel {
 public:
  ScatterKernel(const LayerQuery& query, const Tactic& tactic)
      : op_(query.layer().op),
        name_(query.layer().name + " (" + std::string(op_name(op_)) + ")"),
        tactic_(tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &indices = context.inputs[1];
    const IndexReader reader(name_, tactic_.inputs[1].dtype);
    const DType type = tactic_.inputs[0].dtype;
    if (const auto* op = std::get_if<ScatterElements>(&op_)) {
      const auto axis = static_cast<size_t>(normalize_axis(op->axis, static_cast<int64_t>(x.size()), name_));
      check_fits_inside(indices, x, axis);
      expect_updates(context.inputs[2], indices);
      return std::make_unique<PreparedScatterElements>(reader, ScatterTarget{type, op->reduction}, axis, x,
                                                       indices);
    }
    const auto fixed = static_cast<size_t>(addressed_dims(to_shape(indices), to_shape(x), 0));
    Extents expected(indices.begin(), indices.end() - 1);
    expected.insert(expected.end(), x.begin() + static_cast<ptrdiff_t>(fixed), x.end());
    expect_updates(context.inputs[2], expected);
    return std::make_unique<PreparedScatterBlocks>(
        reader, ScatterTarget{type, std::get<ScatterND>(op_).reduction}, x, indices);
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

std::unique_ptr<LayerKernel> make_scatter(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                          const PackContext&) {
  return std::make_unique<ScatterKernel>(query, tactic);
}

}  // namespace

TacticFamily scatter_tactics() {
  return {kScatterRunner, list_scatter, make_scatter};
}

}  // namespace lathe::cpu
