// SPDX-License-Identifier: Apache-2.0
#include "arguments/input_data.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "arguments/error_of.h"
#include "arguments/numpy_file.h"
#include "ir/text.h"

namespace lathe::cli {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / ("lathe_input_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& content) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string npy(const std::string& header, const std::string& data) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return text + header + data;
}

std::string float_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Tensor parse(const std::string& text) {
  return parse_npy(std::as_bytes(std::span(text.data(), text.size())), "x.npy").tensor;
}

const std::string start = "x.npy: not a usable .npy array: ";

std::string fails(const std::string& text) {
  return error_of([&] { parse(text); });
}

const std::string kHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";

TEST(RandomTensor, IsTrtexecsSequence) {
  const Tensor floats = random_tensor(DType::Float32, {5}, {});
  const std::vector<float> expected = {-0.999984324f, -0.73692441f, 0.51121068f, -0.0826997161f,
                                       0.0655344725f};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(floats.data<float>()[i], expected[i]);
  EXPECT_EQ(random_tensor(DType::Int32, {6}, {}).to_int64s(),
            (std::vector<int64_t>{-128, -95, 65, -11, 8, -72}));
  EXPECT_EQ(random_tensor(DType::UInt8, {5}, {}).to_int64s(), (std::vector<int64_t>{0, 33, 193, 117, 136}));
  EXPECT_EQ(random_tensor(DType::Bool, {8}, {}).to_int64s(), (std::vector<int64_t>{0, 0, 1, 0, 1, 0, 0, 1}));
}

TEST(RandomTensor, StaysInItsRange) {
  // Ranges that one draw does not fill, and one that has more numbers than int64.
  for (const int64_t high : {int64_t{2147483644}, int64_t{2147483645}, int64_t{3000000000}, INT64_MAX})
    for (const int64_t value : random_tensor(DType::Int64, {100}, {-5, high}).to_int64s()) {
      EXPECT_GE(value, -5);
      EXPECT_LE(value, high);
    }
  random_tensor(DType::Int64, {100}, {INT64_MIN, INT64_MAX});
  for (const int64_t value : random_tensor(DType::Int64, {1000}, {0, 29}).to_int64s()) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 29);
  }
}

TEST(IntegerRange, TokensIndexTheirTable) {
  const Graph graph = parse_graph(R"(graph "g" {
    input %ids: int64[2, 3]
    input %mask_in: int64[2, 3]
    input %other: int64[2, 3]
    const %table: float32[50, 4] = ref 0
    %ids32: int32[2, 3] = Cast "c" (%ids) {to=int32}
    %y: float32[2, 3, 4] = Gather "g" (%table, %ids32)
    output %y
    output %mask_in
    output %other
  })",
                                  [](int64_t) {
                                    return Tensor::allocate(DType::Float32, {50, 4});
                                  });
  EXPECT_EQ(integer_range(graph, *graph.find_value("ids")), (ValueRange{0, 49}));
  EXPECT_EQ(integer_range(graph, *graph.find_value("mask_in")), (ValueRange{1, 1}));
  EXPECT_EQ(integer_range(graph, *graph.find_value("other")), (ValueRange{-128, 127}));
}

TEST(Npy, Reads) {
  const Tensor tensor = parse(npy(kHeader, float_bytes({1.5f, -2})));
  EXPECT_EQ(tensor.extents(), (Extents{1, 2}));
  EXPECT_EQ(tensor.data<float>()[1], -2);
  EXPECT_EQ(
      parse(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", std::string(8, '\0'))).rank(), 0);
}

TEST(Npy, TrustsNothing) {
  EXPECT_EQ(fails("abc"), start + "it does not begin with NumPy's mark");
  EXPECT_EQ(fails(std::string("\x93NUMPY\x09\x00\x00\x00", 10)), start + "its version is unknown");
  EXPECT_EQ(fails(npy(kHeader, "").substr(0, 20)), start + "its header is longer than the file");
  EXPECT_EQ(fails(npy(kHeader, "abc")), start + "its shape 1x2 needs 8 bytes, 3 are there");
  EXPECT_EQ(fails(npy("{'fortran_order': False, 'shape': (1,)}", "")), start + "its header has no descr");
  EXPECT_EQ(fails(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "")),
            start + "element type '<c8' is not supported (little-endian numbers, bools and strings are)");
  EXPECT_EQ(fails(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", "")),
            start + "it is stored column by column; save numpy.ascontiguousarray(x) instead");
  EXPECT_EQ(fails(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "")),
            start + "its shape has the entry '-1'");
  EXPECT_EQ(fails(npy("{'descr': '<f4', 'fortran_order': False, 'shape': 7}", "")),
            start + "its shape is not a tuple");
  EXPECT_EQ(
      fails(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000, 4000000000)}",
                "ab")),
      start + "its shape needs more data than the file has");
  std::string many = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 40; ++i) many += "1, ";
  EXPECT_EQ(fails(npy(many + ")}", "abcd")), start + "it has more than 32 dimensions");
}

TEST(LoadInput, RawFiles) {
  const TemporaryFolder folder;
  const std::string file = folder.write("x.bin", float_bytes({1, 2}));
  EXPECT_EQ(load_input(file, "x", DType::Float32, {2}).data<float>()[1], 2);
  EXPECT_EQ(load_input(file, "x", DType::Float32, {1}).data<float>()[0],
            1);  // twice the size: the first half counts
  EXPECT_EQ(error_of([&] { load_input(file, "x", DType::Float32, {3}); }),
            "Unexpected file size for input file: " + file +
                ". Note: Input binding size is: 12 bytes but the file size is 8 bytes. Double check the size "
                "and datatype of the "
                "provided data.");
  EXPECT_EQ(error_of([&] { load_input("/no/such/file", "x", DType::Float32, {3}); }),
            "Cannot open file /no/such/file!");
}

TEST(LoadInput, NpyMustFit) {
  const TemporaryFolder folder;
  const std::string file = folder.write("x.npy", npy(kHeader, float_bytes({1, 2})));
  EXPECT_EQ(load_input(file, "x", DType::Float32, {1, 2}).data<float>()[1], 2);
  EXPECT_EQ(error_of([&] { load_input(file, "x", DType::Int32, {2}); }),
            file + ": holds float32 1x2, but input x takes int32 2 (see --shapes, and numpy's astype)");
}

TEST(Npy, StringsAreTheirBytes) {
  const auto text_of = [](const Tensor& t) {
    return std::string(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
  };
  const Tensor bytes =
      parse(npy("{'descr': '|S3', 'fortran_order': False, 'shape': (2,), }", std::string("ab\0c\0\0", 6)));
  EXPECT_EQ(bytes.extents(), (Extents{2, 2}));
  EXPECT_EQ(text_of(bytes), std::string("abc\0", 4));
  const char32_t words[] = {0xfc, 0, 0x1f600, 0x4e2d};
  const std::string stored(reinterpret_cast<const char*>(words), sizeof words);
  const Tensor unicode = parse(npy("{'descr': '<U2', 'fortran_order': False, 'shape': (2, 1), }", stored));
  EXPECT_EQ(unicode.extents(), (Extents{2, 1, 7}));
  EXPECT_EQ(text_of(unicode), std::string("\xc3\xbc\0\0\0\0\0\xf0\x9f\x98\x80\xe4\xb8\xad", 14));
  EXPECT_EQ(parse(npy("{'descr': '|S0', 'fortran_order': False, 'shape': (0,), }", "")).extents(),
            (Extents{0, 0}));
}

TEST(Npy, StringsThatAreDamaged) {
  EXPECT_EQ(fails(npy("{'descr': '|S4', 'fortran_order': False, 'shape': (2,)}", "1234567")),
            start + "its shape needs more data than the file has");
  EXPECT_EQ(fails(npy("{'descr': '|S99999999999999999999', 'fortran_order': False, 'shape': (1,)}", "")),
            start + "its strings have the type '|S99999999999999999999'");
  EXPECT_EQ(fails(npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", "\xff\xff\xff\xff")),
            start + "U+FFFFFFFF is no character");
}

TEST(LoadInput, StringsHaveTheRoomOfTheInput) {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "words.npy", npy("{'descr': '|S3', 'fortran_order': False, 'shape': (2,)}", std::string("ab\0xyz", 6)));
  const Tensor words = load_input(file, "x", DType::UInt8, {2, 5});
  EXPECT_EQ(words.to_int64s(), (std::vector<int64_t>{'a', 'b', 0, 0, 0, 'x', 'y', 'z', 0, 0}));
  EXPECT_EQ(error_of([&] {
              load_input(file, "x", DType::UInt8, {2, 2});
            }),
            file + ": holds uint8 2x3, but input x takes uint8 2x2 (see --shapes, and numpy's astype)");
}

TEST(LoadInput, Npz) {
  const TemporaryFolder folder;
  const std::string file = folder.path("all.npz");
  const std::string array = npy(kHeader, float_bytes({3, 4}));
  zip_t* zip = zip_open(file.c_str(), ZIP_CREATE, nullptr);
  for (const char* name : {"a.npy", "b.npy"}) {
    zip_file_add(zip, name, zip_source_buffer(zip, array.data(), array.size(), 0), 0);
  }
  ASSERT_EQ(zip_close(zip), 0);
  EXPECT_EQ(load_input(file, "b", DType::Float32, {1, 2}).data<float>()[0], 3);
  EXPECT_EQ(error_of([&] {
              load_input(file, "c", DType::Float32, {1, 2});
            }),
            file + ": no array named c in it; it has: a.npy, b.npy");
  EXPECT_EQ(error_of([&] { read_npz(file, "a", 10); }), file + ": a is larger than the input takes");
  const std::string broken = folder.write("broken.npz", "PK\x03\x04 nonsense");
  EXPECT_EQ(error_of([&] { load_input(broken, "a", DType::Float32, {1}); }),
            broken + ": not a readable .npz file");
}

}  // namespace
}  // namespace lathe::cli
