// SPDX-License-Identifier: Apache-2.0
#include "ort_api.h"

#include <memory>
#include <new>

namespace lathe::onnxruntime_ep {

Apis& apis() {
  static Apis tables;
  return tables;
}

void check(OrtStatus* status) {
  if (status == nullptr) return;
  StatusError error(ort().GetErrorCode(status), ort().GetErrorMessage(status));
  ort().ReleaseStatus(status);
  throw error;
}

OrtStatus* status_of_exception() noexcept {
  try {
    throw;
  } catch (const StatusError& error) {
    return ort().CreateStatus(error.code(), error.what());
  } catch (const v1::Error& error) {
    const bool bad_input = error.kind() == v1::ErrorKind::Input;
    return ort().CreateStatus(bad_input ? ORT_INVALID_ARGUMENT : ORT_EP_FAIL, error.what());
  } catch (const std::bad_alloc&) {
    return ort().CreateStatus(ORT_EP_FAIL, "Lathe: out of memory");
  } catch (const std::exception& error) {
    return ort().CreateStatus(ORT_EP_FAIL, error.what());
  } catch (...) {
    return ort().CreateStatus(ORT_EP_FAIL, "Lathe: an unknown exception");
  }
}

std::vector<const OrtValueInfo*> inputs_of(const OrtNode& node) {
  return all_of<OrtNode, OrtValueInfo>(node, ort().Node_GetNumInputs, ort().Node_GetInputs);
}
std::vector<const OrtValueInfo*> captures_of(const OrtNode& node) {
  return all_of<OrtNode, OrtValueInfo>(node, ort().Node_GetNumImplicitInputs, ort().Node_GetImplicitInputs);
}
std::vector<const OrtValueInfo*> outputs_of(const OrtNode& node) {
  return all_of<OrtNode, OrtValueInfo>(node, ort().Node_GetNumOutputs, ort().Node_GetOutputs);
}

std::string name_of(const OrtValueInfo* value) {
  return value == nullptr ? "" : answer_of<const char*>(*value, ort().GetValueInfoName);
}

bool is_constant(const OrtValueInfo* value) {
  return value != nullptr && answer_of<bool>(*value, ort().ValueInfo_IsConstantInitializer);
}

ValueType type_of(const OrtValueInfo& value) {
  ValueType type;
  const auto* info = answer_of<const OrtTypeInfo*>(value, ort().GetValueInfoTypeInfo);
  if (info == nullptr) return type;
  const auto* tensor = answer_of<const OrtTensorTypeAndShapeInfo*>(*info, ort().CastTypeInfoToTensorInfo);
  if (tensor == nullptr) return type;
  type.is_tensor = true;
  type.element_type = answer_of<ONNXTensorElementDataType>(*tensor, ort().GetTensorElementType);
  type.has_rank = ort().TensorTypeAndShape_HasShape(tensor);
  if (!type.has_rank) return type;
  const size_t rank = answer_of<size_t>(*tensor, ort().GetDimensionsCount);
  type.dims.resize(rank);
  std::vector<const char*> names(rank);
  check(ort().GetDimensions(tensor, type.dims.data(), rank));
  check(ort().GetSymbolicDimensions(tensor, names.data(), rank));
  for (const char* name : names) type.dim_names.emplace_back(name == nullptr ? "" : name);
  return type;
}

TensorView view_of(const OrtValue& value) {
  OrtTensorTypeAndShapeInfo* made = nullptr;
  check(ort().GetTensorTypeAndShape(&value, &made));
  const auto release = [](OrtTensorTypeAndShapeInfo* info) { ort().ReleaseTensorTypeAndShapeInfo(info); };
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(release)> info(made, release);
  TensorView view{.element_type = answer_of<ONNXTensorElementDataType>(*info, ort().GetTensorElementType)};
  if (view.element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
    throw StatusError(ORT_NOT_IMPLEMENTED, "a tensor holds strings");
  view.dims.resize(answer_of<size_t>(*info, ort().GetDimensionsCount));
  check(ort().GetDimensions(info.get(), view.dims.data(), view.dims.size()));
  view.data = answer_of<const void*>(value, ort().GetTensorData);
  return view;
}

bool can_cross(const ValueType& type) {
  const auto in = [&](v1::DataType first, v1::DataType last) {
    return type.element_type >= static_cast<int32_t>(first) &&
           type.element_type <= static_cast<int32_t>(last);
  };
  const bool known = in(v1::DataType::Float, v1::DataType::Int64) ||
                     in(v1::DataType::Bool, v1::DataType::UInt64) ||
                     in(v1::DataType::BFloat16, v1::DataType::Float8E5M2FNUZ);
  return type.is_tensor && type.has_rank && known;
}

}  // namespace lathe::onnxruntime_ep
