// SPDX-License-Identifier: Apache-2.0
//
// The network API: shapes and the movement of data, and control flow.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "network.h"

namespace lathe_python {

void bind_shapes(nb::class_<Builder>& c) {
  c.def("shape", &Builder::shape, nb::arg("x"), nb::arg(kName) = "", "int64.");
  c.def(
      "reshape",
      [](Builder& b, const Tensor& x, nb::handle dims, const std::string& name) {
        return b.reshape(x, tensor_from(b, dims), name);
      },
      nb::arg("x"), nb::arg("dims"), nb::arg(kName) = "", "0 keeps a dim, one -1 is found.");
  c.def("transpose", &Builder::transpose, nb::arg("x"), nb::arg("permutation"), nb::arg(kName) = "");
  c.def("squeeze", &Builder::squeeze, nb::arg("x"), nb::arg("axes"), nb::arg(kName) = "");
  c.def("unsqueeze", &Builder::unsqueeze, nb::arg("x"), nb::arg("axes"), nb::arg(kName) = "");
  c.def(
      "concatenation",
      [](Builder& b, nb::handle inputs, int64_t axis, const std::string& name) {
        return b.concatenation(tensors_from(b, inputs), axis, name);
      },
      nb::arg("inputs"), nb::arg("axis"), nb::arg(kName) = "");
  c.def("split", &Builder::split, nb::arg("x"), nb::arg("sizes"), nb::arg("axis"), nb::arg(kName) = "");
  c.def(
      "slice",
      [](Builder& b, const Tensor& x, nb::handle starts, nb::handle ends, nb::handle axes, nb::handle steps,
         const std::string& name) {
        const auto of = [&](nb::handle h) { return tensor_from(b, h); };
        return b.slice(x, of(starts), of(ends), of(axes), of(steps), name);
      },
      nb::arg("x"), nb::arg("starts"), nb::arg("ends"), nb::arg("axes") = nb::none(),
      nb::arg("steps") = nb::none(), nb::arg(kName) = "");
  c.def("pad", &Builder::pad, nb::arg("x"), nb::arg("pads"), nb::arg("mode") = api::Padding::Constant,
        nb::arg("value") = 0.0, nb::arg(kName) = "", "pads: in front of each dim, then behind each.");
  c.def(
      "resize",
      [](Builder& b, const Tensor& x, nb::handle sizes, const std::vector<float>& scales,
         api::Interpolation mode, const std::string& coordinates, const std::string& nearest, float cubic,
         bool outside, bool antialias, const std::string& name) {
        const api::ResizeOptions options{{}, scales, mode, coordinates, nearest, cubic, outside, antialias};
        return sizes.is_none() ? b.resize(x, options, name)
                               : b.resize(x, tensor_from(b, sizes), options, name);
      },
      nb::arg("x"), nb::arg("sizes") = nb::none(), nb::arg("scales") = std::vector<float>(),
      nb::arg("mode") = api::Interpolation::Nearest, nb::arg("coordinates") = "half_pixel",
      nb::arg("nearest") = "round_prefer_floor", nb::arg("cubic_coeff") = -0.75f,
      nb::arg("exclude_outside") = false, nb::arg("antialias") = false, nb::arg(kName) = "",
      "Either sizes or scales, one per axis.");
  c.def(
      "expand",
      [](Builder& b, nb::handle x, nb::handle dims, const std::string& name) {
        return b.expand(tensor_from(b, x), tensor_from(b, dims), name);
      },
      nb::arg("x"), nb::arg("dims"), nb::arg(kName) = "");
  c.def("tile", &Builder::tile, nb::arg("x"), nb::arg("repeats"), nb::arg(kName) = "");
  const auto gather = [&](const char* name, auto call, const char* last) {
    c.def(
        name,
        [call](Builder& b, nb::handle x, nb::handle indices, int64_t axis, const std::string& layer) {
          return (b.*call)(tensor_from(b, x), tensor_from(b, indices), axis, layer);
        },
        nb::arg("x"), nb::arg("indices"), nb::arg(last) = 0, nb::arg(kName) = "");
  };
  gather("gather", &Builder::gather, "axis");
  gather("gather_elements", &Builder::gather_elements, "axis");
  gather("gather_nd", &Builder::gather_nd, "batch_dims");
  c.def(
      "scatter_elements",
      [](Builder& b, const Tensor& x, nb::handle indices, nb::handle updates, int64_t axis,
         api::ScatterMode mode, const std::string& name) {
        return b.scatter_elements(x, tensor_from(b, indices), tensor_from(b, updates), axis, mode, name);
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("updates"), nb::arg("axis") = 0,
      nb::arg("mode") = api::ScatterMode::Replace, nb::arg(kName) = "");
  c.def(
      "scatter_nd",
      [](Builder& b, const Tensor& x, nb::handle indices, nb::handle updates, api::ScatterMode mode,
         const std::string& name) {
        return b.scatter_nd(x, tensor_from(b, indices), tensor_from(b, updates), mode, name);
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("updates"), nb::arg("mode") = api::ScatterMode::Replace,
      nb::arg(kName) = "");
  c.def(
      "one_hot",
      [](Builder& b, const Tensor& indices, nb::handle depth, nb::handle values, int64_t axis,
         const std::string& name) {
        return b.one_hot(indices, tensor_from(b, depth), tensor_from(b, values), axis, name);
      },
      nb::arg("indices"), nb::arg("depth"), nb::arg("values"), nb::arg("axis") = -1, nb::arg(kName) = "",
      "values: off and on.");
  c.def(
      "reverse_sequence",
      [](Builder& b, const Tensor& x, nb::handle lengths, int64_t batch_axis, int64_t time_axis,
         const std::string& name) {
        return b.reverse_sequence(x, tensor_from(b, lengths), batch_axis, time_axis, name);
      },
      nb::arg("x"), nb::arg("lengths"), nb::arg("batch_axis") = 1, nb::arg("time_axis") = 0,
      nb::arg(kName) = "");
  c.def(
      "fill",
      [](Builder& b, nb::handle dims, double value, nb::handle type, const std::string& name) {
        return b.fill(tensor_from(b, dims), value, type_from(type), name);
      },
      nb::arg("dims"), nb::arg("value"), nb::arg("dtype") = "float32", nb::arg(kName) = "");
  c.def(
      "range",
      [](Builder& b, nb::handle start, nb::handle limit, nb::handle delta, const std::string& name) {
        return b.range(tensor_from(b, start), tensor_from(b, limit), tensor_from(b, delta), name);
      },
      nb::arg("start"), nb::arg("limit"), nb::arg("delta"), nb::arg(kName) = "");
  c.def("random_uniform", &Builder::random_uniform, nb::arg("dims"), nb::arg("low") = 0.0,
        nb::arg("high") = 1.0, nb::arg("seed") = 0, nb::arg(kName) = "");
  c.def("random_normal", &Builder::random_normal, nb::arg("dims"), nb::arg("mean") = 0.0,
        nb::arg("scale") = 1.0, nb::arg("seed") = 0, nb::arg(kName) = "");
  c.def("non_zero", &Builder::non_zero, nb::arg("x"), nb::arg(kName) = "");
  c.def(
      "non_max_suppression",
      [](Builder& b, const Tensor& boxes, const Tensor& scores, nb::handle max_boxes, nb::handle iou,
         nb::handle score, bool center, const std::string& name) {
        const auto of = [&](nb::handle h, api::DataType type) { return tensor_from(b, h, type); };
        return b.non_max_suppression(boxes, scores, of(max_boxes, api::DataType::Int64),
                                     of(iou, api::DataType::Float), of(score, api::DataType::Float), center,
                                     name);
      },
      nb::arg("boxes"), nb::arg("scores"), nb::arg("max_boxes_per_class"),
      nb::arg("iou_threshold") = nb::none(), nb::arg("score_threshold") = nb::none(),
      nb::arg("center_point_box") = false, nb::arg(kName) = "",
      "boxes (B, N, 4), scores (B, C, N); gives (selected, 3): image, class, box.");
  c.def("grid_sample", &Builder::grid_sample, nb::arg("x"), nb::arg("grid"),
        nb::arg("mode") = api::Interpolation::Linear, nb::arg("padding") = "zeros",
        nb::arg("align_corners") = false, nb::arg(kName) = "");
}

// A body's builder lives as long as the call: Python gets a copy of the handle.
void bind_flow(nb::class_<Builder>& c) {
  const auto branch = [](nb::callable function) -> Builder::Branch {
    return [function](Builder& body) {
      Builder copy = body;
      const nb::object result = function(nb::cast(copy));
      if (nb::isinstance<Tensor>(result)) return api::NetworkTensors{nb::cast<Tensor>(result)};
      return tensors_from(copy, result);
    };
  };
  c.def(
      "if_else",
      [branch](Builder& b, const Tensor& condition, const nb::callable& then, const nb::callable& otherwise,
               const std::string& name) {
        return b.if_else(condition, branch(then), branch(otherwise), name);
      },
      nb::arg("condition"), nb::arg("then"), nb::arg("otherwise"), nb::arg(kName) = "",
      "then(body) and otherwise(body) add layers to `body` and return the results.");
  c.def(
      "loop",
      [](Builder& b, nb::handle trips, nb::handle condition, nb::handle carried, const nb::callable& body,
         const std::string& name) {
        const auto fill = [&](Builder& inner, const Tensor& iteration, const api::NetworkTensors& values) {
          Builder copy = inner;
          const nb::tuple step(body(nb::cast(copy), iteration, values));
          Builder::LoopStep result;
          result.carried = tensors_from(copy, step[0]);
          if (step.size() > 1 && !nb::handle(step[1]).is_none()) result.scanned = tensors_from(copy, step[1]);
          if (step.size() > 2) result.go_on = tensor_from(copy, step[2]);
          return result;
        };
        return b.loop(tensor_from(b, trips), tensor_from(b, condition), tensors_from(b, carried), fill, name);
      },
      nb::arg("trip_count").none(), nb::arg("condition").none(), nb::arg("carried"), nb::arg("body"),
      nb::arg(kName) = "",
      "body(body, iteration, carried) returns (carried, scanned, go_on); the last two may be left out. Gives "
      "the carried values, then "
      "what was scanned, stacked. The function may be called more than once.");
}

}  // namespace lathe_python
