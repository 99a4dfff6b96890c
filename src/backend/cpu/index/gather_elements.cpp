// SPDX-License-Identifier: Apache-2.0
//
// GatherElements and GatherND: elements, or blocks of them, that an index tensor names, of any type of whole
// bytes.
//
// Bytes: indices read once, what they name read once, the result written once. GatherElements along the last
// axis reads from one row at a time, which stays in L1; along another one it reads neighbours as often as the
// indices do.
#include <cstring>

#include "backend/cpu/index/indices.h"
#include "backend/cpu/vector/own_tactic.h"
#include "ops/index.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kGatherElementsRunner = "GatherElements";

// The result's rows along its last dim, and where each begins in x when the gathered axis is left out.
struct ElementRows {
  Extents extents;  // of the result, without the last dim
  Extents strides;  // of x, 0 for the gathered axis
  int64_t count = 1, length = 1;

  int64_t offset(int64_t row) const {
    int64_t at = 0;
    for (size_t d = extents.size(); d-- > 0; row /= extents[d]) at += row % extents[d] * strides[d];
    return at;
  }
};

class PreparedGatherElements final : public PreparedLayer {
 public:
  PreparedGatherElements(IndexReader reader, size_t axis, const Extents& x, const Extents& indices,
                         int64_t bytes)
      : reader_(std::move(reader)), axis_extent_(x[axis]), bytes_(bytes) {
    const Extents strides = row_major_strides(x);
    axis_stride_ = strides[axis];
    along_ = axis + 1 == x.size() ? 0 : 1;
    rows_.length = indices.back();
    for (size_t d = 0; d + 1 < x.size(); ++d) {
      rows_.extents.push_back(indices[d]);
      rows_.strides.push_back(d == axis ? 0 : strides[d]);
      rows_.count *= indices[d];
    }
  }
  int members(int available) const override {
    return members_for(1.5 * static_cast<double>(rows_.count * rows_.length), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    switch (bytes_) {
      case 1:
        return gather<uint8_t>(args, worker);
      case 2:
        return gather<uint16_t>(args, worker);
      case 4:
        return gather<uint32_t>(args, worker);
      default:
        return gather<uint64_t>(args, worker);
    }
  }

 private:
  template <class T>
  void gather(const LayerArgs& args, const Worker& worker) const {
    const T* x = static_cast<const T*>(args.inputs[0]);
    T* y = static_cast<T*>(args.outputs[0]);
    const int64_t n = rows_.length;
    const bool few = rows_.count < 4 * worker.count;  // then each row is shared
    const Worker::Range rows = few ? Worker::Range{0, rows_.count} : worker.slice(rows_.count);
    const Worker::Range part = few ? worker.slice(n, 64) : Worker::Range{0, n};
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* from = x + rows_.offset(r);
      for (int64_t i = part.begin; i < part.end; ++i)
        y[r * n + i] = from[reader_.at(args.inputs[1], r * n + i, axis_extent_) * axis_stride_ + i * along_];
    }
  }

  IndexReader reader_;
  int64_t axis_extent_, bytes_, axis_stride_ = 1, along_ = 0;
  ElementRows rows_;
};

class PreparedGatherBlocks final : public PreparedLayer {
 public:
  IndexReader reader;
  Extents addressed;      // dims of x that an address names
  int64_t addresses = 0;  // in all
  int64_t per_batch = 1;
  int64_t block_bytes = 4;

  explicit PreparedGatherBlocks(IndexReader r) : reader(std::move(r)) {}
  int members(int available) const override {
    return members_for(static_cast<double>(addresses) * (5 + 0.1 * static_cast<double>(block_bytes)),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* y = static_cast<std::byte*>(args.outputs[0]);
    const auto length = static_cast<int64_t>(addressed.size());
    const Worker::Range part = worker.slice(addresses);
    for (int64_t i = part.begin; i < part.end; ++i) {
      int64_t block = i / per_batch;
      for (int64_t k = 0; k < length; ++k) {
        const int64_t extent = addressed[static_cast<size_t>(k)];
        block = block * extent + reader.at(args.inputs[1], i * length + k, extent);
      }
      std::memcpy(y + i * block_bytes, x + block * block_bytes, static_cast<size_t>(block_bytes));
    }
  }
};

class GatherElementsKernel final : public LayerKernel {
 public:
  GatherElementsKernel(const LayerQuery& query, const Tactic& tactic)
      : op_(query.layer().op),
        reader_(query.layer().name + " (" + std::string(op_name(op_)) + ")", tactic.inputs[1].dtype),
        bytes_(dtype_bytes(tactic.inputs[0].dtype, 1)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &indices = context.inputs[1];
    if (const auto* op = std::get_if<GatherElements>(&op_)) {
      const int64_t axis = normalize_axis(op->axis, static_cast<int64_t>(x.size()), "GatherElements");
      check_fits_inside(indices, x, static_cast<size_t>(axis));
      return std::make_unique<PreparedGatherElements>(reader_, static_cast<size_t>(axis), x, indices, bytes_);
    }
    return blocks(x, indices);
  }

 private:
  std::unique_ptr<PreparedLayer> blocks(const Extents& x, const Extents& indices) const {
    const int64_t batch = std::get<GatherND>(op_).batch_dims;
    const int64_t fixed = addressed_dims(to_shape(indices), to_shape(x), batch);
    auto p = std::make_unique<PreparedGatherBlocks>(reader_);
    p->addressed.assign(x.begin() + batch, x.begin() + fixed);
    p->addresses = 1;
    for (size_t d = 0; d + 1 < indices.size(); ++d) p->addresses *= indices[d];
    int64_t batches = 1;
    for (int64_t d = 0; d < batch; ++d) batches *= x[static_cast<size_t>(d)];
    // Without batches all addresses are of the first one.
    p->per_batch = std::max<int64_t>(1, p->addresses / std::max<int64_t>(1, batches));
    p->block_bytes = bytes_;
    for (size_t d = static_cast<size_t>(fixed); d < x.size(); ++d) p->block_bytes *= x[d];
    return p;
  }

  Op op_;
  IndexReader reader_;
  int64_t bytes_;
};

std::vector<Tactic> list_gather_elements(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const bool elements = std::holds_alternative<GatherElements>(node.op);
  if (!elements && !std::holds_alternative<GatherND>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kGatherElementsRunner, elements ? "gather_elements" : "gather_blocks");
    const bool converts = query.graph.value(node.inputs[0]).is_constant() && t.inputs[0].dtype != type;
    t.inputs[0].dtype = t.outputs[0].dtype = type;
    if (!node.epilogue.empty())
      t.support = Support::no("a copy applies no epilogue");
    else if (dtype_info(type).bits < 8)
      t.support = Support::no("elements are smaller than a byte");
    else if (converts)
      t.support = Support::no("a constant operand is read as it is stored");
    else if (!is_index_type(t.inputs[1].dtype))
      t.support = Support::no("indices must be int32 or int64");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_gather_elements(const LayerQuery& query, const Tactic& tactic,
                                                  const Machine&, const PackContext&) {
  return std::make_unique<GatherElementsKernel>(query, tactic);
}

}  // namespace

TacticFamily gather_elements_tactics() {
  return {kGatherElementsRunner, list_gather_elements, make_gather_elements};
}

}  // namespace lathe::cpu
