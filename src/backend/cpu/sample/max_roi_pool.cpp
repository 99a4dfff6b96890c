// SPDX-License-Identifier: Apache-2.0
//
// MaxRoiPool on FP32, BF16 and FP16 in linear format. A member takes a channel of a box.
//
// Bytes: the pixels of the box, once for all bins of a channel and mostly from L2, and the result. A row of a
// bin is short: its largest pixel is found one after the other, about a pixel per ns, NaN as the operator has
// it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"
#include "ir/elements.h"
#include "ops/roi_points.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kMaxRoiPoolRunner = "MaxRoiPool";

class PreparedMaxRoiPool final : public PreparedLayer {
 public:
  std::string name;
  MaxRoiPool op;
  DType type = DType::Float32, box_type = DType::Float32;
  int64_t images = 0, channels = 0, height = 0, width = 0, rois = 0;

  int members(int available) const override {
    return members_for(10.0 * static_cast<double>(rois * channels * op.output_height * op.output_width),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    Box box;
    const Worker::Range part = worker.slice(rois * channels);
    with_codec(type, [&]<class Codec>() {
      for (int64_t i = part.begin; i < part.end; ++i) {
        if (box.number != i / channels) find_box(args, i / channels, box);
        const int64_t first = (box.image * channels + i % channels) * height * width;
        int64_t at = i * op.output_height * op.output_width;
        for (const RoiSpan& rows : box.rows)
          for (const RoiSpan& columns : box.columns)
            Codec::put(static_cast<std::byte*>(args.outputs[0]), at++,
                       largest<Codec>(static_cast<const std::byte*>(args.inputs[0]), first, rows, columns));
      }
    });
  }

 private:
  struct Box {
    int64_t number = -1, image = 0;
    std::vector<RoiSpan> rows, columns;
  };
  void find_box(const LayerArgs& args, int64_t number, Box& box) const {
    double corners[5];
    load_doubles(box_type, static_cast<const std::byte*>(args.inputs[1]), 5 * number, 5, corners);
    box.number = number;
    try {
      box.image = checked_roi_image(corners[0], number, images);
    } catch (Error& error) {
      error.add_context(name + " (MaxRoiPool)");
      throw;
    }
    if (!std::all_of(corners, corners + 5, [](double v) { return std::isfinite(v); }))
      throw_input_error(name + " (MaxRoiPool): box " + std::to_string(number) +
                        " has coordinates that are not finite");
    box.rows.clear();
    box.columns.clear();
    for (int64_t i = 0; i < op.output_height; ++i)
      box.rows.push_back(roi_span(corners[2], corners[4], op.spatial_scale, i, op.output_height, height));
    for (int64_t i = 0; i < op.output_width; ++i)
      box.columns.push_back(roi_span(corners[1], corners[3], op.spatial_scale, i, op.output_width, width));
  }
  template <class Codec>
  typename Codec::Wide largest(const std::byte* x, int64_t first, const RoiSpan& rows,
                               const RoiSpan& columns) const {
    using Wide = typename Codec::Wide;
    if (rows.begin >= rows.end || columns.begin >= columns.end) return 0;
    Wide top = std::numeric_limits<Wide>::lowest();
    if constexpr (Codec::kFloat) top = -std::numeric_limits<Wide>::infinity();
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      Wide row = Codec::get(x, first + y * width + columns.begin);
      for (int64_t i = columns.begin + 1; i < columns.end; ++i)
        row = std::max(row, Codec::get(x, first + y * width + i));
      top = std::max(top, row);
    }
    return top;
  }
};

class MaxRoiPoolKernel final : public LayerKernel {
 public:
  MaxRoiPoolKernel(const LayerQuery& query, const Tactic& tactic)
      : name_(query.layer().name), op_(std::get<MaxRoiPool>(query.layer().op)), tactic_(tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedMaxRoiPool>();
    const Extents& x = context.inputs[0];
    p->name = name_;
    p->op = op_;
    p->type = tactic_.inputs[0].dtype;
    p->box_type = tactic_.inputs[1].dtype;
    p->images = x[0];
    p->channels = x[1];
    p->height = x[2];
    p->width = x[3];
    p->rois = context.outputs[0][0];
    return p;
  }

 private:
  std::string name_;
  MaxRoiPool op_;
  Tactic tactic_;
};

std::vector<Tactic> list_max_roi_pool(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<MaxRoiPool>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kMaxRoiPoolRunner, "max_roi_pool");
    t.inputs[0].dtype = t.outputs[0].dtype = type;
    if (!node.epilogue.empty())
      t.support = Support::no("a selection applies no epilogue");
    else if (!is_vector_float(type))
      t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    else if (query.graph.value(node.inputs[0]).is_constant())
      t.support = Support::no("the image is a constant");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_max_roi_pool(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                               const PackContext&) {
  return std::make_unique<MaxRoiPoolKernel>(query, tactic);
}

}  // namespace

TacticFamily max_roi_pool_tactics() {
  return {kMaxRoiPoolRunner, list_max_roi_pool, make_max_roi_pool};
}

}  // namespace lathe::cpu
