// SPDX-License-Identifier: Apache-2.0
//
// Layers of the network API: shapes, data movement, selection and sampling.
#include <array>

#include "lathe/network.h"

namespace lathe::v1 {

namespace {

constexpr std::array kPaddings = {"constant", "reflect", "edge", "wrap"};
constexpr std::array kInterpolations = {"nearest", "linear", "cubic"};
constexpr std::array kScatterModes = {"none", "add", "mul", "min", "max"};

template <class Table, class Enum>
std::string name_in(const Table& table, Enum value) {
  return table.at(static_cast<size_t>(value));
}

Attributes resize_attributes(const ResizeOptions& o) {
  return {{"mode", name_in(kInterpolations, o.mode)},
          {"coordinate_transformation_mode", o.coordinates},
          {"nearest_mode", o.nearest},
          {"cubic_coeff_a", double{o.cubic_coeff}},
          {"exclude_outside", int64_t{o.exclude_outside}},
          {"antialias", int64_t{o.antialias}}};
}

}  // namespace

NetworkTensor NetworkBuilder::shape(const NetworkTensor& x, const std::string& name) {
  return one("Shape", {x}, {}, name);
}
NetworkTensor NetworkBuilder::reshape(const NetworkTensor& x, const Dims& dims, const std::string& name) {
  return reshape(x, ints(dims), name);
}
NetworkTensor NetworkBuilder::reshape(const NetworkTensor& x, const NetworkTensor& dims,
                                      const std::string& name) {
  return one("Reshape", {x, dims}, {}, name);
}
NetworkTensor NetworkBuilder::transpose(const NetworkTensor& x, const Dims& permutation,
                                        const std::string& name) {
  return one("Transpose", {x}, {{"perm", permutation}}, name);
}
NetworkTensor NetworkBuilder::squeeze(const NetworkTensor& x, const Dims& axes, const std::string& name) {
  return one("Squeeze", {x, ints(axes)}, {}, name);
}
NetworkTensor NetworkBuilder::unsqueeze(const NetworkTensor& x, const Dims& axes, const std::string& name) {
  return one("Unsqueeze", {x, ints(axes)}, {}, name);
}
NetworkTensor NetworkBuilder::concatenation(const NetworkTensors& inputs, int64_t axis,
                                            const std::string& name) {
  return one("Concat", inputs, {{"axis", axis}}, name);
}
NetworkTensors NetworkBuilder::split(const NetworkTensor& x, const Dims& sizes, int64_t axis,
                                     const std::string& name) {
  return op("Split", {x, ints(sizes)}, {{"axis", axis}}, sizes.size(), name);
}

NetworkTensor NetworkBuilder::slice(const NetworkTensor& x, const Dims& starts, const Dims& ends,
                                    const Dims& axes, const Dims& steps, const std::string& name) {
  const auto given = [&](const Dims& values) { return values.empty() ? NetworkTensor() : ints(values); };
  return slice(x, ints(starts), ints(ends), given(axes), given(steps), name);
}
NetworkTensor NetworkBuilder::slice(const NetworkTensor& x, const NetworkTensor& starts,
                                    const NetworkTensor& ends, const NetworkTensor& axes,
                                    const NetworkTensor& steps, const std::string& name) {
  return one("Slice", {x, starts, ends, axes, steps}, {}, name);
}
NetworkTensor NetworkBuilder::pad(const NetworkTensor& x, const Dims& pads, Padding mode, double value,
                                  const std::string& name) {
  return one("Pad", {x, ints(pads), scalar(value, x.type())}, {{"mode", name_in(kPaddings, mode)}}, name);
}

NetworkTensor NetworkBuilder::resize(const NetworkTensor& x, const ResizeOptions& options,
                                     const std::string& name) {
  if (!options.sizes.empty()) return resize(x, ints(options.sizes), options, name);
  const HostTensor scales(DataType::Float, {static_cast<int64_t>(options.scales.size())}, options.scales);
  return one("Resize", {x, NetworkTensor(), constant(scales)}, resize_attributes(options), name);
}
NetworkTensor NetworkBuilder::resize(const NetworkTensor& x, const NetworkTensor& sizes,
                                     const ResizeOptions& options, const std::string& name) {
  return one("Resize", {x, NetworkTensor(), NetworkTensor(), sizes}, resize_attributes(options), name);
}

NetworkTensor NetworkBuilder::expand(const NetworkTensor& x, const Dims& dims, const std::string& name) {
  return expand(x, ints(dims), name);
}
NetworkTensor NetworkBuilder::expand(const NetworkTensor& x, const NetworkTensor& dims,
                                     const std::string& name) {
  return one("Expand", {x, dims}, {}, name);
}
NetworkTensor NetworkBuilder::tile(const NetworkTensor& x, const Dims& repeats, const std::string& name) {
  return one("Tile", {x, ints(repeats)}, {}, name);
}

NetworkTensor NetworkBuilder::gather(const NetworkTensor& x, const NetworkTensor& indices, int64_t axis,
                                     const std::string& name) {
  return one("Gather", {x, indices}, {{"axis", axis}}, name);
}
NetworkTensor NetworkBuilder::gather_elements(const NetworkTensor& x, const NetworkTensor& indices,
                                              int64_t axis, const std::string& name) {
  return one("GatherElements", {x, indices}, {{"axis", axis}}, name);
}
NetworkTensor NetworkBuilder::gather_nd(const NetworkTensor& x, const NetworkTensor& indices,
                                        int64_t batch_dims, const std::string& name) {
  return one("GatherND", {x, indices}, {{"batch_dims", batch_dims}}, name);
}
NetworkTensor NetworkBuilder::scatter_elements(const NetworkTensor& x, const NetworkTensor& indices,
                                               const NetworkTensor& updates, int64_t axis, ScatterMode mode,
                                               const std::string& name) {
  return one("ScatterElements", {x, indices, updates},
             {{"axis", axis}, {"reduction", name_in(kScatterModes, mode)}}, name);
}
NetworkTensor NetworkBuilder::scatter_nd(const NetworkTensor& x, const NetworkTensor& indices,
                                         const NetworkTensor& updates, ScatterMode mode,
                                         const std::string& name) {
  return one("ScatterND", {x, indices, updates}, {{"reduction", name_in(kScatterModes, mode)}}, name);
}
NetworkTensor NetworkBuilder::one_hot(const NetworkTensor& indices, const NetworkTensor& depth,
                                      const NetworkTensor& values, int64_t axis, const std::string& name) {
  return one("OneHot", {indices, depth, values}, {{"axis", axis}}, name);
}
NetworkTensor NetworkBuilder::reverse_sequence(const NetworkTensor& x, const NetworkTensor& lengths,
                                               int64_t batch_axis, int64_t time_axis,
                                               const std::string& name) {
  return one("ReverseSequence", {x, lengths}, {{"batch_axis", batch_axis}, {"time_axis", time_axis}}, name);
}

NetworkTensor NetworkBuilder::fill(const Dims& dims, double value, DataType type, const std::string& name) {
  return fill(ints(dims), value, type, name);
}
NetworkTensor NetworkBuilder::fill(const NetworkTensor& dims, double value, DataType type,
                                   const std::string& name) {
  return expand(scalar(value, type), dims, name);
}
NetworkTensor NetworkBuilder::range(const NetworkTensor& start, const NetworkTensor& limit,
                                    const NetworkTensor& delta, const std::string& name) {
  return one("Range", {start, limit, delta}, {}, name);
}
NetworkTensor NetworkBuilder::random_uniform(const Dims& dims, double low, double high, int seed,
                                             const std::string& name) {
  return one("RandomUniform", {}, {{"shape", dims}, {"low", low}, {"high", high}, {"seed", double(seed)}},
             name);
}
NetworkTensor NetworkBuilder::random_normal(const Dims& dims, double mean, double scale, int seed,
                                            const std::string& name) {
  return one("RandomNormal", {}, {{"shape", dims}, {"mean", mean}, {"scale", scale}, {"seed", double(seed)}},
             name);
}

NetworkTensor NetworkBuilder::non_zero(const NetworkTensor& x, const std::string& name) {
  return one("NonZero", {x}, {}, name);
}
NetworkTensor NetworkBuilder::non_max_suppression(const NetworkTensor& boxes, const NetworkTensor& scores,
                                                  const NetworkTensor& max_boxes_per_class,
                                                  const NetworkTensor& iou_threshold,
                                                  const NetworkTensor& score_threshold, bool center_point_box,
                                                  const std::string& name) {
  return one("NonMaxSuppression", {boxes, scores, max_boxes_per_class, iou_threshold, score_threshold},
             {{"center_point_box", int64_t{center_point_box}}}, name);
}
NetworkTensor NetworkBuilder::grid_sample(const NetworkTensor& x, const NetworkTensor& grid,
                                          Interpolation mode, const std::string& padding, bool align_corners,
                                          const std::string& name) {
  return one("GridSample", {x, grid},
             {{"mode", name_in(kInterpolations, mode)},
              {"padding_mode", padding},
              {"align_corners", int64_t{align_corners}}},
             name);
}

}  // namespace lathe::v1
