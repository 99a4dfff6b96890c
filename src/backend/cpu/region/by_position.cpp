// SPDX-License-Identifier: Apache-2.0
//
// Trilu, OneHot and ReverseSequence: rows that positions, or one number per row, decide. Every type of whole
// bytes.
//
// Bytes: what is kept read once, the result written once.
#include <array>
#include <cstring>

#include "backend/cpu/region/fill_copy.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kByPositionRunner = "ByPosition";

class PreparedByPosition : public PreparedLayer {
 public:
  int64_t rows = 0, row_bytes = 0;
  int members(int available) const override {
    return members_for(static_cast<double>(rows) * (5 + 0.06 * static_cast<double>(row_bytes)), available);
  }
};

int64_t read_integer(DType type, const void* data, int64_t i) {
  return type == DType::Int64 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
}

class PreparedTrilu final : public PreparedByPosition {
 public:
  bool upper = true;
  int64_t height = 1, width = 1, bytes = 4;
  bool has_k = false;

  void run(const LayerArgs& args, const Worker& worker) const override {
    const int64_t given = has_k ? *static_cast<const int64_t*>(args.inputs[1]) : 0;
    const int64_t k = std::clamp(given, -height - 1, width + 1);
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* y = static_cast<std::byte*>(args.outputs[0]);
    const Worker::Range part = worker.slice(rows);
    for (int64_t r = part.begin; r < part.end; ++r) {
      const int64_t diagonal = r % height + k;
      const int64_t first = upper ? std::clamp<int64_t>(diagonal, 0, width) : 0;
      const int64_t last = upper ? width : std::clamp<int64_t>(diagonal + 1, 0, width);
      std::byte* to = y + r * row_bytes;
      std::memset(to, 0, static_cast<size_t>(first * bytes));
      std::memcpy(to + first * bytes, x + r * row_bytes + first * bytes,
                  static_cast<size_t>((last - first) * bytes));
      std::memset(to + last * bytes, 0, static_cast<size_t>((width - last) * bytes));
    }
  }
};

// A row holds the result of `inner` indices: (depth, inner).
class PreparedOneHot final : public PreparedByPosition {
 public:
  DType index_type = DType::Int64;
  int64_t depth = 0, inner = 1, bytes = 4;

  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* values = static_cast<const std::byte*>(args.inputs[2]);
    const Worker::Range part = worker.slice(rows);
    for (int64_t r = part.begin; r < part.end; ++r) {
      std::byte* to = static_cast<std::byte*>(args.outputs[0]) + r * row_bytes;
      fill_elements(to, depth * inner, values, bytes);
      for (int64_t j = 0; j < inner; ++j) {
        const int64_t given = read_integer(index_type, args.inputs[0], r * inner + j);
        const int64_t index = given < 0 ? given + depth : given;
        if (index >= 0 && index < depth)  // else the row stays off
          std::memcpy(to + (index * inner + j) * bytes, values + bytes, static_cast<size_t>(bytes));
      }
    }
  }
};

class PreparedReverse final : public PreparedByPosition {
 public:
  std::string name;
  int64_t steps = 1, step_rows = 1, items = 1,
          item_rows = 1;  // extents of the two axes, and rows between neighbours

  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* y = static_cast<std::byte*>(args.outputs[0]);
    const Worker::Range part = worker.slice(rows);
    for (int64_t r = part.begin; r < part.end; ++r) {
      const int64_t step = r / step_rows % steps;
      const int64_t length = static_cast<const int64_t*>(args.inputs[1])[r / item_rows % items];
      if (length < 0 || length > steps)
        throw_input_error(name + " (ReverseSequence): a length of " + std::to_string(length) +
                          " is not between 0 and the " + std::to_string(steps) + " steps");
      const int64_t from = step < length ? r + (length - 1 - 2 * step) * step_rows : r;
      std::memcpy(y + r * row_bytes, x + from * row_bytes, static_cast<size_t>(row_bytes));
    }
  }
};

class ByPositionKernel final : public LayerKernel {
 public:
  ByPositionKernel(const LayerQuery& query, const Tactic& tactic)
      : name_(query.layer().name),
        op_(query.layer().op),
        bytes_(dtype_bytes(tactic.outputs[0].dtype, 1)),
        index_type_(tactic.inputs[0].dtype),
        has_k_(query.layer().inputs.size() > 1 && query.layer().inputs[1] != kNoValue) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& c) const override {
    if (const auto* op = std::get_if<Trilu>(&op_)) return trilu(*op, c.inputs[0]);
    if (const auto* op = std::get_if<OneHot>(&op_)) return one_hot(*op, c.inputs[0], c.outputs[0]);
    return reverse(std::get<ReverseSequence>(op_), c.inputs[0]);
  }

 private:
  std::unique_ptr<PreparedLayer> trilu(const Trilu& op, const Extents& x) const {
    auto p = std::make_unique<PreparedTrilu>();
    p->upper = op.upper;
    p->width = x.back();
    p->height = x[x.size() - 2];
    p->bytes = bytes_;
    p->has_k = has_k_;
    p->rows = element_count(x) / std::max<int64_t>(1, p->width);
    p->row_bytes = p->width * bytes_;
    return p;
  }
  std::unique_ptr<PreparedLayer> one_hot(const OneHot& op, const Extents& indices, const Extents& y) const {
    auto p = std::make_unique<PreparedOneHot>();
    const auto axis = static_cast<size_t>(normalize_axis(op.axis, static_cast<int64_t>(y.size()), "OneHot"));
    p->index_type = index_type_;
    p->depth = y[axis];
    for (size_t d = axis + 1; d < y.size(); ++d) p->inner *= y[d];
    p->bytes = bytes_;
    p->rows = element_count(indices) / std::max<int64_t>(1, p->inner);
    p->row_bytes = p->depth * p->inner * bytes_;
    return p;
  }
  std::unique_ptr<PreparedLayer> reverse(const ReverseSequence& op, const Extents& x) const {
    auto p = std::make_unique<PreparedReverse>();
    const auto rank = static_cast<int64_t>(x.size());
    const auto batch = static_cast<size_t>(normalize_axis(op.batch_axis, rank, "batch_axis"));
    const auto time = static_cast<size_t>(normalize_axis(op.time_axis, rank, "time_axis"));
    const Extents strides = row_major_strides(x);
    const int64_t row = std::max<int64_t>(1, strides[std::max(batch, time)]);
    p->name = name_;
    p->steps = x[time];
    p->items = x[batch];
    p->step_rows = strides[time] / row;
    p->item_rows = strides[batch] / row;
    p->rows = element_count(x) / row;
    p->row_bytes = row * bytes_;
    return p;
  }

  std::string name_;
  Op op_;
  int64_t bytes_;
  DType index_type_;
  bool has_k_;
};

Support supports_by_position(const LayerQuery& query, const Tactic& t) {
  const Node& node = query.layer();
  if (!node.epilogue.empty()) return Support::no("a copy applies no epilogue");
  if (dtype_info(t.outputs[0].dtype).bits < 8) return Support::no("elements are smaller than a byte");
  if (!std::holds_alternative<OneHot>(node.op)) return {};
  if (t.inputs[0].dtype != DType::Int64 && t.inputs[0].dtype != DType::Int32)
    return Support::no("indices must be int32 or int64");
  for (const Dim& d : query.graph.value(node.outputs[0]).shape)
    if (!query.graph.value(node.inputs[1]).is_constant() && !d.is_constant())
      return Support::no("the depth is known only at run time");
  return {};
}

std::vector<Tactic> list_by_position(const LayerQuery& query, const Machine&) {
  const Op& op = query.layer().op;
  if (!std::holds_alternative<Trilu>(op) && !std::holds_alternative<OneHot>(op) &&
      !std::holds_alternative<ReverseSequence>(op))
    return {};
  const std::string_view name = std::holds_alternative<Trilu>(op)    ? "triangle_rows"
                                : std::holds_alternative<OneHot>(op) ? "one_hot_rows"
                                                                     : "reverse_rows";
  Tactic t = linear_tactic(query, kByPositionRunner, std::string(name));
  t.support = supports_by_position(query, t);
  return {t};
}

std::unique_ptr<LayerKernel> make_by_position(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                              const PackContext&) {
  return std::make_unique<ByPositionKernel>(query, tactic);
}

}  // namespace

TacticFamily by_position_tactics() {
  return {kByPositionRunner, list_by_position, make_by_position};
}

}  // namespace lathe::cpu
