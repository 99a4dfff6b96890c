// SPDX-License-Identifier: Apache-2.0
//
// What all parts of the public API share: element types, tensors, errors, devices and the logger.
//
// The API lives in the namespace of its version, lathe::v1; `using namespace lathe::v1;` is the usual start.
// Its headers include nothing but the standard library. All functions throw Error; none of them leaves an
// object half changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/allocator.h"
#include "lathe/plugin_registry.h"

namespace lathe::v1 {

// Numbers are ONNX's TensorProto.DataType.
enum class DataType : uint8_t {
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  Bool = 9,  // one byte, 0 or 1
  Half = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,  // two to a byte, low nibble first
  Int4 = 22,
};
std::string_view data_type_name(DataType type);  // "float32", "int64", ...

// Extents of a tensor, outermost first; -1 where a dim is dynamic.
using Dims = std::vector<int64_t>;
// Elements of a tensor without dynamic dims; 1 for a scalar.
int64_t volume(const Dims& dims);
// Bytes of that many elements.
size_t data_bytes(DataType type, int64_t elements);

// How the memory of an input or output lies. Shapes are logical (N, C, height, width) in all of them.
enum class MemoryFormat : uint8_t {
  Linear,             // row-major: chw
  ChannelsLast,       // N, spatial dims, C: hwc, dhwc
  ChannelsBlocked16,  // N, C / 16, spatial dims, 16: chw16
  // N, spatial dims, C rounded up to a multiple of 8 or 16: hwc8, dhwc8, hwc16. What lies behind the channels
  // is not read; in an output it may have any value.
  ChannelsLast8,
  ChannelsLast16,
};

// An input or output of a network or engine.
struct TensorInfo {
  std::string name;
  DataType type = DataType::Float;
  Dims dims;                           // -1: dynamic
  std::vector<std::string> dim_names;  // "batch" for a dynamic dim, "3" for a static one
  bool is_shape_tensor = false;        // its elements decide shapes; the profile gives their range
  MemoryFormat format = MemoryFormat::Linear;
  // A tensor of strings: UInt8 with one dim more, each string's UTF-8 bytes and zeros behind its end.
  bool is_string = false;
};

// A tensor in host memory: row-major, contiguous.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DataType type, Dims dims)
      : type(type), dims(std::move(dims)), bytes(data_bytes(type, volume(this->dims))) {}
  // Throws Error (Input) when the values are not as many bytes as a tensor of this type and these extents.
  template <class T>
  HostTensor(DataType type, Dims dims, const std::vector<T>& values) : HostTensor(type, std::move(dims)) {
    check_values(values.size(), sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) data<T>()[i] = values[i];
  }
  // The elements as T, whose size must be the element type's.
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }

  DataType type = DataType::Float;
  Dims dims;
  std::vector<std::byte> bytes;

 private:
  void check_values(size_t count, size_t value_bytes) const;
};

enum class ErrorKind {
  Input,      // the model, file, shape or option is wrong or not supported
  Internal,   // a bug in Lathe
  System,     // a file, the device or memory failed
  Cancelled,  // a build that its caller stopped
};

// What failed, in the codes and numbers of TensorRT's ErrorCode, and one more.
enum class ErrorCode {
  Success,               // of no error
  UnspecifiedError,      // a build that its caller stopped
  InternalError,         // a bug in Lathe
  InvalidArgument,       // a model, file, name, shape or value is wrong
  InvalidConfig,         // options of a build that contradict each other, or that the model cannot have
  FailedAllocation,      // out of memory, or an allocator gave none
  FailedInitialization,  // a device, library or thread does not start
  FailedExecution,       // a file or the device failed in use
  FailedComputation,     // no error of Lathe has it
  InvalidState,          // the object is not ready for the call: in use, moved from, without memory or shapes
  UnsupportedState,      // the model is right, and Lathe does not have what it asks for
  NotOnThisHardware,     // this device cannot do it, another can
};

// The parts of an error. Parts that are not known are empty.
struct ErrorFields {
  std::string what;     // "its memory is too small"
  std::string where;    // "output 'y' (float32 2x3)"
  std::string why;      // "24 bytes are needed, 12 were given"
  std::string hint;     // "give it tensor_bytes(name) bytes"
  std::string node;     // the layer of the model that it is about, "/conv1/Conv"
  std::string op_type;  // and its operator, "Conv"
};

// what() is all parts in one line.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);
  Error(ErrorKind kind, ErrorFields fields);
  Error(ErrorKind kind, ErrorCode code, ErrorFields fields);
  ErrorKind kind() const { return kind_; }
  ErrorCode code() const { return code_; }
  const ErrorFields& fields() const { return fields_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  ErrorCode code_;
  ErrorFields fields_;
  std::string message_;
};

enum class Severity { InternalError, Error, Warning, Info, Verbose };

// Receives what a build or a load has to say. Called on the calling thread; must not throw.
class Logger {
 public:
  virtual ~Logger() = default;
  virtual void log(Severity severity, std::string_view text) = 0;
};

// Which device to use, and which code besides the library's own.
struct DeviceConfig {
  std::string device = "cpu";  // "cpu", the number of a GPU, or "auto": GPU 0 when there is one, else the CPU
  int threads = 0;             // of the CPU; 0: all that this process may use
  // The highest instruction set: "avx2", "avx512", "avx512_bf16", "amx"; empty: what there is.
  std::string cpu_isa = {};
  PluginRegistry plugins = {};  // the custom operators that models and engines may use
  // Where memory of the device comes from, for builds (operands of layers that are timed), engines (packed
  // weights) and contexts (activations, scratch, results); null: from the system. Models and engine files lie
  // in memory of the host's heap as ever.
  std::shared_ptr<Allocator> allocator = nullptr;
};

// "0.2.0"
std::string_view version();

}  // namespace lathe::v1
