// SPDX-License-Identifier: Apache-2.0
//
// Nearest-neighbour Resize of images in every format and type, any number of spatial dims, as copies of
// pixels.
//
// Which input position an output position shows is asked of the operator's own definition: it resizes the
// ramp 0, 1, 2, ... once per spatial dim, and what comes out are the positions. So coordinate and rounding
// modes are defined in one place. Bytes: input read once, output written once; an output row that repeats the
// one above is copied from it.
#include <cstring>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/view.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kResizeRunner = "Resize";

class PreparedResize final : public PreparedLayer {
 public:
  int64_t images = 1;                   // planes of pixels
  int64_t pixel_bytes = 4;              // what lies together at one position
  int64_t in_height = 1, in_width = 1;  // rows over all dims before the last one
  std::vector<int64_t> rows, cols;      // input positions

  int64_t out_height() const { return static_cast<int64_t>(rows.size()); }
  int64_t out_width() const { return static_cast<int64_t>(cols.size()); }
  int members(int available) const override {
    const double pixels = static_cast<double>(images * out_height() * out_width());
    return members_for(pixels * (1.5 + 0.04 * static_cast<double>(pixel_bytes)), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const int64_t row_bytes = out_width() * pixel_bytes;
    const Worker::Range part = worker.slice(images * out_height());
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t image = i / out_height(), row = i % out_height();
      std::byte* to = static_cast<std::byte*>(args.outputs[0]) + i * row_bytes;
      if (i > part.begin && row > 0 && rows[static_cast<size_t>(row)] == rows[static_cast<size_t>(row) - 1]) {
        std::memcpy(to, to - row_bytes, static_cast<size_t>(row_bytes));
        continue;
      }
      const auto* from = static_cast<const std::byte*>(args.inputs[0]) +
                         (image * in_height + rows[static_cast<size_t>(row)]) * in_width * pixel_bytes;
      copy_row(from, to);
    }
  }

 private:
  template <class T>
  void copy_elements(const std::byte* from, std::byte* to) const {
    const T* a = reinterpret_cast<const T*>(from);
    T* b = reinterpret_cast<T*>(to);
    for (size_t i = 0; i < cols.size(); ++i) b[i] = a[cols[i]];
  }
  void copy_row(const std::byte* from, std::byte* to) const {
    switch (pixel_bytes) {
      case 1:
        return copy_elements<uint8_t>(from, to);
      case 2:
        return copy_elements<uint16_t>(from, to);
      case 4:
        return copy_elements<uint32_t>(from, to);
      case 8:
        return copy_elements<uint64_t>(from, to);
      default:
        break;
    }
    for (const int64_t c : cols) {
      std::memcpy(to, from + c * pixel_bytes, static_cast<size_t>(pixel_bytes));
      to += pixel_bytes;
    }
  }
};

class ResizeKernel final : public LayerKernel {
 public:
  ResizeKernel(const LayerQuery& query, const Tactic& tactic)
      : op_(std::get<Resize>(query.layer().op)), type_(tactic.inputs[0]) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedResize>();
    const Extents &in = context.inputs[0], &out = context.outputs[0];
    const int64_t bytes = dtype_bytes(type_.dtype, 1);
    p->images = in[0];
    switch (type_.format.kind) {
      case Format::Kind::Linear:
        p->images *= in[1];
        p->pixel_bytes = bytes;
        break;
      case Format::Kind::ChannelsLast:
        p->pixel_bytes = bytes * in[1];
        break;
      case Format::Kind::ChannelBlocked:
        p->images *= (in[1] + type_.format.block - 1) / type_.format.block;
        p->pixel_bytes = bytes * type_.format.block;
        break;
    }
    const size_t last = in.size() - 1;
    p->in_width = in[last];
    p->cols = positions(last, in[last], out[last], context.symbols);
    p->rows = {0};
    for (size_t axis = 2; axis < last; ++axis) {
      std::vector<int64_t> rows;
      const std::vector<int64_t> along = positions(axis, in[axis], out[axis], context.symbols);
      for (const int64_t outer : p->rows)
        for (const int64_t position : along) rows.push_back(outer * in[axis] + position);
      p->rows = std::move(rows);
      p->in_height *= in[axis];
    }
    return p;
  }

 private:
  // For each output position along a dim, the input position that it shows.
  std::vector<int64_t> positions(size_t axis, int64_t in, int64_t out, const SymbolValues& symbols) const {
    Resize along = op_;
    along.axes = {0};
    along.scales.clear();
    along.sizes.reset();
    if (!op_.scales.empty())
      along.scales = {op_.scales[entry(axis)]};
    else
      along.sizes = Shape{Dim(out)};
    std::vector<int64_t> ramp(static_cast<size_t>(in));
    for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<int64_t>(i);
    const Tensor inputs[] = {Tensor::from<int64_t>({in}, ramp)};
    const EvaluateContext context{.inputs = inputs, .output_count = 1, .symbols = &symbols};
    return find_op_def(along).evaluate(along, context)[0].to_int64s();
  }
  size_t entry(size_t axis) const {
    for (size_t i = 0; i < op_.axes.size(); ++i)
      if (op_.axes[i] == static_cast<int64_t>(axis)) return i;
    return axis;
  }
  Resize op_;
  TensorType type_;
};

Support supports_resize(const LayerQuery& query, const Resize& op) {
  const Node& node = query.layer();
  const Shape &in = query.graph.value(node.inputs[0]).shape, &out = query.graph.value(node.outputs[0]).shape;
  if (!node.epilogue.empty()) return Support::no("a copy applies no epilogue");
  if (op.mode != ResizeMode::Nearest) return Support::no("only nearest neighbours are copies");
  if (op.coordinates == CoordinateMode::TfCropAndResize) return Support::no("crops are not supported");
  if (op.aspect != AspectPolicy::Stretch) return Support::no("aspect policies are not supported");
  if (op.scales.empty() && !op.sizes) return Support::no("the size is known only at run time");
  if (in.size() < 3) return Support::no("not an image");
  if (in[0] != out[0] || in[1] != out[1]) return Support::no("batch or channels are resized too");
  for (const int64_t a : op.axes)
    if (a < 0) return Support::no("axes count from the end");
  return {};
}

std::vector<Tactic> list_resize(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Resize>(&node.op);
  if (!op) return {};
  const Support support = supports_resize(query, *op);
  std::vector<Format> formats = {kLinear};
  if (query.graph.value(node.outputs[0]).shape.size() >= 3)
    formats = {kChannelsLast, {Format::Kind::ChannelBlocked, vector_block(machine)}, kLinear};
  std::vector<Tactic> tactics;
  for (const DType type : moved_types(query))
    for (const Format& format : formats) {
      if (!may_lie(query, type, format)) continue;
      Tactic t = linear_tactic(query, kResizeRunner, "resize_nearest");
      t.inputs[0] = t.outputs[0] = {type, format};
      for (size_t i = 1; i < t.inputs.size(); ++i)
        if (t.inputs[i].dtype != DType::Undefined) t.inputs[i].format = kLinear;
      t.support = support;
      if (dtype_info(type).bits < 8) t.support = Support::no("elements are smaller than a byte");
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_resize(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                         const PackContext&) {
  return std::make_unique<ResizeKernel>(query, tactic);
}

}  // namespace

TacticFamily resize_tactics() {
  return {kResizeRunner, list_resize, make_resize};
}

}  // namespace lathe::cpu
