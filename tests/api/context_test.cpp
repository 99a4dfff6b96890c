// SPDX-License-Identifier: Apache-2.0
//
// Contexts: memory of callers, misuse, output allocators, streams.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <new>
#include <optional>
#include <stdexcept>

#include "fixture.h"
#include "lathe/network.h"

namespace lathe::v1 {
namespace {

// A tensor at the end of its pages, followed by one that nobody may touch.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))),
        mapped_((bytes / page_ + 2) * page_) {
    void* memory = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::byte*>(memory);
    ::mprotect(start_ + mapped_ - page_, page_, PROT_NONE);
  }
  ~Pages() { ::munmap(start_, mapped_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void forbid_writes() const { ::mprotect(start_, mapped_ - page_, PROT_READ); }
  std::byte* tensor() const { return start_ + mapped_ - page_ - bytes_; }

 private:
  size_t bytes_, page_, mapped_;
  std::byte* start_ = nullptr;
};

TEST_F(Api, ContextRunsAndCopies) {
  ExecutionContext context = build().create_context();
  const auto outputs = context.run({HostTensor(DataType::Float, {2, 4}, kTwoRows)});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].dims, (Dims{2, 3}));
  EXPECT_EQ(floats(outputs[0]), kTheirResult);
  expect_part(message_of(ErrorKind::Input, [&] { context.run({HostTensor(DataType::Float, {9, 4})}); }), "x");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.run({HostTensor(DataType::Int32, {2, 4})});
                         }),
              "int32");
  expect_part(message_of(ErrorKind::Input, [&] { context.run({}); }), "input");
}

TEST_F(Api, ContextRunsInMemoryOfTheCaller) {
  ExecutionContext context = build().create_context();
  EXPECT_EQ(context.infer_shapes(), std::vector<std::string>{"x"});
  context.set_input_shape("x", {2, 4});
  EXPECT_TRUE(context.infer_shapes().empty());
  ASSERT_EQ(context.tensor_bytes("x"), 32u);
  ASSERT_EQ(context.tensor_bytes("y"), 24u);
  EXPECT_EQ(context.tensor_shape("y"), (Dims{2, 3}));
  std::vector<float> x = kTwoRows, y(6);
  EXPECT_EQ(context.tensor_address("x"), nullptr);
  bind_both(context, x, y);
  EXPECT_EQ(context.tensor_address("x"), x.data());
  EXPECT_EQ(context.tensor_address("y"), y.data());
  context.execute();
  EXPECT_EQ(y, kTheirResult);
  EXPECT_GE(context.device_bytes(), 0);
  // What was bound stays bound: the next run reads the same address again.
  x[0] += 1;
  context.execute();
  EXPECT_EQ(y[0], kTheirResult[0] + 1);
  context.set_profile(0);
  EXPECT_EQ(context.profile(), 0);
  EXPECT_EQ(context.tensor_address("x"), nullptr);
  context.set_input_shape("x", {1, 4});
  EXPECT_EQ(context.tensor_bytes("y"), 12u);
}

// Pages that cannot be written, and others that end where the tensor ends: what was bound is used in place
// and nothing beside it.
TEST_F(Api, ContextTouchesNothingElse) {
  const Pages input(kTwoRows.size() * sizeof(float)), output(kTheirResult.size() * sizeof(float));
  std::memcpy(input.tensor(), kTwoRows.data(), kTwoRows.size() * sizeof(float));
  input.forbid_writes();
  ExecutionContext context = build().create_context();
  context.bind_input("x", DataType::Float, {2, 4}, input.tensor());
  context.bind_output("y", DataType::Float, output.tensor(), kTheirResult.size() * sizeof(float));
  context.execute();
  EXPECT_EQ(std::memcmp(output.tensor(), kTheirResult.data(), kTheirResult.size() * sizeof(float)), 0);
}

TEST_F(Api, ErrorsHaveCodes) {
  const Engine engine = build();
  ExecutionContext context = engine.create_context();
  std::vector<float> x = kTwoRows, y(6);
  EXPECT_EQ(code_of([&] {
              context.bind_input("z", DataType::Float, {2, 4}, x.data());
            }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { context.execute(); }), ErrorCode::InvalidState);  // no shape was set
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  EXPECT_EQ(code_of([&] { context.execute(); }), ErrorCode::InvalidState);  // no memory is bound
  EXPECT_EQ(code_of([&] { Runtime(logger).load(path("nowhere.engine")); }), ErrorCode::FailedExecution);
  EXPECT_EQ(code_of([&] { Runtime(logger, DeviceConfig{.device = "63"}); }), ErrorCode::FailedInitialization);
  EXPECT_EQ(Error(ErrorKind::Internal, "a bug").code(), ErrorCode::InternalError);
}

TEST_F(Api, ContextRefusesMisuse) {
  ExecutionContext context = build().create_context();
  std::vector<float> x = kTwoRows, y(6);
  const ErrorFields unknown = fields_of([&] { context.bind_input("z", DataType::Float, {2, 4}, x.data()); });
  EXPECT_EQ(unknown.where, "tensor 'z'");
  EXPECT_EQ(unknown.why, "its inputs and outputs are x, y");
  EXPECT_EQ(fields_of([&] {
              context.bind_input("y", DataType::Float, {2, 3}, x.data());
            }).what,
            "it is no input");
  EXPECT_EQ(fields_of([&] { context.bind_output("x", DataType::Float, y.data(), 24); }).what,
            "it is no output");
  const ErrorFields type = fields_of([&] { context.bind_input("x", DataType::Int32, {2, 4}, x.data()); });
  EXPECT_EQ(type.where, "input 'x' (float32 [batch, 4])");
  EXPECT_EQ(type.why, "it was given int32");
  EXPECT_EQ(fields_of([&] {
              context.bind_input("x", DataType::Float, {2, 4}, nullptr);
            }).what,
            "its address is null");
  const auto* odd = reinterpret_cast<const std::byte*>(x.data()) + 1;
  EXPECT_EQ(fields_of([&] {
              context.bind_input("x", DataType::Float, {1, 4}, odd);
            }).what,
            "its address is not aligned");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.bind_input("x", DataType::Float, {2, 5}, x.data());
                         }),
              "x");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.bind_input("x", DataType::Float, {-2, 4}, x.data());
                         }),
              "no volume");
  expect_part(message_of(ErrorKind::Input, [&] { context.execute(); }), "no shape was set");
  expect_part(message_of(ErrorKind::Input, [&] { context.set_input_values("x", {1}); }), "shape tensor");
  context.set_input_shape("x", {2, 4});
  EXPECT_EQ(fields_of([&] { context.execute(); }).what, "no memory is bound");
  bind_both(context, x, y);
  context.bind_output("y", DataType::Float, y.data(), 20);
  const ErrorFields small = fields_of([&] { context.execute(); });
  EXPECT_EQ(small.what, "its memory is too small");
  EXPECT_EQ(small.why, "24 bytes are needed at these shapes, 20 bytes were given");
  EXPECT_EQ(small.hint, "tensor_bytes(name) says how many");
  context.bind_output("y", DataType::Float, x.data(), 32);
  EXPECT_EQ(fields_of([&] { context.execute(); }).what, "its memory overlaps that of 'x'");
  context.set_input_shape("x", {9, 4});
  expect_part(message_of(ErrorKind::Input, [&] { context.infer_shapes(); }), "x");
  const ExecutionContext moved = std::move(context);
  EXPECT_EQ(fields_of([&] { context.execute(); }).what, "the context was moved away");
}

class Grower final : public OutputAllocator {
 public:
  void* allocate(std::string_view output, size_t bytes, const Dims& dims) override {
    asked.emplace_back(std::string(output), bytes, dims);
    memory.resize(bytes / sizeof(float));
    return refuses ? nullptr : memory.data();
  }
  std::vector<std::tuple<std::string, size_t, Dims>> asked;
  std::vector<float> memory;
  bool refuses = false;
};

TEST_F(Api, OutputAllocatorsGiveMemory) {
  ExecutionContext context = build().create_context();
  std::vector<float> x = kTwoRows;
  Grower grower;
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  context.bind_output("y", grower);
  context.execute();
  EXPECT_EQ(grower.memory, kTheirResult);
  ASSERT_EQ(grower.asked.size(), 1u);
  EXPECT_EQ(grower.asked[0], std::tuple("y", 24u, Dims{2, 3}));
  grower.refuses = true;
  expect_part(message_of(ErrorKind::System, [&] { context.execute(); }), "its allocator gave no memory");
}

TEST_F(Api, OutputAllocatorsLearnSizesFromData) {
  const std::string model = api_test::nonzero_onnx();
  ExecutionContext context =
      builder.build(builder.parse_onnx(std::as_bytes(std::span(model))), config()).create_context();
  std::vector<float> x = {0, 1, 0, 0, 0, 0, 0, 2};
  std::vector<int64_t> found;
  struct Indices final : OutputAllocator {
    explicit Indices(std::vector<int64_t>& memory) : memory(memory) {}
    void* allocate(std::string_view, size_t bytes, const Dims& dims) override {
      EXPECT_EQ(dims, (Dims{2, 2}));
      memory.resize(bytes / sizeof(int64_t));
      return memory.data();
    }
    std::vector<int64_t>& memory;
  } indices(found);
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  context.bind_output("y", indices);
  EXPECT_EQ(context.tensor_shape("y"), (Dims{2, 8}));
  context.execute();
  EXPECT_EQ(found, (std::vector<int64_t>{0, 1, 1, 3}));
  EXPECT_EQ(context.tensor_shape("y"), (Dims{2, 2}));
}

// Nothing bounds the length of a Range: its memory is given when it is known.
TEST_F(Api, OutputsThatNothingBoundsNeedAnAllocatorOrRoom) {
  const std::string model = api_test::range_onnx();
  ExecutionContext context =
      builder.build(builder.parse_onnx(std::as_bytes(std::span(model))), {}).create_context();
  const float start = 1, delta = 2;
  float limit = 8;
  std::vector<float> room(4);
  context.bind_input("start", DataType::Float, {}, &start);
  context.bind_input("limit", DataType::Float, {}, &limit);
  context.bind_input("delta", DataType::Float, {}, &delta);
  expect_part(message_of(ErrorKind::Input, [&] { context.execute(); }), "nobody takes its result");
  context.bind_output("y", DataType::Float, room.data(), room.size() * sizeof(float));
  context.execute();
  EXPECT_EQ(room, (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(context.tensor_shape("y"), (Dims{4}));
  limit = 10;
  expect_part(message_of(ErrorKind::Input, [&] { context.execute(); }),
              "its memory is too small for the result");
  Grower grower;
  limit = 1000;
  context.bind_output("y", grower);
  context.execute();
  ASSERT_EQ(grower.asked.size(), 1u);
  EXPECT_EQ(grower.asked[0], std::tuple("y", 2000u, Dims{500}));
  EXPECT_EQ(grower.memory[499], 999);
}

TEST_F(Api, StreamsRunWhatIsEnqueued) {
  const Engine engine = build();
  ExecutionContext first = engine.create_context(), second = engine.create_context();
  std::vector<float> x = kTwoRows, y(6), z(6);
  bind_both(first, x, y);
  bind_both(second, x, z);
  Stream stream;
  std::promise<void> reached, go_on;
  first.enqueue(stream, [&] {
    reached.set_value();
    go_on.get_future().wait();
  });
  second.enqueue(stream);
  reached.get_future().wait();
  EXPECT_EQ(y, kTheirResult);
  EXPECT_EQ(z, std::vector<float>(6)) << "enqueue waited, or the order is wrong";
  EXPECT_EQ(fields_of([&] { first.execute(); }).what, "the context is in use");
  EXPECT_EQ(fields_of([&] { second.set_input_shape("x", {1, 4}); }).what, "the context is in use");
  go_on.set_value();
  stream.synchronize();
  EXPECT_EQ(z, kTheirResult);
  first.execute();
}

TEST_F(Api, StreamsKeepTheFirstError) {
  ExecutionContext context = build().create_context();
  std::vector<float> x = kTwoRows, y(6);
  Grower grower;
  grower.refuses = true;
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  context.bind_output("y", grower);
  Stream stream;
  context.enqueue(stream);
  expect_part(message_of(ErrorKind::System, [&] { stream.synchronize(); }), "its allocator gave no memory");
  stream.synchronize();  // once
  bind_both(context, x, y);
  context.enqueue(stream);
  stream.synchronize();
  EXPECT_EQ(y, kTheirResult);
}

// Two contexts that never run at the same time lie in one memory, which is all that they have.
TEST_F(Api, ActivationsLieInMemoryOfTheCaller) {
  NetworkBuilder net;
  const auto x = net.input("x", DataType::Float, {-1, 64}, {"rows"});
  const auto a = net.softmax(net.transpose(net.softmax(x), {1, 0}));
  net.output(net.softmax(net.reshape(a, Dims{-1, 64})), "y");
  BuilderConfig settings;
  settings.optimization_level = 0;
  settings.profiles.emplace_back().set_dims("x", {1, 64}, {2, 64}, {8, 64});
  settings.profiles.emplace_back().set_dims("x", {1, 64}, {2, 64}, {64, 64});
  const Engine engine = builder.build(net.finish(), settings);
  const HostTensor in(DataType::Float, {8, 64}, std::vector<float>(512, 0.25F));
  const std::vector<float> expected = floats(engine.create_context().run({in})[0]);

  ExecutionContext first = engine.create_context(), second = engine.create_context();
  const size_t need = first.memory_bytes();
  ASSERT_GT(need, 0u) << "this network has no activations: nothing is tested";
  EXPECT_EQ(need, static_cast<size_t>(engine.activation_bytes()));
  std::vector<std::byte> room(need + 512, std::byte{0x5A});
  auto* memory = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(room.data()) + 255) / 256 * 256);
  const auto own = static_cast<size_t>(first.device_bytes());
  for (ExecutionContext* context : {&first, &second}) {
    context->set_memory(memory, need);
    EXPECT_EQ(static_cast<size_t>(context->device_bytes()), own - need);
    EXPECT_EQ(floats(context->run({in})[0]), expected);
  }
  EXPECT_TRUE(std::any_of(memory, memory + need, [](std::byte b) { return b != std::byte{0x5A}; }));
  for (std::byte* outside = memory + need; outside < room.data() + room.size(); ++outside)
    ASSERT_EQ(*outside, std::byte{0x5A});
  EXPECT_EQ(fields_of([&] { first.set_memory(memory, need - 1); }).hint, "memory_bytes() says how many");
  EXPECT_EQ(fields_of([&] { first.set_memory(memory + 4, need); }).hint, "memory_bytes() says how many");
  EXPECT_GT(engine.create_context(1).memory_bytes(), need);  // each profile has its own need
  second.set_profile(1);
  EXPECT_GT(second.memory_bytes(), need);
  first.set_memory(nullptr, 0);
  std::fill(room.begin(), room.end(), std::byte{0});
  EXPECT_EQ(floats(first.run({in})[0]), expected);
  EXPECT_TRUE(std::all_of(room.begin(), room.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(Api, DebugListenersSeeTensorsBetweenLayers) {
  NetworkBuilder net;
  const auto x = net.input("x", DataType::Float, {2, 4});
  const auto a = net.softmax(x, -1, false, "first");
  const auto b = net.softmax(net.transpose(a, {1, 0}), -1, false, "second");
  net.output(b, "y");
  ExecutionContext context =
      builder.build(net.finish(), BuilderConfig{.optimization_level = 0}).create_context();
  const std::vector<std::string> known = context.debug_tensors();
  ASSERT_GE(known.size(), 2u);
  EXPECT_EQ(known[0], "first_output");
  EXPECT_EQ(known.back(), "y");
  struct Seen final : DebugListener {
    void on_tensor(std::string_view name, const HostTensor& values) override {
      if (fails) throw std::runtime_error("enough");
      tensors.emplace_back(std::string(name), values);
    }
    std::vector<std::pair<std::string, HostTensor>> tensors;
    bool fails = false;
  } seen;
  const HostTensor in(DataType::Float, {2, 4}, kTwoRows);
  const std::vector<float> y = floats(context.run({in})[0]);

  std::vector<float> bound(kTwoRows), out(8);
  context.bind_input("x", DataType::Float, {2, 4}, bound.data());
  context.bind_output("y", DataType::Float, out.data(), 32);
  context.set_debug_listener(&seen);
  context.execute();
  EXPECT_EQ(out, y);
  ASSERT_EQ(seen.tensors.size(), known.size());
  for (size_t i = 0; i < known.size(); ++i) EXPECT_EQ(seen.tensors[i].first, known[i]);
  EXPECT_EQ(seen.tensors[0].second.dims, (Dims{2, 4}));
  const std::vector<float> first = floats(seen.tensors[0].second);
  EXPECT_FLOAT_EQ(first[0] + first[1] + first[2] + first[3], 1);
  EXPECT_EQ(floats(seen.tensors.back().second), y);

  seen.tensors.clear();
  context.set_debug_listener(&seen, {"first_output"});
  context.execute();
  ASSERT_EQ(seen.tensors.size(), 1u);
  seen.fails = true;
  EXPECT_THROW(context.execute(), std::runtime_error);
  context.set_debug_listener(nullptr);
  context.execute();
  EXPECT_EQ(seen.tensors.size(), 1u);
  const ErrorFields unknown = fields_of([&] { context.set_debug_listener(&seen, {"nothing"}); });
  EXPECT_EQ(unknown.where, "tensor 'nothing'");
}

TEST_F(Api, CudaStreamsAreForEnginesOfGpus) {
  const Engine engine = build();
  EXPECT_TRUE(engine.uses_host_memory());
  ExecutionContext context = engine.create_context();
  std::vector<float> x = kTwoRows, y(6);
  bind_both(context, x, y);
  expect_part(message_of(ErrorKind::Input, [&] { context.enqueue(CudaStream{}); }),
              "a CUDA stream was given");
  context.execute();
  EXPECT_EQ(y, kTheirResult);
}

TEST_F(Api, ContextsOutliveWhatMadeThem) {
  std::vector<float> x = kTwoRows, y(6);
  Stream stream;
  {
    ExecutionContext context = Builder(logger, {.threads = 1}).build(parse(), config()).create_context();
    bind_both(context, x, y);
    context.enqueue(stream);
  }
  stream.synchronize();
  EXPECT_EQ(y, kTheirResult);
}

}  // namespace
}  // namespace lathe::v1
