// SPDX-License-Identifier: Apache-2.0
#include "ir/op.h"

#include "base/error.h"

namespace lathe {
namespace {

// Names in the order of the enumerators: the index is the value.
template <class E>
std::vector<std::string_view> names_of();

template <>
std::vector<std::string_view> names_of<AutoPad>() {
  return {"NotSet", "SameUpper", "SameLower", "Valid"};
}
template <>
std::vector<std::string_view> names_of<AttentionLayout>() {
  return {"BHSD", "BSHD"};
}
template <>
std::vector<std::string_view> names_of<PoolKind>() {
  return {"Max", "Average", "Lp"};
}
template <>
std::vector<std::string_view> names_of<ReduceKind>() {
  return {"Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"};
}
template <>
std::vector<std::string_view> names_of<PadMode>() {
  return {"Constant", "Reflect", "Edge", "Wrap"};
}
template <>
std::vector<std::string_view> names_of<ResizeMode>() {
  return {"Nearest", "Linear", "Cubic"};
}
template <>
std::vector<std::string_view> names_of<CoordinateMode>() {
  return {"HalfPixel",  "HalfPixelSymmetric", "PytorchHalfPixel", "AlignCorners",
          "Asymmetric", "TfCropAndResize",    "TfHalfPixelForNn"};
}
template <>
std::vector<std::string_view> names_of<NearestMode>() {
  return {"RoundPreferFloor", "RoundPreferCeil", "Floor", "Ceil"};
}
template <>
std::vector<std::string_view> names_of<AspectPolicy>() {
  return {"Stretch", "NotLarger", "NotSmaller"};
}
template <>
std::vector<std::string_view> names_of<ScatterReduction>() {
  return {"None", "Add", "Mul", "Min", "Max"};
}
template <>
std::vector<std::string_view> names_of<E8M0Rounding>() {
  return {"Up", "Down", "Nearest"};
}
template <>
std::vector<std::string_view> names_of<Activation>() {
  return {"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
          "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
}
template <>
std::vector<std::string_view> names_of<LinearAttentionRule>() {
  return {"Linear", "Gated", "Delta", "GatedDelta"};
}
template <>
std::vector<std::string_view> names_of<GridPadding>() {
  return {"Zeros", "Border", "Reflection"};
}
template <>
std::vector<std::string_view> names_of<TfIdfMode>() {
  return {"TF", "IDF", "TFIDF"};
}
template <>
std::vector<std::string_view> names_of<TreeAggregate>() {
  return {"Sum", "Average", "Min", "Max"};
}

template <class E>
const std::vector<std::string_view>& enum_names() {
  static const std::vector<std::string_view> names = names_of<E>();
  return names;
}

template <class E>
std::string_view name_in_table(E value) {
  const auto index = static_cast<size_t>(value);
  check(index < enum_names<E>().size(), "enum_name: value out of range");
  return enum_names<E>()[index];
}

}  // namespace

Op::Op() = default;
Op::Op(const Op& other) = default;
Op::Op(Op&& other) noexcept = default;
Op& Op::operator=(const Op& other) = default;
Op& Op::operator=(Op&& other) noexcept = default;
Op::~Op() = default;

Op::Op(size_t index, void* fields) {
  const auto take = [&]<size_t... I>(std::index_sequence<I...>) {
    (void)((index == I &&
            (emplace<I>(std::move(*static_cast<std::variant_alternative_t<I, OpFields>*>(fields))), true)) ||
           ...);
  };
  take(std::make_index_sequence<std::variant_size_v<OpFields>>());
}

bool operator==(const Op& a, const Op& b) {
  return static_cast<const OpFields&>(a) == static_cast<const OpFields&>(b);
}

std::string_view op_name(const Op& op) {
  return std::visit([]<class T>(const T&) { return T::kName; }, op);
}

std::optional<Op> op_from_name(std::string_view name) {
  const auto find = [&]<size_t... I>(std::index_sequence<I...>) {
    std::optional<Op> op;
    ((std::variant_alternative_t<I, OpFields>::kName == name ? (op.emplace().emplace<I>(), 0) : 0), ...);
    return op;
  };
  return find(std::make_index_sequence<std::variant_size_v<OpFields>>());
}

std::string_view op_display_name(const Op& op) {
  if (const auto* pointwise = std::get_if<Pointwise>(&op)) return pointwise_info(pointwise->code).name;
  return op_name(op);
}

std::string_view enum_name(AutoPad v) {
  return name_in_table(v);
}
std::string_view enum_name(AttentionLayout v) {
  return name_in_table(v);
}
std::string_view enum_name(PoolKind v) {
  return name_in_table(v);
}
std::string_view enum_name(ReduceKind v) {
  return name_in_table(v);
}
std::string_view enum_name(PadMode v) {
  return name_in_table(v);
}
std::string_view enum_name(ResizeMode v) {
  return name_in_table(v);
}
std::string_view enum_name(CoordinateMode v) {
  return name_in_table(v);
}
std::string_view enum_name(NearestMode v) {
  return name_in_table(v);
}
std::string_view enum_name(AspectPolicy v) {
  return name_in_table(v);
}
std::string_view enum_name(ScatterReduction v) {
  return name_in_table(v);
}
std::string_view enum_name(E8M0Rounding v) {
  return name_in_table(v);
}
std::string_view enum_name(Activation v) {
  return name_in_table(v);
}
std::string_view enum_name(LinearAttentionRule v) {
  return name_in_table(v);
}
std::string_view enum_name(GridPadding v) {
  return name_in_table(v);
}
std::string_view enum_name(TfIdfMode v) {
  return name_in_table(v);
}
std::string_view enum_name(TreeAggregate v) {
  return name_in_table(v);
}

template <class E>
std::optional<E> enum_from_name(std::string_view name) {
  const auto& names = enum_names<E>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

template std::optional<AutoPad> enum_from_name(std::string_view);
template std::optional<AttentionLayout> enum_from_name(std::string_view);
template std::optional<PoolKind> enum_from_name(std::string_view);
template std::optional<ReduceKind> enum_from_name(std::string_view);
template std::optional<PadMode> enum_from_name(std::string_view);
template std::optional<ResizeMode> enum_from_name(std::string_view);
template std::optional<CoordinateMode> enum_from_name(std::string_view);
template std::optional<NearestMode> enum_from_name(std::string_view);
template std::optional<AspectPolicy> enum_from_name(std::string_view);
template std::optional<ScatterReduction> enum_from_name(std::string_view);
template std::optional<E8M0Rounding> enum_from_name(std::string_view);
template std::optional<Activation> enum_from_name(std::string_view);
template std::optional<LinearAttentionRule> enum_from_name(std::string_view);
template std::optional<GridPadding> enum_from_name(std::string_view);
template std::optional<TfIdfMode> enum_from_name(std::string_view);
template std::optional<TreeAggregate> enum_from_name(std::string_view);

template <>
std::optional<PointwiseCode> enum_from_name(std::string_view name) {
  for (const PointwiseInfo& info : all_pointwise()) {
    if (info.name == name) return info.code;
  }
  return std::nullopt;
}

}  // namespace lathe
