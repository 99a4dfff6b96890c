// SPDX-License-Identifier: Apache-2.0
//
// State through include/lathe and the C API alone: a cache that grows by a row in each step, and what is
// refused.
#include <cstring>

#include "fixture.h"
#include "lathe/c_api.h"
#include "lathe/network.h"

namespace lathe::v1 {
namespace {

// past [rows, 2] and x [1, 2] give present [rows + 1, 2] and y, the sums of its columns.
class StateApi : public Api {
 protected:
  Engine build_cache() {
    NetworkBuilder net("cache");
    const auto x = net.input("x", DataType::Float, {1, 2});
    const auto past = net.input("past", DataType::Float, {-1, 2}, {"rows", ""});
    const auto present = net.concatenation({past, x}, 0);
    net.output(present, "present");
    net.output(net.reduce(Reduction::Sum, present, {0}, true), "y");
    BuilderConfig config;
    config.optimization_level = 0;
    config.profiles.emplace_back().set_dims("past", {0, 2}, {2, 2}, {3, 2});
    return builder.build(net.finish(), config);
  }
  const HostTensor row{DataType::Float, {1, 2}, std::vector<float>{1, 10}};
};

TEST_F(StateApi, KeepsStateFromRunToRun) {
  const Engine engine = build_cache();
  ExecutionContext context = engine.create_context(), other = engine.create_context();
  const auto pairs = context.keep_state();
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].input + pairs[0].output, "pastpresent");
  other.keep_state({{"past", "present"}});
  for (float n = 1; n <= 4; ++n) {
    const auto outputs = context.run({row});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(floats(outputs[0]), (std::vector<float>{n, 10 * n}));
    EXPECT_EQ(context.state("past").dims, (Dims{static_cast<int64_t>(n), 2}));
  }
  EXPECT_EQ(floats(other.run({row})[0]), (std::vector<float>{1, 10}));
  EXPECT_EQ(context.state_notes(),
            std::vector<std::string>{"past -> present: appended in place along axis 0, room for 4"});
  expect_part(message_of(ErrorKind::Input, [&] { context.run({row}); }), "state 'past' is full");
  EXPECT_EQ(floats(context.state("past")), (std::vector<float>{1, 10, 1, 10, 1, 10, 1, 10}));
  context.reset_state();
  EXPECT_EQ(floats(context.run({row})[0]), (std::vector<float>{1, 10}));
  const std::vector<float> begin = {5, 6, 7, 8};
  context.set_state("past", DataType::Float, {2, 2}, begin.data());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(floats(context.run({row})[0]), (std::vector<float>{13, 24}));
    context.reset_state();
  }
  context.drop_state();
  EXPECT_EQ(floats(context.run({row, HostTensor(DataType::Float, {2, 2}, begin)})[1]),
            (std::vector<float>{13, 24}));
}

TEST_F(StateApi, BindsTheRest) {
  ExecutionContext context = build_cache().create_context();
  std::vector<float> x = {1, 10}, y(2), cache(8);
  context.bind_output("present", DataType::Float, cache.data(), 32);
  context.keep_state();
  EXPECT_EQ(context.tensor_address("present"), nullptr);
  context.bind_input("x", DataType::Float, {1, 2}, x.data());
  EXPECT_TRUE(context.infer_shapes().empty());
  context.bind_output("y", DataType::Float, y.data(), context.tensor_bytes("y"));
  Stream stream;
  for (int i = 0; i < 2; ++i) context.enqueue(stream), stream.synchronize();
  EXPECT_EQ(y, (std::vector<float>{2, 20}));
  EXPECT_EQ(context.tensor_shape("present"), (Dims{2, 2}));  // of the run
  EXPECT_TRUE(context.infer_shapes().empty());
  EXPECT_EQ(context.tensor_shape("present"), (Dims{3, 2}));  // of the next one
  x[0] = 2;
  Profiler profiler;
  context.execute(profiler);
  EXPECT_EQ(y, (std::vector<float>{4, 30}));
  EXPECT_EQ(cache, std::vector<float>(8, 0));
  for (const auto& refused : std::vector<std::function<void()>>{
           [&] {
             context.bind_input("past", DataType::Float, {0, 2}, cache.data());
           },
           [&] { context.bind_output("present", DataType::Float, cache.data(), 32); },
           [&] {
             context.set_input_shape("past", {0, 2});
           }})
    expect_part(message_of(ErrorKind::Input, refused), "it is state, which the context keeps");
  expect_part(message_of(ErrorKind::Input, [&] { context.state("x"); }),
              "'x' is no input that is kept as state");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.keep_state({{"x", "present"}});
                         }),
              "cannot be state");
  expect_part(
      message_of(ErrorKind::Input, [&] { context.set_state("past", DataType::Float, {4}, cache.data()); }),
      "past");
  context.set_profile(0);
  expect_part(message_of(ErrorKind::Input, [&] { context.state("past"); }), "is no state");
}

TEST_F(StateApi, InC) {
  build_cache().save(path("cache.engine"));
  lathe_options options;
  lathe_options_init(&options);
  lathe_engine* engine = nullptr;
  lathe_context* context = nullptr;
  ASSERT_EQ(lathe_engine_load(path("cache.engine").c_str(), &options, &engine), nullptr);
  ASSERT_EQ(lathe_context_create(engine, &context), nullptr);
  lathe_engine_free(engine);
  ASSERT_EQ(lathe_context_keep_state(context, nullptr, nullptr, nullptr), nullptr);  // by name
  const char *inputs[] = {"past"}, *outputs[] = {"present"};
  size_t count = 1, rank = 0, bytes = 0;
  ASSERT_EQ(lathe_context_keep_state(context, inputs, outputs, &count), nullptr);
  EXPECT_EQ(count, 1u);
  const std::vector<float> begin = {5, 6};
  const int64_t dims[] = {1, 2};
  ASSERT_EQ(lathe_context_set_state(context, "past", 1, dims, 2, begin.data()), nullptr);
  ASSERT_EQ(lathe_context_bind_input(context, "x", 1, dims, 2, row.data<float>()), nullptr);
  std::vector<float> y(2), cache(6);
  ASSERT_EQ(lathe_context_bind_output(context, "y", 1, y.data(), 8), nullptr);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(lathe_context_execute(context), nullptr);
  EXPECT_EQ(y, (std::vector<float>{7, 26}));
  int64_t shape[LATHE_MAX_RANK];
  ASSERT_EQ(lathe_context_read_state(context, "past", shape, &rank, nullptr, &bytes), nullptr);
  EXPECT_EQ(Dims(shape, shape + rank), (Dims{3, 2}));
  ASSERT_EQ(bytes, 24u);
  ASSERT_EQ(lathe_context_read_state(context, "past", shape, &rank, cache.data(), &bytes), nullptr);
  EXPECT_EQ(cache, (std::vector<float>{5, 6, 1, 10, 1, 10}));
  bytes = 23;
  lathe_error* error = lathe_context_read_state(context, "past", shape, &rank, cache.data(), &bytes);
  ASSERT_NE(error, nullptr);
  lathe_error_free(error);
  ASSERT_EQ(lathe_context_reset_state(context), nullptr);
  ASSERT_EQ(lathe_context_execute(context), nullptr);
  EXPECT_EQ(y, (std::vector<float>{6, 16}));
  lathe_context_free(context);
}

}  // namespace
}  // namespace lathe::v1
