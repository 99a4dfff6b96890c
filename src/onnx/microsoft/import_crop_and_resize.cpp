// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::CropAndResize: boxes of images, resized to one size, as TensorFlow does it. Of each sample
// the rows of channels at its corners are gathered, so that no image is copied and neighbours in the batch do
// not mix.
#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

class CropAndResizeImport {
 public:
  explicit CropAndResizeImport(NodeImport& node) : node_(node) {}

  Values run() {
    read();
    const Place y = along(0, height_, crop_[0], "y"), x = along(1, width_, crop_[1], "x");
    const Shape down = {boxes_, crop_[0], 1}, across = {boxes_, 1, crop_[1]};
    ValueId samples = kNoValue;
    if (nearest_) {
      samples = rows(at(y.low, down, "top"), at(x.low, across, "left"), "samples");
    } else {
      const Shape channels_down = {boxes_, crop_[0], 1, 1}, channels_across = {boxes_, 1, crop_[1], 1};
      const ValueId right = node_.reshape(x.fraction, channels_across, "to_right"),
                    below = node_.reshape(y.fraction, channels_down, "to_bottom");
      const auto line = [&](ValueId row, const std::string& name) {
        const ValueId top = at(row, down, name);
        return between(rows(top, at(x.low, across, name + "_x"), name + "_left"),
                       rows(top, at(x.high, across, name + "_x"), name + "_right"), right, name + "_line");
      };
      const ValueId upper = line(y.low, "top"), lower = line(y.high, "bottom");
      samples = between(upper, lower, below, "samples");
    }
    const ValueId first = node_.transpose(samples, {0, 3, 1, 2}, "channels_first");
    const ValueId inside = node_.pointwise(C::And,
                                           {node_.reshape(y.inside, {boxes_, 1, crop_[0], 1}, "inside_y"),
                                            node_.reshape(x.inside, {boxes_, 1, 1, crop_[1]}, "inside_x")},
                                           "inside");
    const ValueId outside = node_.scalar(node_.real("extrapolation_value", 0), node_.dtype(kX));
    return {node_.pointwise(C::Where, {inside, first, outside})};
  }

 private:
  enum Input : size_t { kX, kBoxes, kImages, kSize };
  static constexpr int64_t kLargestCrop = 1 << 15;

  // Where the samples of each box (R, count) are along an axis: the positions before and behind, and how far
  // between them.
  struct Place {
    ValueId low = kNoValue, high = kNoValue, fraction = kNoValue, inside = kNoValue;
  };

  void read() {
    const Shape x = node_.shape(kX), boxes = node_.shape(kBoxes);
    if (x.size() != 4 || boxes.size() != 2 || !(boxes[1] == Dim(4)) || node_.rank(kImages) != 1)
      node_.fail("expected images (N, C, H, W), boxes (R, 4) and an image index per box");
    if (node_.dtype(kX) != node_.dtype(kBoxes)) node_.fail("images and boxes must have one type");
    const std::string mode = node_.text("mode", "bilinear");
    if (mode != "bilinear" && mode != "nearest")
      node_.fail("mode is '" + mode + "', not bilinear or nearest");
    nearest_ = mode == "nearest";
    const auto size = node_.known_ints(kSize);
    if (!size) throw_unsupported("its crop_size is computed while the model runs; it must be constant");
    if (size->size() != 2) node_.fail("crop_size needs two entries");
    for (const int64_t extent : *size)
      if (extent < 1 || extent > kLargestCrop)
        node_.fail("crop_size has the entry " + std::to_string(extent));
    crop_ = *size;
    boxes_ = boxes[0];
    height_ = x[2];
    width_ = x[3];
    const ValueId last = node_.transpose(node_.in(kX), {0, 2, 3, 1}, "channels_last");
    table_ = node_.reshape(last, {x[0] * height_ * width_, x[1]}, "pixels");
    // The first pixel of each box's image. Gather refuses images that there are not.
    const ValueId starts =
        node_.pointwise(C::Mul, {count_up(node_, x[0], {x[0]}, "images"), node_.dim_scalar(height_ * width_)},
                        "image_starts");
    const ValueId own = node_.add(Gather{.axis = 0}, {starts, node_.in(kImages)}, "box_starts");
    starts_ = node_.reshape(own, {boxes_, 1, 1}, "box_start_axes");
  }

  ValueId corner(int64_t k, const std::string& name) {
    return node_.slice(node_.in(kBoxes), 1, k, k + 1, name);
  }

  // Boxes are fractions of the distance between the first and the last pixel. One sample lies in the middle;
  // of several the first and the last are the edges themselves.
  Place along(int64_t axis, const Dim& extent, int64_t count, const std::string& name) {
    const DType type = node_.dtype(kBoxes);
    const ValueId first = corner(axis, name + "_first"), last = corner(axis + 2, name + "_last");
    const ValueId end = node_.cast(node_.dim_scalar(extent - 1), type, name + "_end");
    const auto times_end = [&](ValueId v, const std::string& what) {
      return node_.pointwise(C::Mul, {v, end}, name + what);
    };
    ValueId place = kNoValue;
    if (count == 1) {
      const ValueId sum = node_.pointwise(C::Add, {first, last}, name + "_sum");
      place = times_end(node_.pointwise(C::Mul, {sum, node_.scalar(0.5, type)}, name + "_middle"), "_place");
    } else {
      const ValueId step =
          node_.pointwise(C::Div,
                          {times_end(node_.pointwise(C::Sub, {last, first}, name + "_extent"), "_pixels"),
                           node_.scalar(static_cast<double>(count - 1), type)},
                          name + "_step");
      std::vector<double> numbers;
      for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(i));
      const ValueId number =
          node_.constant(Tensor::from_doubles(type, {1, count}, numbers), name + "_numbers");
      const ValueId steps = node_.pointwise(
          C::Add, {times_end(first, "_start"), node_.pointwise(C::Mul, {number, step}, name + "_steps")},
          name + "_inner");
      const ValueId is_last = node_.pointwise(
          C::Equal, {number, node_.scalar(static_cast<double>(count - 1), type)}, name + "_is_last");
      place = node_.pointwise(C::Where, {is_last, times_end(last, "_stop"), steps}, name + "_place");
    }
    return placed(place, end, name);
  }

  Place placed(ValueId place, ValueId end, const std::string& name) {
    const DType type = node_.dtype(kBoxes);
    const ValueId zero = node_.scalar(0, type);
    Place result;
    result.inside = node_.pointwise(C::And,
                                    {node_.pointwise(C::GreaterOrEqual, {place, zero}, name + "_after"),
                                     node_.pointwise(C::LessOrEqual, {place, end}, name + "_before")},
                                    name + "_within");
    place = node_.pointwise(C::Where, {result.inside, place, zero}, name + "_safe");
    if (nearest_) {  // halves go up; places are not negative
      const ValueId half = node_.pointwise(C::Add, {place, node_.scalar(0.5, type)}, name + "_half");
      result.low =
          node_.cast(node_.pointwise(C::Floor, {half}, name + "_nearest"), DType::Int64, name + "_low");
      return result;
    }
    const ValueId low = node_.pointwise(C::Floor, {place}, name + "_floor");
    result.fraction = node_.pointwise(C::Sub, {place, low}, name + "_fraction");
    result.low = node_.cast(low, DType::Int64, name + "_low");
    result.high = node_.cast(node_.pointwise(C::Ceil, {place}, name + "_ceil"), DType::Int64, name + "_high");
    return result;
  }

  ValueId at(ValueId places, const Shape& shape, const std::string& name) {
    return node_.reshape(places, shape, name + "_axes");
  }
  // The channels (R, height, width, C) of pixels.
  ValueId rows(ValueId y, ValueId x, const std::string& name) {
    const ValueId line = node_.pointwise(C::Mul, {y, node_.dim_scalar(width_)}, name + "_line");
    const ValueId pixel = node_.pointwise(
        C::Add, {node_.pointwise(C::Add, {line, x}, name + "_pixel"), starts_}, name + "_index");
    return node_.add(Gather{.axis = 0}, {table_, pixel}, name);
  }
  ValueId between(ValueId a, ValueId b, ValueId fraction, const std::string& name) {
    const ValueId way = node_.pointwise(C::Sub, {b, a}, name + "_difference");
    return node_.pointwise(C::Add, {a, node_.pointwise(C::Mul, {way, fraction}, name + "_part")}, name);
  }

  NodeImport& node_;
  bool nearest_ = false;
  Ints crop_;
  Dim boxes_, height_, width_;
  ValueId table_ = kNoValue, starts_ = kNoValue;
};

Values import_microsoft_crop_and_resize(NodeImport& node) {
  return CropAndResizeImport(node).run();
}

}  // namespace

std::vector<Importer> microsoft_crop_importers() {
  return {{"CropAndResize", 1, kLatestOpset, import_microsoft_crop_and_resize, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
