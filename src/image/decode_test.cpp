// SPDX-License-Identifier: Apache-2.0
//
// Pictures in memory; JPEG and WebP are checked against others' pixels by ONNX's own cases.
#include "image/decode.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace lathe {
namespace {

using Bytes = std::vector<unsigned char>;

Picture decode(const std::string& file, PixelFormat format = PixelFormat::Rgb) {
  return decode_picture({reinterpret_cast<const unsigned char*>(file.data()), file.size()}, format);
}

// Two pixels, red and one that is nearly blue.
const std::string kPpm = std::string("P6\n2 1\n255\n") + "\xFF" + std::string("\0\0\x01\x02\xFE", 5);

TEST(DecodePicture, InEachOrderOfChannels) {
  const Picture rgb = decode(kPpm);
  EXPECT_EQ(rgb.height, 1);
  EXPECT_EQ(rgb.width, 2);
  EXPECT_EQ(rgb.pixels, (Bytes{255, 0, 0, 1, 2, 254}));
  EXPECT_EQ(decode(kPpm, PixelFormat::Bgr).pixels, (Bytes{0, 0, 255, 254, 2, 1}));
  // 255 * 0.299 = 76.2; 1 * 0.299 + 2 * 0.587 + 254 * 0.114 = 30.4
  EXPECT_EQ(decode(kPpm, PixelFormat::Grey).pixels, (Bytes{76, 30}));
}

TEST(DecodePicture, GreyAndOtherRangesOfPnm) {
  EXPECT_EQ(decode(std::string("P5 # grey\n1\t2 15\n\x0F\x05", 19)).pixels,
            (Bytes{255, 255, 255, 85, 85, 85}));
}

TEST(DecodePicture, OfWhatIsNoneIsEmpty) {
  const std::string nothing[] = {"",
                                 "P",
                                 "\xFF\xD8",
                                 "\xFF\xD8\xFF\xE0 no JPEG",
                                 "RIFF1234WEBPVP8 1234",
                                 "P6\n2 1\n255\n\1",
                                 "P6\n99999999 99999999\n255\n\1",
                                 "plain text"};
  for (const std::string& file : nothing) {
    const Picture picture = decode(file);
    EXPECT_TRUE(picture.pixels.empty()) << file;
    EXPECT_EQ(picture.height, 0) << file;
    EXPECT_EQ(picture.width, 0) << file;
  }
}

TEST(DecodePicture, RefusesFormatsByName) {
  const auto error = [](const std::string& file) {
    try {
      decode(file);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Input);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error(std::string("II*\0 more", 9)).find("the picture is TIFF, which is not read"),
            std::string::npos);
  EXPECT_NE(error("\xFF\x4F\xFF\x51 more").find("the picture is JPEG 2000"), std::string::npos);
}

}  // namespace
}  // namespace lathe
