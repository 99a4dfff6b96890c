// SPDX-License-Identifier: Apache-2.0
//
// The C API.
#include "lathe/c_api.h"
#include "fixture.h"

namespace lathe::v1 {
namespace {

// The parts of an error of the C API, which is freed.
ErrorFields parts_of(lathe_error* error) {
  if (error == nullptr) return {};
  const ErrorFields fields{lathe_error_what(error), lathe_error_where(error), lathe_error_why(error),
                           lathe_error_hint(error)};
  EXPECT_EQ(lathe_error_kind(error), LATHE_INPUT_ERROR);
  EXPECT_NE(lathe_error_code(error), LATHE_SUCCESS);
  expect_part(lathe_error_message(error), fields.what);
  lathe_error_free(error);
  return fields;
}

TEST_F(Api, CustomOperatorsFromC) {
  std::ofstream(path("tiny.onnx"), std::ios::binary) << api_test::tiny_onnx();
  lathe_options options;
  lathe_options_init(&options);
  const char* library = "nowhere.so";
  options.plugin_libraries = &library, options.plugin_library_count = 1;
  lathe_engine* engine = nullptr;
  expect_part(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &engine)).what,
              "Unable to open library");
  options.plugin_libraries = nullptr;
  lathe_error* const null = lathe_build(nullptr, &options, &engine);
  EXPECT_EQ(lathe_error_code(null), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_error_code(nullptr), LATHE_SUCCESS);
  lathe_error_free(null);
  EXPECT_EQ(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &engine)).where,
            "argument 'options->plugin_libraries'");
  options.plugin_library_count = 0;
  lathe_plugin_operator empty{};
  const lathe_plugin_operator* operators[] = {&empty};
  options.plugins = operators, options.plugin_count = 1;
  expect_part(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &engine)).what,
              "it was compiled with the header of another version");
}

TEST_F(Api, IsCalledFromC) {
  std::ofstream(path("tiny.onnx"), std::ios::binary) << api_test::tiny_onnx();
  EXPECT_EQ(lathe_version(), version());
  lathe_options options;
  lathe_options_init(&options);
  EXPECT_EQ(options.optimization_level, BuilderConfig().optimization_level);
  const lathe_shape_range range{"x", 2, {1, 4}, {2, 4}, {8, 4}};
  int lines = 0;
  options.threads = 1, options.optimization_level = 0, options.shapes = &range, options.shape_count = 1;
  options.log_user = &lines;
  options.log = [](void* user, int, const char*) { ++*static_cast<int*>(user); };
  lathe_engine *built = nullptr, *engine = nullptr;
  ASSERT_EQ(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &built)).what, "");
  EXPECT_GT(lines, 0);
  ASSERT_EQ(parts_of(lathe_engine_save(built, path("c.engine").c_str())).what, "");
  lathe_engine_free(built);
  ASSERT_EQ(parts_of(lathe_engine_load(path("c.engine").c_str(), &options, &engine)).what, "");
  EXPECT_EQ(lathe_engine_input_count(engine), 1u);
  EXPECT_EQ(lathe_engine_output_count(engine), 1u);
  lathe_tensor_info info{};
  EXPECT_EQ(parts_of(lathe_engine_input(engine, 0, &info)).what, "struct_size is 0");
  info.struct_size = sizeof(info);
  EXPECT_EQ(parts_of(lathe_engine_input(engine, 1, &info)).where, "tensor number 1");
  ASSERT_EQ(parts_of(lathe_engine_output(engine, 0, &info)).what, "");
  EXPECT_EQ(std::tuple(std::string(info.name), info.type, info.rank, info.dims[0], info.dims[1]),
            std::tuple(std::string("y"), 1, size_t{2}, int64_t{-1}, int64_t{3}));
  lathe_context* context = nullptr;
  ASSERT_EQ(parts_of(lathe_context_create(engine, &context)).what, "");
  lathe_engine_free(engine);  // the context lives on
  std::vector<float> x = kTwoRows, y(6);
  const int64_t dims[] = {2, 4};
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, "z", 1, dims, 2, x.data())).where, "tensor 'z'");
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, nullptr, 1, dims, 2, x.data())).where,
            "argument 'input'");
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, "x", 1, dims, 99, x.data())).what, "its rank is 99");
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, "x", 900, dims, 2, x.data())).where,
            "argument 'type'");
  ASSERT_EQ(parts_of(lathe_context_bind_input(context, "x", 1, dims, 2, x.data())).what, "");
  size_t bytes = 0, rank = 0;
  int64_t shape[LATHE_MAX_RANK];
  ASSERT_EQ(parts_of(lathe_context_tensor_bytes(context, "y", &bytes)).what, "");
  EXPECT_EQ(bytes, 24u);
  ASSERT_EQ(parts_of(lathe_context_tensor_shape(context, "y", shape, &rank)).what, "");
  EXPECT_EQ(Dims(shape, shape + rank), (Dims{2, 3}));
  EXPECT_EQ(parts_of(lathe_context_execute(context)).hint, "call bind_output");
  ASSERT_EQ(parts_of(lathe_context_bind_output(context, "y", 1, y.data(), bytes)).what, "");
  ASSERT_EQ(parts_of(lathe_context_execute(context)).what, "");
  EXPECT_EQ(y, kTheirResult);
  lathe_context_free(context);
  EXPECT_EQ(parts_of(lathe_context_execute(nullptr)).where, "argument 'context'");
  options.struct_size = 1;
  expect_part(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &built)).what, "lathe_options_init");
}

}  // namespace
}  // namespace lathe::v1
