// SPDX-License-Identifier: Apache-2.0
#include "backend/check/tree_case.h"

#include <random>

namespace lathe {
namespace {

constexpr int64_t kFeatures = 5;

class Growing {
 public:
  explicit Growing(const TreeCase& wanted) : wanted_(wanted) {
    for (int64_t i = 0; i < wanted.trees; ++i) roots_.push_back(grow(i % 9));  // some are one leaf
  }

  LayerCase layer() const {
    using T = TreeEnsemble;
    LayerCase layer{.op = T{.targets = wanted_.targets, .aggregate = wanted_.aggregate}};
    layer.inputs.resize(T::kInputs);
    layer.inputs[0] = {.dtype = wanted_.type, .extents = {wanted_.rows, kFeatures}};
    const auto table = [&](size_t i, DType type, const std::vector<double>& values) {
      const Extents extents = {static_cast<int64_t>(values.size())};
      layer.inputs[i] = {.dtype = type,
                         .extents = extents,
                         .constant = true,
                         .value = Tensor::from_doubles(type, extents, values)};
    };
    table(T::kFeatures, DType::Int32, features_);
    table(T::kThresholds, wanted_.type, thresholds_);
    table(T::kModes, DType::UInt8, modes_);
    table(T::kChildren, DType::Int32, children_);
    table(T::kRoots, DType::Int32, roots_);
    table(T::kLeafBegins, DType::Int32, begins_);
    table(T::kLeafTargets, DType::Int32, targets_);
    table(T::kLeafWeights, wanted_.type, weights_);
    return layer;
  }

 private:
  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  double number() { return static_cast<double>(pick(129)) / 32 - 2; }

  // The number of a new node, or of a new leaf.
  double grow(int64_t depth) {
    if (depth == 0 || pick(8) == 0) return leaf();
    const auto own = static_cast<double>(features_.size());
    features_.push_back(static_cast<double>(pick(kFeatures)));
    thresholds_.push_back(number());
    modes_.push_back(static_cast<double>(wanted_.modes < 2 ? wanted_.modes : pick(6) + 8 * pick(2)));
    const size_t slot = children_.size();
    children_.resize(slot + 2);
    for (size_t i = 0; i < 2; ++i) children_[slot + i] = grow(depth - 1);
    return own;
  }
  double leaf() {
    for (int64_t n = pick(3); n > 0; --n) {
      targets_.push_back(static_cast<double>(pick(wanted_.targets)));
      weights_.push_back(number());
    }
    begins_.push_back(static_cast<double>(weights_.size()));
    return -static_cast<double>(begins_.size() - 1);
  }

  TreeCase wanted_;
  std::mt19937 random_{7};
  std::vector<double> features_, thresholds_, modes_, children_, roots_, begins_ = {0}, targets_, weights_;
};

}  // namespace

LayerCase tree_case(const TreeCase& wanted) {
  return Growing(wanted).layer();
}

}  // namespace lathe
