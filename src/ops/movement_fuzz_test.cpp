// SPDX-License-Identifier: Apache-2.0
//
// Random attributes and shapes, most of them wrong, through inference and evaluation of the data-movement and
// index operators. Whatever comes in, an operator gives a result of the foretold shape or an Input error; the
// sanitizer builds see to the rest. The seed is fixed and each round has its own, which a failure prints.
#include <random>

#include "ops/op_test.h"

namespace lathe {
namespace {

class Source {
 public:
  explicit Source(uint32_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  // Mostly small numbers, now and then one that overflows something.
  int64_t number() {
    switch (below(24)) {
      case 0:
        return INT64_MAX - below(3);
      case 1:
        return INT64_MIN + below(3);
      case 2:
        return (int64_t{1} << (40 + below(23))) * (coin() ? 1 : -1);  // never a size that fits into memory
      default:
        return below(9) - 3;
    }
  }
  Ints numbers() {
    Ints values(static_cast<size_t>(below(5)));
    for (int64_t& value : values) value = number();
    return values;
  }
  Ints axes(int64_t rank) {
    Ints values(static_cast<size_t>(below(rank + 1)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = coin() ? static_cast<int64_t>(i) : number();
    return values;
  }
  std::optional<Shape> maybe_shape() { return coin() ? std::optional(to_shape(numbers())) : std::nullopt; }
  Extents extents() {
    Extents values(static_cast<size_t>(below(5)));
    for (int64_t& value : values) value = below(5);
    return values;
  }
  Tensor data() {
    constexpr DType kTypes[] = {DType::Float32, DType::Int64, DType::Int32,   DType::Bool,
                                DType::Float16, DType::UInt8, DType::Float64, DType::Int4};
    const DType dtype = kTypes[below(8)];
    const Extents shape = extents();
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (double& value : values) value = static_cast<double>(below(7) - 2);
    return Tensor::from_doubles(dtype, shape, values);
  }
  Tensor indices() {
    const Extents shape = extents();
    std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
    for (int64_t& value : values) value = coin() ? below(3) : number();
    return Tensor::from<int64_t>(shape, values);
  }
  Tensor list() { return below(6) == 0 ? indices() : i64s(numbers()); }
  Tensor maybe(Tensor tensor) { return coin() ? tensor : Tensor(); }
  Tensor scales() {
    const Extents shape = {below(5)};
    std::vector<float> values(static_cast<size_t>(shape[0]));
    for (float& value : values)
      value = below(8) == 0 ? static_cast<float>(number()) : static_cast<float>(below(9)) / 4;
    return Tensor::from<float>(shape, values);
  }

 private:
  std::mt19937 random_;
};

struct Case {
  Op op;
  std::vector<Tensor> inputs;
  size_t outputs = 1;
};

Case shape_case(Source& s) {
  const Tensor x = s.data();
  switch (s.below(8)) {
    case 0:
      return {ReshapeOp{s.maybe_shape(), s.coin()}, {x, s.list()}};
    case 1:
      return {Transpose{s.axes(x.rank())}, {x}};
    case 2:
      return {Concat{s.number()}, {x, s.coin() ? x : s.data()}};
    case 3:
      return {Split{s.number(), to_shape(s.numbers())}, {x}, static_cast<size_t>(s.below(4)) + 1};
    case 4:
      return {Slice{}, {x, s.list(), s.list(), s.maybe(s.list()), s.maybe(s.list())}};
    case 5:
      return {Expand{s.maybe_shape()}, {x, s.list()}};
    case 6:
      return {Tile{s.maybe_shape()}, {x, s.list()}};
    default:
      return {DepthToSpace{s.number(), s.coin(), s.coin()}, {x}};
  }
}

Case index_case(Source& s) {
  const Tensor x = s.data();
  const auto reduction = static_cast<ScatterReduction>(s.below(5));
  switch (s.below(7)) {
    case 0:
      return {Gather{s.number()}, {x, s.indices()}};
    case 1:
      return {GatherElements{s.number()}, {x, s.indices()}};
    case 2:
      return {GatherND{s.coin() ? 0 : s.number()}, {x, s.indices()}};
    case 3:
      return {ScatterElements{s.number(), reduction}, {x, s.indices(), s.coin() ? x : s.data()}};
    case 4:
      return {ScatterND{reduction}, {x, s.indices(), s.coin() ? x : s.data()}};
    case 5:
      return {Trilu{s.coin()}, {x, s.maybe(s.list())}};
    default:
      return {OneHot{s.number()}, {s.indices(), s.list(), s.data()}};
  }
}

Case value_case(Source& s) {
  const Tensor x = s.data();
  switch (s.below(9)) {
    case 0:
      return {Pad{static_cast<PadMode>(s.below(4)), s.maybe_shape()},
              {x, s.list(), s.maybe(s.data()), s.maybe(s.list())}};
    case 1: {
      Resize op;
      op.mode = static_cast<ResizeMode>(s.below(3));
      op.coordinates = static_cast<CoordinateMode>(s.below(7));
      op.nearest = static_cast<NearestMode>(s.below(4));
      op.aspect = static_cast<AspectPolicy>(s.below(3));
      op.exclude_outside = s.coin();
      op.antialias = s.coin();
      op.axes = s.axes(x.rank());
      return {op, {x, s.maybe(s.scales()), s.maybe(s.scales()), s.maybe(s.list())}};
    }
    case 2:
      return {CumSum{s.coin(), s.coin()}, {x, s.list()}};
    case 3:
      return {TopK{s.number(), s.coin(), s.coin()}, {x, s.list()}, 2};
    case 4:
      return {ArgReduce{s.coin(), s.number(), s.coin(), s.coin()}, {x}};
    case 5:
      return {NonZero{}, {x}};
    case 6:
      return {Range{}, {s.list(), s.list(), s.list()}};
    case 7:
      return {Fill{s.maybe_shape(), x.dtype(), 1}, {s.list()}};
    default:
      return {NonMaxSuppression{s.coin()}, {s.data(), s.data(), s.maybe(s.list()), s.maybe(s.scales())}};
  }
}

// True when the case ran to the end.
bool run_case(const Case& c) {
  std::vector<Value> values;
  for (const Tensor& input : c.inputs) values.push_back(input ? known(input) : Value{});
  try {
    const std::vector<ResultInfo> infos = infer_values(c.op, values, c.outputs);
    // Also with nothing known of the inputs' contents: that must not reach for them.
    for (Value& value : values) value.constant = Tensor();
    try {
      infer_values(c.op, values, c.outputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    }
    const SymbolValues none;
    EvaluateContext context;
    context.inputs = c.inputs;
    context.output_count = c.outputs;
    context.symbols = &none;
    const std::vector<Tensor> results = find_op_def(c.op).evaluate(c.op, context);
    for (size_t i = 0; i < infos.size(); ++i) {
      EXPECT_EQ(results[i].dtype(), infos[i].dtype);
      EXPECT_EQ(results[i].extents().size(), infos[i].shape.size());
      if (is_static(infos[i].shape)) {
        EXPECT_EQ(results[i].extents(), to_extents(infos[i].shape));
      }
      if (infos[i].contents) {
        EXPECT_EQ(to_shape(results[i].to_int64s()), *infos[i].contents);
      }
    }
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return false;
  }
}

TEST(MovementFuzz, ResultsOrInputErrors) {
  constexpr uint32_t kRounds = 10'000;
  int finished = 0;
  for (uint32_t round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Source source(round);
    const int64_t family = source.below(3);
    const Case c = family == 0 ? shape_case(source) : family == 1 ? index_case(source) : value_case(source);
    SCOPED_TRACE(std::string(op_name(c.op)));
    finished += run_case(c);
  }
  EXPECT_GT(finished, 1000);  // the generator must not miss the valid cases
}

}  // namespace
}  // namespace lathe
