// SPDX-License-Identifier: Apache-2.0
//
// The core operators: small attribute structs in a variant. The importer expands everything else into these.
//
// They stand in four headers by what they do (op_compute.h, op_move.h, op_sequence.h, op_other.h).
//
// Each struct names its fields once, in visit(); text form, plan file, hashing and printing follow from that.
// Fields may be bool, int64_t, float, double, std::string, DType, an enum with enum_name/enum_from_name,
// vectors of int64_t/float, Dims, PointwiseProgram and Body. What an operator means stands in ops/ under the
// same name.
//
// Inputs and outputs are listed at each struct; [x] is optional (an absent input is kNoValue).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "ir/body.h"
#include "ir/dtype.h"
#include "ir/format.h"
#include "ir/op_compute.h"
#include "ir/op_move.h"
#include "ir/op_other.h"
#include "ir/op_sequence.h"
#include "ir/pointwise.h"
#include "ir/shape.h"

#undef LATHE_FIELDS

namespace lathe {

using OpFields =
    std::variant<Pointwise, PointwiseChain, Cast, Reformat, Conv, ConvTranspose, DepthwiseBlock, MatMul,
                 FeedForward, Attention, Rotary, Pool, Reduce, SqueezeExcite, ArgReduce, Softmax, LayerNorm,
                 BatchNorm, GroupNorm, Lrn, CumSum, ReshapeOp, Transpose, Concat, Split, Slice, Expand, Tile,
                 Pad, Resize, Gather, GatherElements, GatherND, ScatterElements, ScatterND, Trilu,
                 ReverseSequence, OneHot, DepthToSpace, ShapeTensor, ShapeOf, Range, Fill, TopK, NonZero,
                 NonMaxSuppression, QuantizeLinear, DequantizeLinear, RNN, GRU, LSTM, LinearAttention,
                 GridSample, RoiAlign, MaxRoiPool, DeformConv, Col2Im, DFT, STFT, MelWeightMatrix,
                 RandomUniform, RandomNormal, CumProd, Det, Inverse, TreeEnsemble, BitCast, Unique,
                 TfIdfVectorizer, DetectionNms, Plugin, If, Loop, Scan>;

// Which of the variant's alternatives T is; their number when it is none.
template <class T, class... Fields>
constexpr size_t alternative_index(const std::variant<Fields...>*) {
  size_t index = 0;
  (void)((std::is_same_v<T, Fields> || (++index, false)) || ...);
  return index;
}
template <class T>
inline constexpr size_t kOpIndex = alternative_index<T>(static_cast<const OpFields*>(nullptr));

// One of the operators above. A class around the variant, so that copying, moving, destroying and comparing
// so many alternatives is compiled once, in op.cpp, and not in every file that copies a node. std::visit,
// std::get_if, std::get and std::holds_alternative take an Op as they take the variant.
class Op : public OpFields {
 public:
  Op();
  template <class T>
  requires(kOpIndex<T> < std::variant_size_v<OpFields>) Op(T fields) : Op(kOpIndex<T>, &fields) {}
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(const Op& other);
  Op& operator=(Op&& other) noexcept;
  ~Op();
  friend bool operator==(const Op& a, const Op& b);

 private:
  Op(size_t index, void* fields);  // moves from the alternative `index` that lies at `fields`
};

// kName of the alternative; for Pointwise use pointwise_info(code).name to name the operation to a person.
std::string_view op_name(const Op& op);
// The operator of that kName with all fields at their defaults; nullopt when there is none.
std::optional<Op> op_from_name(std::string_view name);
// What logs call it: "Conv", "Relu" (the pointwise code), "MatMul".
std::string_view op_display_name(const Op& op);

// Its bodies, in the order of its fields; most operators have none.
std::vector<Body> bodies_of(const Op& op);
// The operator with map(body) in place of each body.
Op map_bodies(Op op, const std::function<Graph(const Graph&)>& map);

// Names of the enums above: enum_name(value) and enum_from_name<E>("SameUpper") (nullopt when unknown).
std::string_view enum_name(AutoPad), enum_name(AttentionLayout), enum_name(PoolKind), enum_name(ReduceKind),
    enum_name(PadMode), enum_name(ResizeMode), enum_name(CoordinateMode), enum_name(NearestMode),
    enum_name(AspectPolicy), enum_name(ScatterReduction), enum_name(E8M0Rounding), enum_name(Activation),
    enum_name(LinearAttentionRule), enum_name(GridPadding), enum_name(TfIdfMode), enum_name(TreeAggregate);
template <class E>
std::optional<E> enum_from_name(std::string_view name);  // instantiated in op.cpp for each enum
template <>
std::optional<PointwiseCode> enum_from_name(std::string_view name);

}  // namespace lathe
