// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "base/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lathe_file_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t file_count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

  template <class F>
  void expect_system_error(F&& action, const std::string& part) {
    try {
      action();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::System);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  fs::path folder_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  const fs::path path = folder_ / "a.bin";
  std::string text(1'000'000, 'x');
  text[5] = '\0';
  write_file_atomically(path, text);
  EXPECT_EQ(read_file(path), text);
  const auto mapped = MappedFile::open(path);
  ASSERT_EQ(mapped->bytes().size(), text.size());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped->bytes().data()), text.size()), text);
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(FileTest, KeepsTheOrderOfSmallAndBigPieces) {
  const fs::path path = folder_ / "a.bin";
  std::string expected;
  write_file_atomically(path, [&](FileWriter& writer) {
    for (size_t size : {1, 300'000, 10, 0, 262'144, 7, 262'143, 2}) {
      const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
      writer.write(piece);
      expected += piece;
    }
  });
  EXPECT_EQ(read_file(path), expected);
}

TEST_F(FileTest, MapsAnEmptyFile) {
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder_ / "empty")->bytes().empty());
  EXPECT_EQ(read_file(folder_ / "empty"), "");
}

TEST_F(FileTest, MissingFileNamesThePath) {
  const fs::path path = folder_ / "missing.onnx";
  expect_system_error([&] { MappedFile::open(path); }, path.string() + "': no such file");
  expect_system_error([&] { read_file(path); }, path.string() + "': no such file");
}

TEST_F(FileTest, FoldersAreNotFiles) {
  expect_system_error([&] { MappedFile::open(folder_); }, "directory");
  expect_system_error([&] { read_file(folder_); }, "directory");
  expect_system_error([&] { write_file_atomically(folder_, "x"); }, "directory");
}

TEST_F(FileTest, APipeCannotBeMapped) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_system_error([&] { MappedFile::open(path); }, "not a regular file");
}

TEST_F(FileTest, MissingFolderNamesThePath) {
  const fs::path path = folder_ / "no" / "a.engine";
  expect_system_error([&] { write_file_atomically(path, "x"); }, "cannot write '" + path.string());
}

TEST_F(FileTest, AnExceptionLeavesTheOldFile) {
  const fs::path path = folder_ / "a.bin";
  write_file_atomically(path, "old");
  EXPECT_THROW(write_file_atomically(path,
                                     [](FileWriter& writer) {
                                       writer.write("new");
                                       throw std::runtime_error("stop");
                                     }),
               std::runtime_error);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(FileTest, FileSizeLimitLeavesTheOldFile) {
  const fs::path path = folder_ / "a.bin";
  write_file_atomically(path, "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100'000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_system_error([&] { write_file_atomically(path, std::string(500'000, 'x')); },
                      "cannot write '" + path.string() + "': the file size limit");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(FileTest, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  expect_system_error([] { write_file_atomically("/dev/full", "x"); }, "no space left");
}

TEST_F(FileTest, SpecialFilesAreWrittenInPlace) {
  write_file_atomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, LinksAndPermissionsStay) {
  const fs::path real = folder_ / "real", link = folder_ / "link";
  write_file_atomically(real, "old");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", link);
  write_file_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(real), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileTest, InPlaceReachesWhoHasTheFileOpen) {
  const fs::path path = folder_ / "a", link = folder_ / "b";
  write_file_atomically(path, "old and long");
  fs::create_hard_link(path, link);
  std::FILE* open_before = std::fopen(path.c_str(), "r");
  write_file_in_place(path, [](FileWriter& file) { file.write("new"); });
  char text[32] = {};
  EXPECT_EQ(std::fread(text, 1, sizeof text, open_before), 3u);
  std::fclose(open_before);
  EXPECT_STREQ(text, "new");
  EXPECT_EQ(read_file(link), "new");
  write_file_in_place(folder_ / "c", [](FileWriter& file) { file.write("made"); });
  EXPECT_EQ(read_file(folder_ / "c"), "made");
}

TEST_F(FileTest, WritesWithoutAFolderInTheName) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_atomically("plain.txt", "x");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder_ / "plain.txt"), "x");
}

}  // namespace
}  // namespace lathe
