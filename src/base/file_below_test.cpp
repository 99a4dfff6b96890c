// SPDX-License-Identifier: Apache-2.0
#include "base/file_below.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "base/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

class FileBelowTest : public testing::Test {
 protected:
  FileBelowTest() : root_(fs::temp_directory_path() / ("lathe_below_" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "model" / "inner");
    write("model/w.bin", 64);
    write("outside.bin", 64);
    fs::create_symlink("../outside.bin", root_ / "model" / "out");
    fs::create_symlink("/etc/passwd", root_ / "model" / "absolute");
    fs::create_symlink("../w.bin", root_ / "model" / "inner" / "in");
  }
  ~FileBelowTest() override { fs::remove_all(root_); }

  void write(const std::string& name, size_t bytes) {
    std::ofstream(root_ / name, std::ios::binary) << std::string(bytes, 'x');
  }
  std::string error_of(const std::string& relative) {
    try {
      FileBelow(root_ / "model", relative);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return error.what();
    }
    return "fine";
  }
  fs::path root_;
};

TEST_F(FileBelowTest, OnlyWhatLiesBelow) {
  EXPECT_EQ(error_of("w.bin"), "fine");
  EXPECT_EQ(error_of("inner/../w.bin"), "fine");
  EXPECT_EQ(error_of("inner/in"), "fine");
  EXPECT_EQ(error_of("../outside.bin"), "location '../outside.bin' leads out of the model's folder");
  EXPECT_EQ(error_of("inner/../../outside.bin"),
            "location 'inner/../../outside.bin' leads out of the model's folder");
  EXPECT_EQ(error_of("out"), "location 'out' leads out of the model's folder");
  EXPECT_EQ(error_of("absolute"), "location 'absolute' leads out of the model's folder");
  EXPECT_EQ(error_of("inner"), "'inner' is not a file");
  EXPECT_TRUE(error_of("none").starts_with("cannot find 'none' in '"));
}

TEST_F(FileBelowTest, AFileThatBecomesShorterIsAnError) {
  const FileBelow file(root_ / "model", "w.bin");
  std::vector<std::byte> bytes(16);
  file.read(48, bytes);
  EXPECT_EQ(bytes[15], std::byte{'x'});
  fs::resize_file(root_ / "model" / "w.bin", 50);
  EXPECT_EQ(file.bytes(), 64u);
  try {
    file.read(48, bytes);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::System);
    EXPECT_STREQ(error.what(), "'w.bin' became shorter while it was read: it ends at byte 50 now");
  }
}

}  // namespace
}  // namespace lathe
