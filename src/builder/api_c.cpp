// SPDX-License-Identifier: Apache-2.0
//
// The C API over the C++ one. No exception leaves it.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lathe/builder.h"
#include "lathe/c_api.h"
#include "lathe/runtime.h"

namespace v1 = lathe::v1;

struct lathe_error {
  v1::Error error;
};
struct lathe_engine {
  v1::Engine engine;
  std::vector<v1::TensorInfo> inputs, outputs;
};
struct lathe_context {
  v1::ExecutionContext context;
};

namespace {

[[noreturn]] void refuse(std::string what, std::string where) {
  throw v1::Error(v1::ErrorKind::Input, v1::ErrorFields{.what = std::move(what), .where = std::move(where)});
}

template <class F>
lathe_error* guard(F&& body) {
  try {
    body();
    return nullptr;
  } catch (const v1::Error& error) {
    return new lathe_error{error};
  } catch (const std::bad_alloc&) {
    return new lathe_error{
        v1::Error(v1::ErrorKind::System, v1::ErrorCode::FailedAllocation, {.what = "out of memory"})};
  } catch (const std::exception& error) {
    return new lathe_error{v1::Error(v1::ErrorKind::Internal, error.what())};
  }
}

template <class T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) refuse("it is NULL", std::string("argument '") + name + "'");
  return *pointer;
}
std::string text(const char* pointer, const char* name) {
  return std::string(&given(pointer, name));
}

class FunctionLogger final : public v1::Logger {
 public:
  explicit FunctionLogger(const lathe_options& options) : function_(options.log), user_(options.log_user) {}
  void log(v1::Severity severity, std::string_view text) override {
    if (function_ != nullptr) function_(user_, static_cast<int>(severity), std::string(text).c_str());
  }

 private:
  lathe_log_function function_;
  void* user_;
};

// The options of a program that was compiled with this version's struct or a shorter one: what it lacks has
// its default.
lathe_options known(const lathe_options* options) {
  lathe_options result;
  lathe_options_init(&result);
  if (options == nullptr) return result;
  if (options->struct_size < offsetof(lathe_options, log) || options->struct_size > 4096)
    refuse("struct_size is " + std::to_string(options->struct_size) + "; lathe_options_init() sets it",
           "argument 'options'");
  std::memcpy(&result, options, std::min(options->struct_size, sizeof(result)));
  return result;
}

v1::DeviceConfig device_of(const lathe_options& options) {
  v1::DeviceConfig config{.device = options.device != nullptr ? options.device : "cpu",
                          .threads = options.threads};
  for (size_t i = 0; i < options.plugin_library_count; ++i)
    config.plugins.load(text((&given(options.plugin_libraries, "options->plugin_libraries"))[i],
                             "options->plugin_libraries[]"));
  for (size_t i = 0; i < options.plugin_count; ++i)
    config.plugins.add(given((&given(options.plugins, "options->plugins"))[i], "options->plugins[]"));
  if (options.trust_engine) config.plugins.trust_engines();
  return config;
}

v1::Dims dims_of(const int64_t* dims, size_t rank, const char* where) {
  if (rank > LATHE_MAX_RANK) refuse("its rank is " + std::to_string(rank), where);
  if (rank > 0) given(dims, "dims");
  return {dims, dims + rank};
}

v1::BuilderConfig config_of(const lathe_options& options) {
  v1::BuilderConfig config;
  config.optimization_level = options.optimization_level;
  config.fp16 = options.fp16 != 0, config.bf16 = options.bf16 != 0, config.best = options.best != 0;
  if (options.shape_count == 0) return config;
  v1::OptimizationProfile& profile = config.profiles.emplace_back();
  for (size_t i = 0; i < options.shape_count; ++i) {
    const lathe_shape_range& r = (&given(options.shapes, "options->shapes"))[i];
    const std::string input = text(r.input, "options->shapes[].input");
    const std::string where = "shape of '" + input + "'";
    profile.set_dims(input, dims_of(r.min, r.rank, where.c_str()), dims_of(r.opt, r.rank, where.c_str()),
                     dims_of(r.max, r.rank, where.c_str()));
  }
  return config;
}

lathe_engine* wrap(v1::Engine engine) {
  auto inputs = engine.inputs(), outputs = engine.outputs();
  return new lathe_engine{std::move(engine), std::move(inputs), std::move(outputs)};
}

void describe(const std::vector<v1::TensorInfo>& tensors, size_t index, lathe_tensor_info* info) {
  if (given(info, "info").struct_size < sizeof(lathe_tensor_info))
    refuse("struct_size is " + std::to_string(info->struct_size), "argument 'info'");
  if (index >= tensors.size())
    refuse("there are " + std::to_string(tensors.size()), "tensor number " + std::to_string(index));
  const v1::TensorInfo& t = tensors[index];
  if (t.dims.size() > LATHE_MAX_RANK)
    refuse("its rank is " + std::to_string(t.dims.size()), "tensor '" + t.name + "'");
  info->name = t.name.c_str();
  info->type = static_cast<int>(t.type);
  info->rank = t.dims.size();
  std::copy(t.dims.begin(), t.dims.end(), info->dims);
}

v1::DataType type_of(int type) {
  if (type < 0 || type > 255) refuse("there is no element type " + std::to_string(type), "argument 'type'");
  return static_cast<v1::DataType>(type);
}

}  // namespace

const char* lathe_version(void) {
  return v1::version().data();
}

lathe_error_code_t lathe_error_code(const lathe_error* e) {
  return e == nullptr ? LATHE_SUCCESS : static_cast<lathe_error_code_t>(e->error.code());
}
lathe_error_kind_t lathe_error_kind(const lathe_error* e) {
  return static_cast<lathe_error_kind_t>(e->error.kind());
}
const char* lathe_error_message(const lathe_error* e) {
  return e->error.what();
}
const char* lathe_error_what(const lathe_error* e) {
  return e->error.fields().what.c_str();
}
const char* lathe_error_where(const lathe_error* e) {
  return e->error.fields().where.c_str();
}
const char* lathe_error_why(const lathe_error* e) {
  return e->error.fields().why.c_str();
}
const char* lathe_error_hint(const lathe_error* e) {
  return e->error.fields().hint.c_str();
}
void lathe_error_free(lathe_error* error) {
  delete error;
}

void lathe_options_init(lathe_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->struct_size = sizeof(lathe_options);
  options->optimization_level = v1::BuilderConfig().optimization_level;
}

lathe_error* lathe_build(const char* onnx_path, const lathe_options* options, lathe_engine** engine) {
  return guard([&] {
    given(engine, "engine") = nullptr;
    const lathe_options all = known(options);
    FunctionLogger logger(all);
    v1::Builder builder(logger, device_of(all));
    *engine = wrap(builder.build(builder.parse_onnx(text(onnx_path, "onnx_path")), config_of(all)));
  });
}
lathe_error* lathe_engine_load(const char* path, const lathe_options* options, lathe_engine** engine) {
  return guard([&] {
    given(engine, "engine") = nullptr;
    const lathe_options all = known(options);
    FunctionLogger logger(all);
    *engine = wrap(v1::Runtime(logger, device_of(all)).load(text(path, "path")));
  });
}
lathe_error* lathe_engine_save(const lathe_engine* engine, const char* path) {
  return guard([&] { given(engine, "engine").engine.save(text(path, "path")); });
}
void lathe_engine_free(lathe_engine* engine) {
  delete engine;
}
size_t lathe_engine_input_count(const lathe_engine* engine) {
  return engine != nullptr ? engine->inputs.size() : 0;
}
size_t lathe_engine_output_count(const lathe_engine* engine) {
  return engine != nullptr ? engine->outputs.size() : 0;
}
lathe_error* lathe_engine_input(const lathe_engine* engine, size_t index, lathe_tensor_info* info) {
  return guard([&] { describe(given(engine, "engine").inputs, index, info); });
}
lathe_error* lathe_engine_output(const lathe_engine* engine, size_t index, lathe_tensor_info* info) {
  return guard([&] { describe(given(engine, "engine").outputs, index, info); });
}

lathe_error* lathe_context_create(const lathe_engine* engine, lathe_context** context) {
  return guard([&] {
    given(context, "context") = nullptr;
    *context = new lathe_context{given(engine, "engine").engine.create_context()};
  });
}
void lathe_context_free(lathe_context* context) {
  delete context;
}
lathe_error* lathe_context_bind_input(lathe_context* context, const char* input, int type,
                                      const int64_t* dims, size_t rank, const void* data) {
  return guard([&] {
    const std::string name = text(input, "input");
    given(context, "context").context.bind_input(name, type_of(type), dims_of(dims, rank, input), data);
  });
}
lathe_error* lathe_context_bind_output(lathe_context* context, const char* output, int type, void* data,
                                       size_t bytes) {
  return guard([&] {
    given(context, "context").context.bind_output(text(output, "output"), type_of(type), data, bytes);
  });
}
lathe_error* lathe_context_tensor_bytes(lathe_context* context, const char* tensor, size_t* bytes) {
  return guard([&] {
    given(bytes, "bytes") = given(context, "context").context.tensor_bytes(text(tensor, "tensor"));
  });
}
lathe_error* lathe_context_tensor_shape(lathe_context* context, const char* tensor, int64_t* dims,
                                        size_t* rank) {
  return guard([&] {
    const v1::Dims shape = given(context, "context").context.tensor_shape(text(tensor, "tensor"));
    if (shape.size() > LATHE_MAX_RANK) refuse("its rank is " + std::to_string(shape.size()), tensor);
    std::copy(shape.begin(), shape.end(), &given(dims, "dims"));
    given(rank, "rank") = shape.size();
  });
}
lathe_error* lathe_context_execute(lathe_context* context) {
  return guard([&] { given(context, "context").context.execute(); });
}

lathe_error* lathe_context_keep_state(lathe_context* context, const char* const* inputs,
                                      const char* const* outputs, size_t* count) {
  return guard([&] {
    std::vector<v1::StatePair> pairs;
    for (size_t i = 0; count != nullptr && i < *count; ++i)
      pairs.push_back(
          {text((&given(inputs, "inputs"))[i], "inputs"), text((&given(outputs, "outputs"))[i], "outputs")});
    const size_t kept = given(context, "context").context.keep_state(pairs).size();
    if (count != nullptr) *count = kept;
  });
}
lathe_error* lathe_context_set_state(lathe_context* context, const char* input, int type, const int64_t* dims,
                                     size_t rank, const void* data) {
  return guard([&] {
    const std::string name = text(input, "input");
    given(context, "context").context.set_state(name, type_of(type), dims_of(dims, rank, input), data);
  });
}
lathe_error* lathe_context_read_state(lathe_context* context, const char* input, int64_t* dims, size_t* rank,
                                      void* data, size_t* bytes) {
  return guard([&] {
    const v1::HostTensor values = given(context, "context").context.state(text(input, "input"));
    const size_t room = given(bytes, "bytes"), needed = values.bytes.size();
    if (values.dims.size() > LATHE_MAX_RANK)
      refuse("its rank is " + std::to_string(values.dims.size()), input);
    if (data != nullptr && room < needed)
      refuse("it has " + std::to_string(needed) + " bytes, and there is room for " + std::to_string(room),
             input);
    std::copy(values.dims.begin(), values.dims.end(), &given(dims, "dims"));
    given(rank, "rank") = values.dims.size();
    *bytes = needed;
    if (data != nullptr && needed > 0) std::memcpy(data, values.bytes.data(), needed);
  });
}
lathe_error* lathe_context_reset_state(lathe_context* context) {
  return guard([&] { given(context, "context").context.reset_state(); });
}
