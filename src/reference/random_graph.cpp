// SPDX-License-Identifier: Apache-2.0
//
// The generator of random graphs, see random_graph.h. A step picks a value that exists (late ones more often,
// so that chains form for passes to fuse) and an operation that fits its rank; what does not fit is drawn
// again.

#include "reference/random_graph.h"

#include <cmath>

#include "ops/build.h"
#include "reference/compare.h"
#include "reference/random_input.h"

namespace lathe {

namespace {

class Generator {
 public:
  Generator(Graph& graph, uint64_t seed, const RandomGraphOptions& options)
      : editor_(graph), stream_(seed), batch_(options.dynamic_batch ? Dim::symbol("batch") : Dim(2)) {
    editor_.set_name("random_" + std::to_string(seed));
  }

  void run(int steps) {
    const int64_t inputs = stream_.integer(1, 2);
    for (int64_t i = 0; i < inputs; ++i) add_input();
    for (int done = 0, tries = 0; done < steps && tries < 50 * steps; ++tries) done += step() ? 1 : 0;
    for (ValueId value : values_) {
      if (graph().users(value).empty() && graph().value(value).producer != kNoNode)
        editor_.mark_output(value);
    }
  }

 private:
  const Graph& graph() const { return editor_.graph(); }
  const Shape& shape(ValueId id) const { return graph().value(id).shape; }
  size_t rank(ValueId id) const { return shape(id).size(); }
  // Extents of all dims but the first; those are always constant.
  int64_t extent(ValueId id, size_t dim) const { return shape(id)[dim].value(); }
  bool chance(int64_t one_in) { return stream_.integer(1, one_in) == 1; }
  template <class T>
  T pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(stream_.integer(0, static_cast<int64_t>(list.size()) - 1))];
  }

  // The larger of two draws: newer values are used more.
  ValueId pick_value() {
    const int64_t last = static_cast<int64_t>(values_.size()) - 1;
    return values_[static_cast<size_t>(std::max(stream_.integer(0, last), stream_.integer(0, last)))];
  }

  void add_input() {
    const std::string name = "x" + std::to_string(values_.size());
    Shape dims = {batch_};
    if (chance(3)) {  // a sequence, else an image
      dims.push_back(Dim(stream_.integer(1, 9)));
      dims.push_back(Dim(8 * stream_.integer(1, 4)));
    } else {
      dims.push_back(Dim(pick<int64_t>({3, 4, 8, 12, 16, 17})));
      dims.push_back(Dim(stream_.integer(5, 14)));
      dims.push_back(Dim(stream_.integer(5, 14)));
    }
    values_.push_back(editor_.add_input(name, DType::Float32, std::move(dims)));
  }

  ValueId constant(Extents extents, double scale, double offset = 0) {
    std::vector<double> data(static_cast<size_t>(element_count(extents)));
    for (double& element : data) element = offset + scale * stream_.normal();
    return editor_.add_constant("c" + std::to_string(counter_++),
                                Tensor::from_doubles(DType::Float32, std::move(extents), data));
  }

  ValueId append(Op op, std::vector<ValueId> inputs) {
    const std::string kind(op_display_name(op));
    const std::string name = kind + "_" + std::to_string(counter_++);
    return append_node(editor_, name, std::move(op), std::move(inputs), {{name, kind}})[0];
  }
  bool keep(ValueId value) {
    values_.push_back(value);
    return true;
  }

  bool step() {
    const ValueId x = pick_value();
    switch (stream_.integer(0, 12)) {
      case 0:
      case 1:
        return unary(x);
      case 2:
        return with_constant(x);
      case 3:
        return join(x);
      case 4:
      case 5:
        return rank(x) == 4 ? convolution(x) : product(x);
      case 6:
        return rank(x) == 4 ? pooling(x) : softmax(x);
      case 7:
        return rank(x) == 4 ? channel_norm(x) : layer_norm(x);
      case 8:
        return transpose(x);
      case 9:
        return reshape(x);
      case 10:
        return concat(x);
      case 11:
        return slice(x);
      default:
        return rank(x) == 4 ? reduce(x) : attention(x);
    }
  }

  bool unary(ValueId x) {
    using C = PointwiseCode;
    const C code = pick<C>({C::Relu, C::Sigmoid, C::Tanh, C::Silu, C::GeluErf, C::GeluTanh, C::HardSwish,
                            C::Abs, C::Neg, C::Clip, C::LeakyRelu, C::Softplus, C::Erf, C::Elu});
    float alpha = 0, beta = 0;
    if (code == C::Silu || code == C::Elu) alpha = 1;
    if (code == C::LeakyRelu) alpha = 0.1f;
    if (code == C::Clip) alpha = chance(2) ? 0.0f : -1.0f, beta = 6;
    return keep(append(Pointwise{code, alpha, beta}, {x}));
  }

  // A bias or factor: per channel, per last dim, or one for all.
  bool with_constant(ValueId x) {
    Extents extents;
    if (rank(x) == 4 && !chance(3)) extents = {extent(x, 1), 1, 1};
    if (rank(x) != 4 && !chance(3)) extents = {extent(x, rank(x) - 1)};
    const bool multiply = chance(2);
    const ValueId c = constant(std::move(extents), 0.3, multiply ? 1 : 0);
    std::vector<ValueId> operands = {x, c};
    if (chance(4)) std::swap(operands[0], operands[1]);
    return keep(append(Pointwise{multiply ? PointwiseCode::Mul : PointwiseCode::Add}, std::move(operands)));
  }

  bool join(ValueId x) {
    for (int tries = 0; tries < 8; ++tries) {
      const ValueId other = pick_value();
      if (other == x || !(shape(other) == shape(x))) continue;
      const PointwiseCode code =
          pick<PointwiseCode>({PointwiseCode::Add, PointwiseCode::Add, PointwiseCode::Sub, PointwiseCode::Mul,
                               PointwiseCode::Max});
      return keep(append(Pointwise{code}, {x, other}));
    }
    return false;
  }

  bool convolution(ValueId x) {
    const int64_t channels = extent(x, 1), kernel = pick<int64_t>({1, 1, 3, 3, 5});
    const int64_t dilation = kernel == 3 && chance(5) ? 2 : 1, stride = chance(4) ? 2 : 1;
    const int64_t reach = (kernel - 1) * dilation + 1, pad = chance(3) ? 0 : reach / 2;
    if (extent(x, 2) + 2 * pad < reach || extent(x, 3) + 2 * pad < reach) return false;
    int64_t groups = 1, outputs = pick<int64_t>({4, 8, 16, 24, 19});
    if (chance(4)) groups = outputs = channels;
    if (groups == 1 && channels % 2 == 0 && outputs % 2 == 0 && chance(6)) groups = 2;
    const Ints k(2, kernel), s(2, stride), d(2, dilation), p(2, pad);
    const double scale = 1 / std::sqrt(static_cast<double>(channels / groups * kernel * kernel));
    std::vector<ValueId> inputs = {x, constant({outputs, channels / groups, kernel, kernel}, scale)};
    if (!chance(3)) inputs.push_back(constant({outputs}, 0.2));
    return keep(append(Conv{k, s, d, p, p, groups}, std::move(inputs)));
  }

  bool product(ValueId x) {
    const int64_t depth = extent(x, rank(x) - 1), width = 8 * stream_.integer(1, 5);
    MatMul op;
    op.transpose_b = chance(3);
    const ValueId w = constant(op.transpose_b ? Extents{width, depth} : Extents{depth, width},
                               1 / std::sqrt(static_cast<double>(depth)));
    ValueId y = append(op, {x, w});
    if (chance(2)) y = append(Pointwise{PointwiseCode::Add}, {y, constant({width}, 0.2)});
    return keep(y);
  }

  bool pooling(ValueId x) {
    const int64_t kernel = stream_.integer(2, 3), stride = stream_.integer(1, 2), pad = chance(2) ? 0 : 1;
    if (extent(x, 2) < kernel || extent(x, 3) < kernel) return false;
    Pool op{chance(2) ? PoolKind::Max : PoolKind::Average,
            Ints(2, kernel),
            Ints(2, stride),
            {},
            Ints(2, pad),
            Ints(2, pad)};
    op.ceil_mode = chance(4);
    op.count_include_pad = op.kind == PoolKind::Average && chance(2);
    return keep(append(op, {x}));
  }

  bool softmax(ValueId x) {
    const ValueId y = append(Softmax{chance(3) ? 1 : -1}, {x});
    // Back to about unit size.
    const ValueId factor = constant({}, 0, std::sqrt(static_cast<double>(extent(x, rank(x) - 1))));
    return keep(append(Pointwise{PointwiseCode::Mul}, {y, factor}));
  }

  bool channel_norm(ValueId x) {
    const int64_t channels = extent(x, 1);
    const ValueId scale = constant({channels}, 0.1, 1), bias = constant({channels}, 0.2);
    if (!chance(3)) {
      const ValueId mean = constant({channels}, 0.2), variance = constant({channels}, 0.05, 1);
      return keep(append(BatchNorm{}, {x, scale, bias, mean, variance}));
    }
    if (extent(x, 2) * extent(x, 3) < 8) return false;  // moments of a few elements amplify errors
    return keep(append(GroupNorm{channels % 2 == 0 ? 2 : 0}, {x, scale, bias}));
  }

  bool layer_norm(ValueId x) {
    const int64_t width = extent(x, rank(x) - 1);
    if (width < 8) return false;
    return keep(append(LayerNorm{}, {x, constant({width}, 0.1, 1), constant({width}, 0.2)}));
  }

  bool transpose(ValueId x) {
    Ints perm;
    for (size_t i = 0; i < rank(x); ++i) perm.push_back(static_cast<int64_t>(i));
    if (perm.size() < 3) return false;
    for (size_t i = perm.size() - 1; i > 1; --i) {  // the batch stays in front
      std::swap(perm[i], perm[static_cast<size_t>(stream_.integer(1, static_cast<int64_t>(i)))]);
    }
    return keep(append(Transpose{perm}, {x}));
  }

  // (B, C, H, W) -> (B, C, H*W), or a sequence to an image.
  bool reshape(ValueId x) {
    const Shape& from = shape(x);
    if (rank(x) == 4) return keep(append(ReshapeOp{Shape{from[0], from[1], from[2] * from[3]}}, {x}));
    if (rank(x) != 3 || extent(x, 2) % 4 != 0) return false;
    return keep(append(ReshapeOp{Shape{from[0], from[1], 4, Dim(extent(x, 2) / 4)}}, {x}));
  }

  bool concat(ValueId x) {
    for (int tries = 0; tries < 8; ++tries) {
      const ValueId other = pick_value();
      if (rank(other) != rank(x) || rank(x) < 3 || extent(x, 1) + extent(other, 1) > 64) continue;
      bool fits = true;
      for (size_t d = 2; d < rank(x); ++d) fits = fits && extent(x, d) == extent(other, d);
      if (fits) return keep(append(Concat{1}, {x, other}));
    }
    return false;
  }

  bool slice(ValueId x) {
    if (rank(x) < 3 || extent(x, 1) < 2) return false;
    const int64_t length = extent(x, 1), start = stream_.integer(0, length / 2);
    const int64_t end = stream_.integer(start + 1, length);
    return keep(append(Slice{Shape{Dim(start)}, Shape{Dim(end)}, {1}, {1}}, {x}));
  }

  bool reduce(ValueId x) { return keep(append(Reduce{ReduceKind::Mean, Ints{2, 3}, chance(2)}, {x})); }

  bool attention(ValueId x) {
    if (rank(x) != 3 || extent(x, 2) % 8 != 0) return false;
    const Dim sequence = shape(x)[1];
    const int64_t width = extent(x, 2), heads = width / 8;
    std::vector<ValueId> parts;
    for (int i = 0; i < 3; ++i) {
      const ValueId w = constant({width, width}, 1 / std::sqrt(static_cast<double>(width)));
      const ValueId y =
          append(ReshapeOp{Shape{shape(x)[0], sequence, Dim(heads), 8}}, {append(MatMul{}, {x, w})});
      parts.push_back(append(Transpose{{0, 2, 1, 3}}, {y}));
    }
    const ValueId y = append(Transpose{{0, 2, 1, 3}}, {append(Attention{0.35355339f}, std::move(parts))});
    return keep(append(ReshapeOp{Shape{shape(x)[0], sequence, Dim(width)}}, {y}));
  }

  GraphEditor editor_;
  RandomStream stream_;
  Dim batch_;
  std::vector<ValueId> values_;  // float32, first dim the batch
  int counter_ = 0;
};

}  // namespace

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  Graph graph;
  Generator(graph, seed, options).run(options.steps);
  return graph;
}

bool agrees(const Tensor& actual, const Tensor& expected, double limit) {
  const Comparison c = compare(actual, expected);
  return c.within(limit) || (c.within(1e30) && c.max_absolute <= limit);
}

}  // namespace lathe
