// SPDX-License-Identifier: Apache-2.0
//
// Every operator of com.microsoft on inputs of any number, rank, size and type: it is read, or refused as a
// wrong or unsupported input, or because it is too large. A crash or an internal error is a bug of ours.
// Seeds are fixed.
#include <gtest/gtest.h>

#include <random>

#include "onnx/import.h"
#include "onnx/importers.h"
#include "onnx/test_model.h"

namespace lathe::onnx {
namespace {

constexpr int kModelsPerOperator = 150;

class AnyModel {
 public:
  explicit AnyModel(uint32_t seed) : random_(seed) {}

  std::string bytes(std::string_view op) {
    TestModel m(20);
    TestModel::Names inputs, outputs;
    const int64_t usual_rank = below(5);
    for (int64_t i = below(16); i >= 0; --i) {
      inputs.push_back(below(6) == 0 ? "" : "x" + std::to_string(i));
      if (!inputs.back().empty()) add_input(m, inputs.back(), below(3) == 0 ? below(6) : usual_rank);
    }
    for (int64_t i = below(4); i >= 0; --i) {
      outputs.push_back("y" + std::to_string(i));
      m.output(outputs.back());
    }
    m.node(op, inputs, outputs, attributes(), kMicrosoftDomain);
    return m.bytes();
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }

  void add_input(TestModel& m, const std::string& name, int64_t rank) {
    static constexpr int kTypes[] = {1, 2, 3, 5, 6, 7, 9, 10, 21};
    static constexpr const char* kDims[] = {"0", "1", "2", "3", "4", "8", "16", "n", "s"};
    const int type = below(2) == 0 ? 1 : kTypes[below(std::size(kTypes))];
    TestModel::Names dims;
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (int64_t d = 0; d < rank; ++d) {
      dims.emplace_back(kDims[below(std::size(kDims))]);
      const int64_t extent = dims.back() == "n" || dims.back() == "s" ? 2 : std::stoll(dims.back());
      extents.push_back(extent);
      count *= extent;
    }
    if (below(2) == 0) {
      m.input(name, type, dims);
      return;
    }
    // A constant of small numbers: each byte is 0 but for the first of each element of integers.
    const int64_t bytes = dtype_bytes(static_cast<DType>(type), 1),
                  all = dtype_bytes(static_cast<DType>(type), count);
    std::string raw(static_cast<size_t>(all), '\0');
    for (int64_t at = 0; at < all && type != 1 && type != 10; at += bytes)
      raw[static_cast<size_t>(at)] = static_cast<char>(below(type == 9 ? 2 : 5));
    m.initializer(TestModel::make_tensor(name, type, extents, raw));
  }

  TestModel::Names attributes() {
    static constexpr const char* kNames[] = {"num_heads",
                                             "kv_num_heads",
                                             "axis",
                                             "gather_axis",
                                             "quantize_axis",
                                             "block_size",
                                             "bits",
                                             "K",
                                             "N",
                                             "quant_type",
                                             "max_distance",
                                             "sparse_block_size",
                                             "k",
                                             "groups",
                                             "activation",
                                             "hidden_size",
                                             "signal_ndim",
                                             "transA",
                                             "channels_last",
                                             "do_rotary",
                                             "size",
                                             "num_branches",
                                             "swiglu_fusion",
                                             "keepdims",
                                             "is_packed_batching",
                                             "expert_weight_bits",
                                             "unidirectional",
                                             "scale"};
    static constexpr int64_t kValues[] = {-1, 0, 1, 2, 2, 3, 4, 8, 16, int64_t{1} << 40};
    TestModel::Names all;
    for (const char* name : kNames)
      if (below(3) != 0) all.push_back(TestModel::int_attribute(name, kValues[below(std::size(kValues))]));
    return all;
  }

  std::mt19937 random_;
};

TEST(ImportMicrosoft, AnyInputsAreReadOrRefused) {
  NullObserver observer;
  int read = 0;
  for (const Importer& importer : all_importers()) {
    if (importer.domain != kMicrosoftDomain) continue;
    for (uint32_t seed = 0; seed < kModelsPerOperator; ++seed) {
      const std::string bytes = AnyModel(seed).bytes(importer.op_type);
      try {
        import_onnx(as_bytes(bytes), {}, observer);
        ++read;
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::Internal)
            << importer.op_type << " of seed " << seed << ": " << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << importer.op_type << " of seed " << seed << ": " << error.what();
      }
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace lathe::onnx
