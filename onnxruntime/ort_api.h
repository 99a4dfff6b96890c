// SPDX-License-Identifier: Apache-2.0
//
// ONNX Runtime's C interface as this provider uses it: its function tables, statuses as exceptions and back,
// and its lists.
#pragma once

#include <onnxruntime_c_api.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "lathe/types.h"

namespace lathe::onnxruntime_ep {

// What the provider needs of ONNX Runtime. Tables only grow: a newer one has all that is used here.
inline constexpr uint32_t kApiVersion = 24;

struct Apis {
  const OrtApi* ort = nullptr;
  const OrtEpApi* ep = nullptr;
};
// Set once, when ONNX Runtime loads this library.
Apis& apis();
inline const OrtApi& ort() {
  return *apis().ort;
}
inline const OrtEpApi& ep_api() {
  return *apis().ep;
}

// A call of ONNX Runtime's that failed, or what it shall be told.
class StatusError : public std::exception {
 public:
  StatusError(OrtErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  OrtErrorCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  OrtErrorCode code_;
  std::string message_;
};

// Throws what a call returned unless it is null.
void check(OrtStatus* status);

// The status of the exception that is being handled.
OrtStatus* status_of_exception() noexcept;

// Runs a function behind the C border, over which no exception may go.
template <class Function>
OrtStatus* guarded(Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return nullptr;
  } catch (...) {
    return status_of_exception();
  }
}

// All of a kind that an object has, by the pair of functions that count and give them.
template <class Object, class Item>
std::vector<const Item*> all_of(const Object& object, OrtStatus* (*count)(const Object*, size_t*),
                                OrtStatus* (*get)(const Object*, const Item**, size_t)) {
  size_t size = 0;
  check(count(&object, &size));
  std::vector<const Item*> items(size);
  if (size > 0) check(get(&object, items.data(), size));
  return items;
}

// One answer of a function that writes it through its last argument.
template <class Answer, class Object>
Answer answer_of(const Object& object, OrtStatus* (*ask)(const Object*, Answer*)) {
  Answer answer{};
  check(ask(&object, &answer));
  return answer;
}

inline std::vector<const OrtNode*> nodes_of(const OrtGraph& graph) {
  return all_of<OrtGraph, OrtNode>(graph, ort().Graph_GetNumNodes, ort().Graph_GetNodes);
}

// The values that a node reads; null where an optional one is absent.
std::vector<const OrtValueInfo*> inputs_of(const OrtNode& node);
// What its bodies read of the graphs around them.
std::vector<const OrtValueInfo*> captures_of(const OrtNode& node);
std::vector<const OrtValueInfo*> outputs_of(const OrtNode& node);

// "" for an absent value.
std::string name_of(const OrtValueInfo* value);
bool is_constant(const OrtValueInfo* value);

// What is known of a value before a run.
struct ValueType {
  bool is_tensor = false;  // else a sequence, a map or an optional one
  bool has_rank = false;
  int32_t element_type = 0;  // ONNX's number
  v1::Dims dims;             // -1: not known
  std::vector<std::string> dim_names;
};
ValueType type_of(const OrtValueInfo& value);
// Whether values of this type can cross the border between ONNX Runtime and an engine.
bool can_cross(const ValueType& type);

// A tensor that is there. `data` is null where it has no elements, perhaps.
struct TensorView {
  int32_t element_type = 0;  // ONNX's number
  v1::Dims dims;
  const void* data = nullptr;
};
// Throws for what is no tensor of numbers.
TensorView view_of(const OrtValue& value);

}  // namespace lathe::onnxruntime_ep
