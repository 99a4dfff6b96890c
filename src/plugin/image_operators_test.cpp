// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error_check.h"
#include "plugin/built_in.h"

namespace lathe::plugin {
namespace {

std::shared_ptr<const PluginCode> image_code(std::string name, std::string_view pixels = "RGB") {
  return built_in_operator({std::move(name), "1", "lathe"},
                           plugin_fields_text(std::vector{text_field("pixels", pixels)}));
}

const std::string kPpm = std::string("P6\n2 1\n255\n") + "\xFF" + std::string("\0\0\x01\x02\xFE", 5);

PluginOperand file_of(const std::string& bytes) {
  return {DType::UInt8, kLinear, {static_cast<int64_t>(bytes.size())}, const_cast<char*>(bytes.data())};
}

std::vector<int64_t> size_of(const std::string& file) {
  std::vector<int64_t> size(3, -1);
  const PluginOperand in[] = {file_of(file)};
  PluginOperand out[] = {{DType::Int64, kLinear, {3}, size.data()}};
  image_code("ImageSize")->run(PluginDevice::Cpu, {in, out});
  return size;
}

TEST(ImageOperators, SizeAndThenPixels) {
  EXPECT_EQ(size_of(kPpm), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(size_of("no picture"), (std::vector<int64_t>{0, 0, 3}));
  const PluginType types[] = {{DType::UInt8, {Dim(17)}},
                              {DType::Int64, {Dim(3)}, Shape{Dim(1), Dim(2), Dim(3)}}};
  EXPECT_EQ(image_code("ImageDecode")->infer("node", types, 1)[0].shape, (Shape{Dim(1), Dim(2), Dim(3)}));
  const PluginType unknown[] = {types[0], {DType::Int64, {Dim(3)}}};
  EXPECT_EQ(to_string(image_code("ImageDecode", "Grayscale")->infer("node", unknown, 1)[0].shape),
            "[node.height<=16384, node.width<=16384, 1]");
  std::vector<int64_t> size = {1, 2, 3};
  std::vector<unsigned char> pixels(6);
  const PluginOperand in[] = {file_of(kPpm), {DType::Int64, kLinear, {3}, size.data()}};
  PluginOperand out[] = {{DType::UInt8, kLinear, {1, 2, 3}, pixels.data()}};
  EXPECT_TRUE(image_code("ImageDecode")->supports(PluginDevice::Cpu, in, out));
  image_code("ImageDecode")->run(PluginDevice::Cpu, {in, out});
  EXPECT_EQ(pixels, (std::vector<unsigned char>{255, 0, 0, 1, 2, 254}));
}

TEST(ImageOperators, Errors) {
  expect_says(error_of([] { image_code("ImageSize", "CMYK"); }),
              "its pixels are 'CMYK', expected RGB, BGR or Grayscale");
  const PluginType floats[] = {{DType::Float32, {Dim(17)}}};
  expect_says(error_of([&] { image_code("ImageSize")->infer("node", floats, 1); }),
              "the picture is float32[17], expected its file's bytes");
  const PluginType wrong[] = {{DType::UInt8, {Dim(17)}}, {DType::Int64, {Dim(2)}}};
  expect_says(error_of([&] { image_code("ImageDecode")->infer("node", wrong, 1); }), "its size is int64[2]");
  std::vector<unsigned char> pixels(3);
  const PluginOperand in[] = {file_of(kPpm), {DType::Int64, kLinear, {3}, nullptr}};
  PluginOperand out[] = {{DType::UInt8, kLinear, {1, 1, 3}, pixels.data()}};
  expect_says(error_of([&] {
                image_code("ImageDecode")->run(PluginDevice::Cpu, {in, out});
              }),
              "the picture has 1 rows of 2 pixels, its size is said to be 1x1x3");
}

}  // namespace
}  // namespace lathe::plugin
