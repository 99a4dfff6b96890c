// SPDX-License-Identifier: Apache-2.0
//
// Writing a model that is a copy of another one with some nodes and constants changed: fields are copied as
// they are, so that whatever nobody changes stays byte by byte.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/tensor.h"
#include "onnx/model.h"
#include "onnx/wire.h"

namespace lathe::onnx {

// Numbers of fields in onnx.proto.
inline constexpr uint32_t kModelIrVersion = 1, kModelProducer = 2, kModelProducerVersion = 3, kModelGraph = 7,
                          kModelOpset = 8;
inline constexpr uint32_t kOpsetDomain = 1, kOpsetVersion = 2;
inline constexpr uint32_t kGraphNode = 1, kGraphInitializer = 5, kGraphInput = 11, kGraphOutput = 12,
                          kGraphValueInfo = 13;
inline constexpr uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOpType = 4, kNodeAttribute = 5,
                          kNodeDomain = 7;
inline constexpr int64_t kFirstIr = 4;                   // initializers need not be inputs
inline constexpr int64_t kMostBytes = int64_t{2} << 30;  // of a protobuf message, for most readers

std::string_view text_of(std::span<const std::byte> bytes);

// The field that the reader stands at, as it is.
void copy_field(WireReader& reader, std::string& out);

// The bytes of a TensorProto.
std::string tensor_bytes(const std::string& name, const Tensor& tensor);

using IntAttributes = std::vector<std::pair<std::string_view, int64_t>>;

// The bytes of an AttributeProto that holds a whole number.
std::string int_attribute(std::string_view name, int64_t value);

// The bytes of a NodeProto.
std::string node_bytes(std::string_view op_type, const std::string& name,
                       const std::vector<std::string>& inputs, const std::string& output,
                       const IntAttributes& attributes = {}, std::string_view domain = {});

// The bytes of an OperatorSetIdProto.
std::string opset_bytes(std::string_view domain, int64_t version);

// All names of a graph and its bodies, and new ones that differ from them.
class TakenNames {
 public:
  explicit TakenNames(const GraphProto& graph) { note(graph); }
  std::string unique(const std::string& wanted);

 private:
  void note(const GraphProto& graph);
  std::set<std::string, std::less<>> names_;
};

}  // namespace lathe::onnx
