// SPDX-License-Identifier: Apache-2.0
//
// Pictures that a model decodes itself.
//
//   ImageSize (file)           int64 (3): height, width and channels; zeros for the first two where the bytes
//                              are no picture
//   ImageDecode (file, size)   uint8 (height, width, channels), as ImageSize says them
//
// Field of both: pixels (RGB, BGR or Grayscale). Memory of a result must be there before it is computed, so
// that the size is an operator of its own; it decodes the picture, too, since only then it is sure to be one.
#include <algorithm>

#include "base/error.h"
#include "image/decode.h"
#include "plugin/host_operator.h"

namespace lathe::plugin {

namespace {

constexpr int64_t kMostPixels = 1 << 14;  // a side

PixelFormat pixel_format(const std::string& word) {
  if (word == "RGB") return PixelFormat::Rgb;
  if (word == "BGR") return PixelFormat::Bgr;
  if (word == "Grayscale") return PixelFormat::Grey;
  throw_input_error("its pixels are '" + word + "', expected RGB, BGR or Grayscale");
}

class ImageOperator : public HostOperator {
 public:
  ImageOperator(std::string_view name, const std::vector<PluginField>& fields)
      : HostOperator(name, fields), format_(pixel_format(text_of(fields, "pixels"))) {}

 protected:
  int64_t channels() const { return format_ == PixelFormat::Grey ? 1 : 3; }
  Picture decode(const PluginOperand& file) const {
    const auto* bytes = static_cast<const unsigned char*>(file.data);
    return decode_picture({bytes, static_cast<size_t>(file.extents[0])}, format_);
  }
  static void check_file(const PluginType& file) {
    if (file.dtype != DType::UInt8 || file.shape.size() != 1)
      throw_input_error("the picture is " + std::string(dtype_name(file.dtype)) + to_string(file.shape) +
                        ", expected its file's bytes: uint8[n]");
  }

 private:
  PixelFormat format_;
};

class ImageSize final : public ImageOperator {
 public:
  explicit ImageSize(const std::vector<PluginField>& fields) : ImageOperator("ImageSize", fields) {}

 private:
  std::vector<DType> result_types() const override { return {DType::Int64}; }
  std::pair<size_t, size_t> arity() const override { return {1, 1}; }
  std::vector<PluginType> results(std::string_view, std::span<const PluginType> inputs) const override {
    check_file(inputs[0]);
    return {{DType::Int64, {Dim(3)}}};
  }
  void compute(const PluginCall& call) const override {
    const Picture picture = decode(call.inputs[0]);
    const int64_t size[] = {picture.height, picture.width, channels()};
    std::ranges::copy(size, static_cast<int64_t*>(call.outputs[0].data));
  }
};

class ImageDecode final : public ImageOperator {
 public:
  explicit ImageDecode(const std::vector<PluginField>& fields) : ImageOperator("ImageDecode", fields) {}

 private:
  DType input_type(size_t input) const override { return input == 1 ? DType::Int64 : DType::UInt8; }
  std::vector<DType> result_types() const override { return {DType::UInt8}; }
  std::pair<size_t, size_t> arity() const override { return {2, 2}; }
  std::vector<PluginType> results(std::string_view node, std::span<const PluginType> inputs) const override {
    check_file(inputs[0]);
    if (inputs[1].dtype != DType::Int64 || inputs[1].shape != Shape{Dim(3)})
      throw_input_error("its size is " + std::string(dtype_name(inputs[1].dtype)) +
                        to_string(inputs[1].shape) + ", expected int64[3]");
    Shape shape = {Dim::data_dependent(std::string(node) + ".height", kMostPixels),
                   Dim::data_dependent(std::string(node) + ".width", kMostPixels), Dim(channels())};
    if (inputs[1].contents)
      for (size_t d = 0; d < 2; ++d) shape[d] = (*inputs[1].contents)[d];
    return {{DType::UInt8, shape}};
  }
  void compute(const PluginCall& call) const override {
    const Picture picture = decode(call.inputs[0]);
    const PluginOperand& out = call.outputs[0];
    if (out.extents != Extents{picture.height, picture.width, channels()})
      throw_input_error("the picture has " + std::to_string(picture.height) + " rows of " +
                        std::to_string(picture.width) + " pixels, its size is said to be " +
                        to_string(out.extents));
    std::ranges::copy(picture.pixels, static_cast<unsigned char*>(out.data));
  }
};

}  // namespace

const std::vector<HostOperatorMaker>& image_operators() {
  static const std::vector<HostOperatorMaker> all = {{"ImageSize", make_operator<ImageSize>},
                                                     {"ImageDecode", make_operator<ImageDecode>}};
  return all;
}

}  // namespace lathe::plugin
