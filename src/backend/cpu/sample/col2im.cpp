// SPDX-License-Identifier: Apache-2.0
//
// Col2Im on FP32, BF16 and FP16: rows of the image are sums of the rows of blocks that cover them.
//
// Bytes: x read once, the image written once: some rows collect their sums in L1, so that no pixel goes to
// memory twice. Operations: one addition per element of x, by vectors (block_rows.h), and with steps above 1
// a transposition of each row in registers.
#include <algorithm>

#include "backend/cpu/sample/block_rows.h"
#include "backend/cpu/sample/sample.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "base/error.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kCol2imRunner = "Col2Im";

class PreparedCol2Im final : public PreparedLayer {
 public:
  DType type = DType::Float32;
  int64_t planes = 0;
  BlockRows blocks;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  explicit PreparedCol2Im(std::vector<WindowAxis> axes) : blocks(std::move(axes)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats() * threads) * 4; }
  int members(int available) const override {
    return members_for(
        0.15 * static_cast<double>(planes * blocks.taps()) * static_cast<double>(blocks.count()),
        std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    const int64_t width = blocks.width(), rows = blocks.rows(), band = blocks.band();
    const int64_t per_plane = (rows + band - 1) / band;
    const Worker::Range part = worker.slice(planes * per_plane);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t plane = i / per_plane, first = i % per_plane * band, end = std::min(first + band, rows);
      const int64_t at = (plane * rows + first) * width, n = (end - first) * width;
      float* sum = epilogue->is_identity() ? static_cast<float*>(args.outputs[0]) + at : own;
      const int64_t elements = blocks.taps() * blocks.count();
      const auto* x = static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type, plane * elements);
      blocks.sum(first, end, sample_table(isa), x, stored_as(type), blocks.count(), 0, sum,
                 own + round_up(band * width, 16));
      epilogue->apply(args, sum, n, at, 1, n, n);
    }
  }

 private:
  int64_t member_floats() const {
    return round_up(blocks.band() * blocks.width(), 16) + round_up(blocks.line_floats(), 16);
  }
};

class Col2ImKernel final : public LayerKernel {
 public:
  Col2ImKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<Col2Im>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        block_(query.graph.value(query.layer().inputs[2]).constant.to_int64s()),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &y = context.outputs[0];
    const WindowSpec spec{block_, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end};
    check_window(spec, y.size() - 2, "Col2Im");
    auto p = std::make_unique<PreparedCol2Im>(resolve_window(spec, Extents(y.begin() + 2, y.end())));
    if (x[2] != p->blocks.count() || x[1] != y[1] * element_count(block_))
      throw_input_error(name_ + " (Col2Im): x of " + to_string(x) + " has not the blocks of an image of " +
                        to_string(y));
    p->type = type_;
    p->planes = y[0] * y[1];
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  std::string name_;
  Col2Im op_;
  DType type_;
  Extents block_;
  Isa isa_;
  Epilogue epilogue_;
};

Support supports_col2im(const LayerQuery& query, DType type) {
  const Node& node = query.layer();
  if (!is_vector_float(type)) return no_vector_kernel(type);
  if (query.graph.value(node.inputs[0]).is_constant()) return Support::no("the operand is a constant");
  if (!query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the block is known only at run time");
  for (const Dim& dim : query.graph.value(node.outputs[0]).shape)
    if (!dim.data_dependent_names().empty()) return Support::no("the image is known only at run time");
  return {};
}

std::vector<Tactic> list_col2im(const LayerQuery& query, const Machine&) {
  if (!std::holds_alternative<Col2Im>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType linear{type, kLinear};
    Tactic t = typed_tactic(query, kCol2imRunner, "col2im_rows", linear, linear);
    if (const Support s = supports_col2im(query, type); !s.ok) t.support = s;
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_col2im(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext&) {
  return std::make_unique<Col2ImKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily col2im_tactics() {
  return {kCol2imRunner, list_col2im, make_col2im};
}

}  // namespace lathe::cpu
