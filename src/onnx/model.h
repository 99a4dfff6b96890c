// SPDX-License-Identifier: Apache-2.0
//
// An ONNX model as plain structs: what the file says, unjudged. Strings and tensor data point into the file's
// bytes (mapped, not copied), so a model of many gigabytes opens in milliseconds; Model keeps the map alive.
// Names follow onnx.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/file_below.h"
#include "ir/tensor.h"

namespace lathe::onnx {

// Valid ONNX that we do not support. Nodes that are merely not supported are all listed in one error.
class UnsupportedError : public Error {
 public:
  explicit UnsupportedError(std::string reason)
      : Error(ErrorKind::Input, ErrorCode::UnsupportedState, std::move(reason)) {}
};
// `reason` says what is not supported and what to do, as part of a sentence about the node.
[[noreturn]] void throw_unsupported(std::string reason);

using Entries = std::vector<std::pair<std::string_view, std::string_view>>;

inline constexpr int32_t kStringType = 8;  // TensorProto.data_type

struct TensorProto {
  std::string_view name;
  int32_t data_type = 0;
  std::vector<int64_t> dims;
  std::optional<std::span<const std::byte>> raw_data;
  std::vector<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<int64_t> int64_data;
  std::vector<double> double_data;
  std::vector<uint64_t> uint64_data;
  std::vector<std::string_view> string_data;
  bool external = false;
  Entries external_data;
};

// Zero but for the values, which have a name (that of the tensor). indices: (count) of elements, or (count,
// rank).
struct SparseTensorProto {
  TensorProto values, indices;
  std::vector<int64_t> dims;
};

struct Dimension {
  std::optional<int64_t> value;
  std::string_view param;  // empty: no name
};

struct TypeProto {
  enum class Kind : uint8_t { None, Tensor, Sequence, Optional, Other };  // Other: map, sparse
  Kind kind = Kind::None;
  int32_t elem_type = 0;                        // of a tensor
  std::optional<std::vector<Dimension>> shape;  // of a tensor
  std::shared_ptr<TypeProto> element;           // of a sequence or optional
};

struct ValueInfo {
  std::string_view name;
  TypeProto type;
};

struct GraphProto;

struct AttributeProto {
  enum class Type : int32_t {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Graph = 5,
    Floats = 6,
    Ints = 7,
    Strings = 8,
    Tensors = 9,
    Graphs = 10,
    SparseTensor = 11,
    SparseTensors = 12,
    TypeProto = 13,
    TypeProtos = 14
  };
  std::string_view name, ref_attr_name;
  Type type = Type::Undefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::shared_ptr<TensorProto> t;
  std::shared_ptr<SparseTensorProto> sparse;
  std::shared_ptr<GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
};

struct NodeProto {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeProto> attributes;
};
// Null when the node has no attribute of this name.
const AttributeProto* find_attribute(const NodeProto& node, std::string_view name);

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<SparseTensorProto> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs, value_info;
};

struct OpsetId {
  std::string_view domain;
  int64_t version = 0;
};

struct FunctionProto {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<AttributeProto> attribute_defaults;
  std::vector<NodeProto> nodes;
  std::vector<OpsetId> opsets;
};

struct ModelProto {
  int64_t ir_version = 0, model_version = 0;
  std::string_view producer_name, producer_version, domain, doc_string;
  std::vector<OpsetId> opsets;
  GraphProto graph;
  std::vector<FunctionProto> functions;
  Entries metadata;
};

// Reads the bytes of a ModelProto. Throws one Input error that says what is wrong and where; never crashes,
// never allocates more than a small multiple of the input. The result points into `bytes`.
ModelProto parse_model(std::span<const std::byte> bytes);
// The same for a single TensorProto (test data).
TensorProto parse_tensor(std::span<const std::byte> bytes);

// ONNX's own operators, under both of their names.
inline bool is_onnx_domain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx";
}

// What a node is called: its name, or without one its operator and a running number ("Relu_0"). `unnamed`
// counts those of one list of nodes so far, by operator.
std::string node_name(const NodeProto& node, std::map<std::string, int, std::less<>>& unnamed);

// Where tensors of a model take their bytes from: the file itself, and files beside it.
class TensorSource {
 public:
  // `owner` keeps the model's bytes alive; `folder` is where external data must lie (empty: there may be
  // none).
  TensorSource(std::shared_ptr<const void> owner, std::filesystem::path folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}

  // The tensor's type, extents and bytes, checked against each other. Aligned raw data is used in place.
  Tensor load(const TensorProto& tensor);
  // Written out, zeros and all.
  Tensor load(const SparseTensorProto& tensor);
  // Of strings, as bytes with one dim more (ir/strings.h). load() refuses them.
  static Tensor load_strings(const TensorProto& tensor);

 private:
  struct ExternalFile {
    std::shared_ptr<const FileBelow> file;
    std::map<std::pair<size_t, size_t>, Tensor> tensors;  // by offset and length: what was read
    size_t bytes_read = 0;
  };
  Tensor load_external(const TensorProto& tensor, DType dtype, size_t expected);
  ExternalFile& open_external(std::string_view location, std::string_view tensor);

  std::shared_ptr<const void> owner_;
  std::filesystem::path folder_;
  std::map<std::string, ExternalFile, std::less<>> files_;
};

// The element type of an ONNX number; throws Input naming `what` when it is none of ours (strings, complex
// numbers).
DType dtype_from_onnx(int32_t data_type, std::string_view what);

}  // namespace lathe::onnx
