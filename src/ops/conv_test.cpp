// SPDX-License-Identifier: Apache-2.0

#include "ops/evaluate_op.h"
#include "ops/window.h"

namespace lathe {
namespace {

// The definition, one output element at a time.
double direct_conv(const Tensor& x, const Tensor& w, int64_t n, int64_t m, int64_t oy, int64_t ox,
                   int64_t stride, int64_t dilation, int64_t pad, int64_t groups) {
  const Extents &xe = x.extents(), &we = w.extents();
  const int64_t per_group = we[1], group = m / (we[0] / groups);
  double sum = 0;
  for (int64_t c = 0; c < per_group; ++c) {
    for (int64_t r = 0; r < we[2]; ++r) {
      for (int64_t s = 0; s < we[3]; ++s) {
        const int64_t y = oy * stride - pad + r * dilation, z = ox * stride - pad + s * dilation;
        if (y < 0 || y >= xe[2] || z < 0 || z >= xe[3]) continue;
        sum += static_cast<double>(
                   x.data<float>()[((n * xe[1] + group * per_group + c) * xe[2] + y) * xe[3] + z]) *
               static_cast<double>(w.data<float>()[((m * per_group + c) * we[2] + r) * we[3] + s]);
      }
    }
  }
  return sum;
}

Tensor wave(Extents extents, int seed) {
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed)) % 23) - 11;
  return Tensor::from<float>(std::move(extents), values);
}

TEST(Conv, EqualsItsDefinition) {
  struct Case {
    int64_t channels, outputs, groups, kernel, stride, dilation, pad;
  };
  for (const Case& c : {Case{3, 5, 1, 3, 1, 1, 1}, Case{4, 6, 2, 3, 2, 1, 0}, Case{8, 8, 8, 3, 1, 2, 2},
                        Case{70, 9, 1, 1, 1, 1, 0}, Case{6, 4, 1, 5, 3, 1, 2}}) {
    const Tensor x = wave({2, c.channels, 11, 19}, 1),
                 w = wave({c.outputs, c.channels / c.groups, c.kernel, c.kernel}, 5);
    const Ints k(2, c.kernel), s(2, c.stride), d(2, c.dilation), p(2, c.pad);
    const Tensor y = evaluate_op(Conv{k, s, d, p, p, c.groups}, {x, w})[0];
    for (int64_t i = 0; i < y.size(); i += 7) {
      const Extents& e = y.extents();
      const int64_t ox = i % e[3], oy = i / e[3] % e[2], m = i / e[3] / e[2] % e[1],
                    n = i / e[3] / e[2] / e[1];
      EXPECT_EQ(y.data<float>()[i],
                static_cast<float>(direct_conv(x, w, n, m, oy, ox, c.stride, c.dilation, c.pad, c.groups)));
    }
  }
}

TEST(Conv, AddsBiasAndKeepsIntegersExact) {
  const Tensor x = Tensor::from<int32_t>({1, 1, 3}, {1, 2, 3}),
               w = Tensor::from<int32_t>({1, 1, 2}, {100000, 1});
  EXPECT_EQ(evaluate_op(Conv{{2}, {1}, {1}, {0}, {0}}, {x, w})[0].to_int64s(),
            (std::vector<int64_t>{100002, 200003}));
  const Tensor y =
      evaluate_op(Conv{{1}, {1}, {1}, {0}, {0}}, {ramp({1, 1, 3}), ramp({2, 1, 1}), ramp({2}, 5)})[0];
  expect_near(y, {0, 0, 0, 5, 6, 7});
}

TEST(ConvTranspose, IsTheAdjointOfConv) {
  // <conv(x), y> == <x, conv_transpose(y)> for every x and y, with the same weight and geometry.
  const Tensor x = wave({1, 4, 9, 7}, 3), w = wave({6, 2, 3, 3}, 4);
  const Conv conv{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2};
  const Tensor y = evaluate_op(conv, {x, w})[0];
  const Tensor back =
      evaluate_op(ConvTranspose{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {}, 2}, {y, w})[0];
  ASSERT_EQ(back.extents(), x.extents());
  double left = 0, right = 0;
  for (int64_t i = 0; i < y.size(); ++i) left += double(y.data<float>()[i]) * double(y.data<float>()[i]);
  for (int64_t i = 0; i < x.size(); ++i) right += double(x.data<float>()[i]) * double(back.data<float>()[i]);
  EXPECT_EQ(left, right);
}

TEST(ConvTranspose, OutputShapeAndSamePads) {
  const Tensor x = ramp({1, 1, 3}), w = Tensor::from<float>({1, 1, 3}, {1, 1, 1});
  EXPECT_EQ(evaluate_op(ConvTranspose{{3}, {2}, {1}, {0}, {0}, {0}, {10}}, {x, w})[0].extents(),
            (Extents{1, 1, 10}));
  ConvTranspose same{{3}, {2}};
  same.auto_pad = AutoPad::SameUpper;
  expect_near(evaluate_op(same, {x, w})[0], {0, 0, 1, 1, 3, 2});
}

TEST(Window, OutputExtentsFollowTheSpec) {
  const auto output = [](int64_t input, int64_t k, int64_t s, int64_t pad, bool ceil,
                         AutoPad mode = AutoPad::NotSet) {
    const Ints kernel{k}, stride{s}, dilation{1}, pads{pad};
    const WindowSpec spec{kernel, stride, dilation, pads, pads, mode, ceil};
    return resolve_window(spec, {input})[0].output;
  };
  EXPECT_EQ(output(112, 3, 2, 1, false), 56);
  EXPECT_EQ(output(13, 3, 2, 0, true), 6);
  EXPECT_EQ(output(6, 3, 2, 0, true), 3);  // the last window sticks out
  EXPECT_EQ(output(2, 1, 2, 1, true), 2);  // the third would start in the end padding
  EXPECT_EQ(output(7, 3, 2, 0, false, AutoPad::SameLower), 4);
  EXPECT_EQ(output(7, 3, 2, 0, false, AutoPad::Valid), 3);
}

TEST(Window, SymbolicExtentsAgreeWithConcreteOnes) {
  const Ints kernel{3}, strides{2}, dilations{2}, pads{1};
  for (bool ceil : {false, true}) {
    const WindowSpec spec{kernel, strides, dilations, pads, pads, AutoPad::NotSet, ceil};
    const Shape symbolic = window_output(spec, {Dim::symbol("n")});
    for (int64_t n = 5; n < 20; ++n)
      EXPECT_EQ(symbolic[0].evaluate({{"n", n}}), resolve_window(spec, {n})[0].output);
  }
}

TEST(Conv, ErrorsNameWhatIsWrong) {
  const Conv conv{{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  expect_input_error(
      [&] {
        evaluate_op(conv, {ramp({1, 4, 5, 5}), ramp({2, 3, 3, 3})});
      },
      "weight channels times groups: 4 and 3");
  expect_input_error(
      [&] {
        evaluate_op(conv, {ramp({1, 3, 2, 5}), ramp({2, 3, 3, 3})});
      },
      "does not fit into spatial dim 0");
  expect_input_error([&] { evaluate_op(conv, {ramp({1, 3, 5, 5}), ramp({2, 3, 3, 3}), ramp({5})}); }, "bias");
  expect_input_error(
      [&] {
        evaluate_op(conv, {ramp({3, 5}), ramp({2, 3})});
      },
      "needs data (N, C, spatial...)");
  Conv bad = conv;
  bad.strides = {0, 1};
  expect_input_error(
      [&] {
        evaluate_op(bad, {ramp({1, 3, 5, 5}), ramp({2, 3, 3, 3})});
      },
      "strides of Conv holds 0, expected 1 to");
  bad = conv;
  bad.groups = 0;
  expect_input_error([&] { evaluate_op(bad, {ramp({1, 3, 5, 5}), ramp({2, 3, 3, 3})}); }, "groups is 0");
}

}  // namespace
}  // namespace lathe
