// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

// A BMP file of 24 bits a pixel: the simplest format to write by hand.
class Image : public testing::Test {
 protected:
  void TearDown() override { fs::remove(file); }

  template <class Rgb>
  void write(int width, int height, Rgb&& rgb) const {
    const int row = (width * 3 + 3) / 4 * 4;
    std::string bytes = "BM";
    const auto number = [&](uint32_t value, int count) {
      for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i & 255);
    };
    number(static_cast<uint32_t>(54 + row * height), 4), number(0, 4), number(54, 4), number(40, 4);
    number(static_cast<uint32_t>(width), 4), number(static_cast<uint32_t>(height), 4), number(1, 2),
        number(24, 2);
    for (int i = 0; i < 6; ++i) number(0, 4);
    for (int y = height - 1; y >= 0; --y) {  // from the bottom up, blue first
      for (int x = 0; x < width; ++x) {
        const std::array<int, 3> color = rgb(x, y);
        for (const int c : {2, 1, 0}) number(static_cast<uint32_t>(color[static_cast<size_t>(c)]), 1);
      }
      bytes.append(static_cast<size_t>(row - width * 3), '\0');
    }
    std::ofstream(file, std::ios::binary) << bytes;
  }
  std::string error_of(DType dtype, const Extents& extents, const Preprocess& preprocess) const {
    try {
      read_image(file, dtype, extents, preprocess);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const fs::path file = fs::temp_directory_path() / ("lathe_image_" + std::to_string(::getpid()) + ".bmp");
};

TEST_F(Image, ChannelsComeAsTheInputHasThem) {
  write(3, 2, [](int x, int y) { return std::array{x, 10 + y, 200}; });
  const Tensor planes = read_image(file, DType::UInt8, {2, 3, 2, 3}, Preprocess::Pixels);
  const Tensor rows = read_image(file, DType::UInt8, {2, 3, 3}, Preprocess::Pixels);
  for (int y = 0; y < 2; ++y)
    for (int x = 0; x < 3; ++x)
      for (int c = 0; c < 3; ++c) {
        const int expected = c == 0 ? x : c == 1 ? 10 + y : 200;
        for (int n = 0; n < 2; ++n)
          EXPECT_EQ(planes.data<uint8_t>()[static_cast<size_t>(((n * 3 + c) * 2 + y) * 3 + x)], expected);
        // 3 may be read as channels in front or behind: in front comes first.
        EXPECT_EQ(read_image(file, DType::UInt8, {1, 2, 3, 3}, Preprocess::Pixels)
                      .data<uint8_t>()[static_cast<size_t>((y * 3 + x) * 3 + c)],
                  expected);
      }
  EXPECT_EQ(rows.extents(), (Extents{2, 3, 3}));
}

TEST_F(Image, ValuesAreThoseOfTheRecipe) {
  write(8, 8, [](int, int) { return std::array{255, 51, 0}; });
  const auto first = [&](Preprocess preprocess) {
    const Tensor t = read_image(file, DType::Float32, {1, 3, 4, 4}, preprocess);
    return std::array{t.data<float>()[0], t.data<float>()[16], t.data<float>()[32]};
  };
  EXPECT_NEAR(first(Preprocess::Unit)[1], 0.2, 1e-5);
  EXPECT_NEAR(first(Preprocess::Signed)[2], -1, 1e-5);
  EXPECT_NEAR(first(Preprocess::Pixels)[0], 255, 0);
  const auto imagenet = first(Preprocess::ImageNet);
  EXPECT_NEAR(imagenet[0], (1 - 0.485) / 0.229, 1e-4);
  EXPECT_NEAR(imagenet[1], (0.2 - 0.456) / 0.224, 1e-4);
  EXPECT_NEAR(imagenet[2], (0 - 0.406) / 0.225, 1e-4);
}

// A wide picture whose left third is red, middle third green and right third blue: the middle is what
// ImageNet's networks see.
TEST_F(Image, ImageNetSeesTheMiddle) {
  write(96, 32, [](int x, int) {
    return std::array{x < 32 ? 255 : 0, x >= 32 && x < 64 ? 255 : 0, x >= 64 ? 255 : 0};
  });
  const Tensor t = read_image(file, DType::Float32, {1, 3, 28, 28}, Preprocess::ImageNet);
  for (size_t i = 0; i < 28 * 28; ++i)
    EXPECT_NEAR(t.data<float>()[28 * 28 + i], (1 - 0.456) / 0.224, 1e-3) << i;
  const Tensor all = read_image(file, DType::Float32, {1, 3, 2, 3}, Preprocess::Unit);
  EXPECT_GT(all.data<float>()[0], 0.8);       // red on the left
  EXPECT_GT(all.data<float>()[12 + 2], 0.8);  // blue on the right
}

TEST_F(Image, ShrinkingAverages) {
  write(64, 64, [](int x, int y) { return (x + y) % 2 ? std::array{255, 255, 255} : std::array{0, 0, 0}; });
  const Tensor t = read_image(file, DType::Float32, {1, 1, 8, 8}, Preprocess::Unit);
  for (const float v : t.data<float>()) EXPECT_NEAR(v, 0.5, 0.02);
}

TEST_F(Image, ErrorsTeach) {
  write(4, 4, [](int, int) { return std::array{0, 0, 0}; });
  EXPECT_NE(error_of(DType::Float32, {1, 5}, Preprocess::Unit).find("an input of shape 1x5 is no picture"),
            std::string::npos);
  EXPECT_NE(error_of(DType::UInt8, {1, 3, 4, 4}, Preprocess::ImageNet).find("prepare it as 'pixels'"),
            std::string::npos);
  std::ofstream(file, std::ios::binary) << "BM and nothing";
  EXPECT_NE(error_of(DType::Float32, {1, 3, 4, 4}, Preprocess::Unit).find("is no picture that can be read"),
            std::string::npos);
  EXPECT_THROW(preprocess_of("caffe"), Error);
  EXPECT_TRUE(is_image_file("a/CAT.JPEG"));
  EXPECT_FALSE(is_image_file("cat.npy"));
}

TEST_F(Image, StepsAreARecipesNumbers) {
  write(4, 4, [](int, int) { return std::array{255, 51, 0}; });
  const Extents extents = {3, 4, 4};
  const auto first = [&](std::string_view steps, int64_t channel) {
    return read_image(file, DType::Float32, extents, preprocess_of(steps))
        .data<float>()[static_cast<size_t>(channel * 16)];
  };
  EXPECT_FLOAT_EQ(first("mean=0.5/0.1/0,std=0.5/0.25/1", 0), 1);
  EXPECT_FLOAT_EQ(first("mean=0.5/0.1/0,std=0.5/0.25/1", 1), 0.4f);
  EXPECT_FLOAT_EQ(first("scale=1,order=bgr", 0), 0);
  EXPECT_FLOAT_EQ(first("scale=1,order=bgr", 2), 255);
  EXPECT_FLOAT_EQ(first("imagenet,resize=stretch,mean=0,std=1", 1), 0.2f);
  EXPECT_FLOAT_EQ(first("imagenet,resize=9", 0), first("imagenet", 0));
  EXPECT_FLOAT_EQ(first("signed", 0), 1);
}

TEST_F(Image, ResizeSaysHowMuchOfThePictureIsSeen) {
  write(64, 64, [](int x, int y) {
    return std::array{x >= 16 && x < 48 && y >= 16 && y < 48 ? 255 : 0, 0, 0};
  });
  const auto corner = [&](std::string_view steps) {
    return read_image(file, DType::Float32, {3, 16, 16}, preprocess_of(steps)).data<float>()[0];
  };
  EXPECT_LT(corner("resize=16"), 0.1f);  // all of it
  EXPECT_GT(corner("resize=64"), 0.9f);  // a quarter of either side
}

TEST(ImageSteps, BadOnesAreNamed) {
  for (const char* step : {"resize=0", "resize=x", "mean=1/2", "mean=1/2/3/4", "std=0", "std=1/0/1",
                           "scale=", "order=gbr", "imagenet,unit", "scale=nan"}) {
    try {
      preprocess_of(step);
      ADD_FAILURE() << step;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is no step that prepares pictures"), std::string::npos)
          << step << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace lathe
