// SPDX-License-Identifier: Apache-2.0
#include "onnx_runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/error.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// Places in the table of functions (struct OrtApi of onnxruntime_c_api.h). All were there in version 1 of the
// table.
enum Function : size_t {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetSessionGraphOptimizationLevel = 23,
  kCreateTensorWithData = 49,
  kIsTensor = 50,
  kGetTensorData = 51,
  kGetElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseTensorTypeAndShape = 99,
  kReleaseSessionOptions = 100,
};
constexpr uint32_t kTableVersion = 1;
constexpr int kErrorsOnly = 3, kNoOptimizations = 0, kDeviceAllocator = 0, kDefaultMemory = 0;

struct OrtApiBase {
  const void* (*table)(uint32_t version);
  const char* (*version)();
};

using Handle = std::unique_ptr<void, std::function<void(void*)>>;

struct Api {
  const void* const* functions;

  template <class Result, class... Arguments>
  Result raw(Function function, Arguments... arguments) const {
    return reinterpret_cast<Result (*)(Arguments...)>(const_cast<void*>(functions[function]))(arguments...);
  }

  // Throws Input with the message of the status that is not null.
  template <class... Arguments>
  void call(Function function, Arguments... arguments) const {
    void* status = raw<void*>(function, arguments...);
    if (status == nullptr) return;
    const std::string message = raw<const char*>(kGetErrorMessage, static_cast<const void*>(status));
    raw<void>(kReleaseStatus, status);
    throw_input_error("ONNX Runtime: " + message);
  }

  Handle own(void* object, Function release) const {
    return {object, [*this, release](void* owned) { raw<void>(release, owned); }};
  }

  // What a function writes into its last argument.
  template <class... Arguments>
  Handle create(Function release, Function function, Arguments... arguments) const {
    void* object = nullptr;
    call(function, arguments..., &object);
    return own(object, release);
  }
};

// The library in a folder or in its capi/, where Python packages have it; empty: none.
std::string library_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::path& place : {folder, folder / "capi"})
    for (const auto& entry : fs::directory_iterator(place, ignored))
      if (entry.path().filename().string().starts_with("libonnxruntime.so")) found.push_back(entry.path());
  return found.empty() ? "" : *std::min_element(found.begin(), found.end());
}

constexpr const char* kHowToFind =
    "name the library or the folder of the Python package (pip install onnxruntime), as in "
    "--against=\"$(python3 -c 'import onnxruntime; print(onnxruntime.__path__[0])')\"";

void* load(const std::string& where) {
  std::vector<std::string> names = {where.find('/') == std::string::npos ? "./" + where : where};
  std::error_code ignored;
  if (where == "onnxruntime") {
    names = {"libonnxruntime.so.1", "libonnxruntime.so"};
  } else if (fs::is_directory(where, ignored)) {
    names = {library_in(where)};
    if (names[0].empty())
      throw_input_error(
          fmt::format("--against={}: no libonnxruntime.so in this folder: {}", where, kHowToFind));
  }
  std::string why;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* text = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(text ? text : name);
  }
  throw_input_error(fmt::format("--against={}: {}: {}", where, why, kHowToFind));
}

Tensor tensor_of(const Api& api, void* value, const std::string& name) {
  int is_tensor = 0;
  api.call(kIsTensor, static_cast<const void*>(value), &is_tensor);
  if (is_tensor == 0) throw_input_error("ONNX Runtime's output '" + name + "' is no tensor");
  const Handle info =
      api.create(kReleaseTensorTypeAndShape, kGetTensorTypeAndShape, static_cast<const void*>(value));
  const void* shape = info.get();
  int number = 0;
  size_t rank = 0;
  api.call(kGetElementType, shape, &number);
  api.call(kGetDimensionsCount, shape, &rank);
  Extents extents(rank);
  api.call(kGetDimensions, shape, extents.data(), rank);
  const auto& types = all_dtypes();
  const auto type = std::find_if(types.begin(), types.end(), [&](const DTypeInfo& info) {
    return info.dtype != DType::Undefined && static_cast<int>(info.dtype) == number;
  });
  if (type == types.end())
    throw_input_error(
        fmt::format("ONNX Runtime's output '{}' has a type (number {}) that engines have not", name, number));
  Tensor tensor = Tensor::allocate(type->dtype, extents);
  void* data = nullptr;
  api.call(kGetTensorData, value, &data);
  const auto bytes = tensor.mutable_bytes();
  if (!bytes.empty()) std::memcpy(bytes.data(), data, bytes.size());
  return tensor;
}

}  // namespace

OnnxRuntime::OnnxRuntime(const std::string& where) {
  void* library = load(where);
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (base == nullptr)
    throw_input_error(fmt::format("--against={}: no library of ONNX Runtime (it has no OrtGetApiBase): {}",
                                  where, kHowToFind));
  version_ = base()->version();
  functions_ = static_cast<const void* const*>(base()->table(kTableVersion));
  if (functions_ == nullptr)
    throw_input_error("--against=" + where + ": ONNX Runtime " + version_ +
                      " has no C interface of version 1");
}

std::vector<Tensor> OnnxRuntime::run(const std::string& model, const std::vector<std::string>& input_names,
                                     std::span<const Tensor> inputs,
                                     const std::vector<std::string>& output_names) const {
  const Api api{functions_};
  const Handle environment = api.create(kReleaseEnv, kCreateEnv, kErrorsOnly, "lathe"),
               options = api.create(kReleaseSessionOptions, kCreateSessionOptions),
               memory =
                   api.create(kReleaseMemoryInfo, kCreateCpuMemoryInfo, kDeviceAllocator, kDefaultMemory);
  api.call(kSetSessionGraphOptimizationLevel, options.get(), kNoOptimizations);
  const Handle session =
      api.create(kReleaseSession, kCreateSession, static_cast<const void*>(environment.get()), model.c_str(),
                 static_cast<const void*>(options.get()));
  std::vector<Handle> owned;
  std::vector<const void*> values;
  for (const Tensor& input : inputs) {
    const auto bytes = input.bytes();
    owned.push_back(api.create(kReleaseValue, kCreateTensorWithData, static_cast<const void*>(memory.get()),
                               static_cast<void*>(const_cast<std::byte*>(bytes.data())), bytes.size(),
                               input.extents().data(), input.extents().size(),
                               static_cast<int>(input.dtype())));
    values.push_back(owned.back().get());
  }
  const auto pointers = [](const std::vector<std::string>& names) {
    std::vector<const char*> texts;
    for (const std::string& name : names) texts.push_back(name.c_str());
    return texts;
  };
  const std::vector<const char*> in = pointers(input_names), out = pointers(output_names);
  std::vector<void*> results(out.size(), nullptr);
  api.call(kRun, session.get(), static_cast<const void*>(nullptr), in.data(), values.data(), values.size(),
           out.data(), out.size(), results.data());
  std::vector<Tensor> outputs;
  owned.clear();
  for (void* result : results) owned.push_back(api.own(result, kReleaseValue));
  for (size_t i = 0; i < results.size(); ++i) outputs.push_back(tensor_of(api, results[i], output_names[i]));
  return outputs;
}

}  // namespace lathe::cli
