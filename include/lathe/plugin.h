// SPDX-License-Identifier: Apache-2.0
//
// Custom operators in C++, over plugin_abi.h. Header only: a plugin library links nothing of Lathe.
//
//   class Swish : public lathe::v1::Plugin {
//    public:
//     static constexpr const char *kName = "Swish", *kVersion = "1", *kNamespace = "";
//     explicit Swish(const PluginFields& fields) : beta_(fields.real("beta", 1)) {}
//     void infer(Inference& node) override { node.set_output(0, node.input(0)); }
//     void run(const CpuRun& run) override { ... }
//   };
//   extern "C" const lathe_plugin_library_info* lathe_plugin_library(uint32_t host) {
//     return lathe::v1::plugin_library<Swish>(host);
//   }
//
// Exceptions of all functions become the error of the build or run.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/plugin_abi.h"

namespace lathe::v1 {

// The attributes of a node.
class PluginFields {
 public:
  PluginFields(const lathe_plugin_field* fields, size_t count) : fields_(fields, count) {}
  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    const auto* f = find(name);
    return f ? value<int64_t>(*f, 7) : otherwise;
  }
  float real(std::string_view name, float otherwise) const {
    const auto* f = find(name);
    return f ? value<float>(*f, 1) : otherwise;
  }
  std::string text(std::string_view name, std::string_view otherwise) const {
    const auto* f = find(name);
    if (f && f->type != 8) wrong(*f, "a text");
    return f ? std::string(static_cast<const char*>(f->data), f->bytes) : std::string(otherwise);
  }
  // Elements of a list or tensor; T's size must be the type's.
  template <class T>
  std::vector<T> list(std::string_view name, int type) const {
    const auto* f = find(name);
    if (!f) return {};
    if (f->type != type) wrong(*f, "of type " + std::to_string(type));
    std::vector<T> values(f->bytes / sizeof(T));
    if (f->bytes > 0) std::memcpy(values.data(), f->data, values.size() * sizeof(T));
    return values;
  }
  std::vector<int64_t> integers(std::string_view name) const { return list<int64_t>(name, 7); }
  std::vector<float> reals(std::string_view name) const { return list<float>(name, 1); }
  std::span<const lathe_plugin_field> all() const { return fields_; }

 private:
  const lathe_plugin_field* find(std::string_view name) const {
    for (const lathe_plugin_field& f : fields_)
      if (name == f.name) return &f;
    return nullptr;
  }
  [[noreturn]] static void wrong(const lathe_plugin_field& f, const std::string& wanted) {
    throw std::invalid_argument("attribute '" + std::string(f.name) + "' is not " + wanted);
  }
  template <class T>
  static T value(const lathe_plugin_field& f, int type) {
    if (f.type != type || f.bytes != sizeof(T)) wrong(f, type == 1 ? "a real number" : "an integer");
    T v;
    std::memcpy(&v, f.data, sizeof v);
    return v;
  }
  std::span<const lathe_plugin_field> fields_;
};

// A dim of a shape while it is inferred: a number, or an expression of symbols.
class PluginDim {
 public:
  PluginDim() = default;
  PluginDim(const lathe_plugin_dims* functions, const lathe_plugin_dim* dim) : f_(functions), dim_(dim) {
    if (!dim) throw std::invalid_argument("a dim cannot be computed (is it divided by 0?)");
  }
  bool is_constant() const { return f_->is_constant(f_->self, dim_, nullptr) != 0; }
  int64_t value() const {
    int64_t value = 0;
    if (!f_->is_constant(f_->self, dim_, &value)) throw std::invalid_argument("a dim is not known yet");
    return value;
  }
  const lathe_plugin_dim* handle() const { return dim_; }
  const lathe_plugin_dims* functions() const { return f_; }

  friend PluginDim operator+(const PluginDim& a, const PluginDim& b) { return of(LATHE_PLUGIN_ADD, a, b); }
  friend PluginDim operator-(const PluginDim& a, const PluginDim& b) {
    return of(LATHE_PLUGIN_SUBTRACT, a, b);
  }
  friend PluginDim operator*(const PluginDim& a, const PluginDim& b) {
    return of(LATHE_PLUGIN_MULTIPLY, a, b);
  }
  friend PluginDim floor_div(const PluginDim& a, const PluginDim& b) {
    return of(LATHE_PLUGIN_FLOOR_DIV, a, b);
  }
  friend PluginDim ceil_div(const PluginDim& a, const PluginDim& b) {
    return of(LATHE_PLUGIN_CEIL_DIV, a, b);
  }
  friend PluginDim min(const PluginDim& a, const PluginDim& b) { return of(LATHE_PLUGIN_MIN, a, b); }
  friend PluginDim max(const PluginDim& a, const PluginDim& b) { return of(LATHE_PLUGIN_MAX, a, b); }

 private:
  static PluginDim of(int operation, const PluginDim& a, const PluginDim& b) {
    return {a.f_, a.f_->operation(a.f_->self, operation, a.dim_, b.dim_)};
  }
  const lathe_plugin_dims* f_ = nullptr;
  const lathe_plugin_dim* dim_ = nullptr;
};

struct PluginShape {
  int type = 0;  // ONNX's number; 0: an absent input
  std::vector<PluginDim> dims;
};

class Plugin {
 public:
  virtual ~Plugin() = default;

  class Inference {
   public:
    Inference(const lathe_plugin_shape* inputs, size_t input_count, lathe_plugin_shape* outputs,
              size_t output_count, const lathe_plugin_dims* functions)
        : inputs_(inputs, input_count), outputs_(outputs, output_count), f_(functions) {}
    size_t input_count() const { return inputs_.size(); }
    size_t output_count() const { return outputs_.size(); }
    PluginShape input(size_t i) const {
      if (i >= inputs_.size()) throw std::invalid_argument("input " + std::to_string(i) + " is missing");
      PluginShape shape{inputs_[i].type, {}};
      for (size_t d = 0; d < inputs_[i].rank; ++d) shape.dims.emplace_back(f_, inputs_[i].dims[d]);
      return shape;
    }
    // The elements of a small integer input, where they are known; else empty.
    std::vector<PluginDim> contents(size_t i) const {
      std::vector<PluginDim> dims;
      for (size_t k = 0; i < inputs_.size() && k < inputs_[i].content_count; ++k)
        dims.emplace_back(f_, inputs_[i].contents[k]);
      return dims;
    }
    PluginDim constant(int64_t value) const { return {f_, f_->constant(f_->self, value)}; }
    // Known after run(), at most `upper`.
    PluginDim data_dependent(const PluginDim& upper) const {
      return {f_, f_->data_dependent(f_->self, upper.handle())};
    }
    void set_output(size_t i, const PluginShape& shape) {
      if (i >= outputs_.size())
        throw std::invalid_argument("output " + std::to_string(i) + " is set, but not there");
      if (shape.dims.size() > LATHE_PLUGIN_MAX_RANK)
        throw std::invalid_argument("an output has too many dims");
      outputs_[i].type = shape.type;
      outputs_[i].rank = shape.dims.size();
      for (size_t d = 0; d < shape.dims.size(); ++d) outputs_[i].dims[d] = shape.dims[d].handle();
    }

   private:
    std::span<const lathe_plugin_shape> inputs_;
    std::span<lathe_plugin_shape> outputs_;
    const lathe_plugin_dims* f_;
  };

  // Operands without data.
  struct Layout {
    std::span<const lathe_plugin_tensor> inputs, outputs;
  };
  struct Run {
    explicit Run(const lathe_plugin_call& call)
        : inputs(call.inputs, call.input_count),
          outputs(call.outputs, call.output_count),
          workspace(call.workspace),
          begin(call.begin),
          end(call.end),
          stream(call.stream),
          tactic(call.tactic) {}
    template <class T>
    const T* input(size_t i) const {
      return static_cast<const T*>(inputs[i].data);
    }
    template <class T>
    T* output(size_t i) const {
      return static_cast<T*>(outputs[i].data);
    }
    static int64_t elements(const lathe_plugin_tensor& t) {
      int64_t count = 1;
      for (size_t d = 0; d < t.rank; ++d) count *= t.dims[d];
      return count;
    }
    std::span<const lathe_plugin_tensor> inputs;
    std::span<lathe_plugin_tensor> outputs;
    void* workspace;
    int64_t begin, end;  // work items (CPU)
    void* stream;        // of CUDA
    int64_t tactic;      // one of tactics(); 0: there are none, or nobody chose
  };
  // Operands at the smallest, tuned-for and largest extents.
  struct Ranges {
    std::span<const lathe_plugin_range> inputs, outputs;
  };

  // Sets type and shape of each output. Throws for inputs that it does not take.
  virtual void infer(Inference& node) = 0;
  // All other questions are asked of types and shapes that infer() took.
  virtual bool supports(int /*device*/, const Layout& layout) const {
    for (const auto* side : {&layout.inputs, &layout.outputs})
      for (const lathe_plugin_tensor& t : *side)
        if (t.format != LATHE_PLUGIN_LINEAR) return false;
    return true;
  }
  virtual int64_t workspace_bytes(int /*device*/, const Layout&) const { return 0; }
  virtual int64_t work_items(const Layout&) const { return 1; }
  // An instance for one use: a layer of one context at the shapes that it has prepared, or the tuner's timing
  // of one tactic. It may keep state from run to run. Null: all uses share this one.
  virtual std::unique_ptr<Plugin> attach() const { return nullptr; }
  // Tells a use the range of each operand.
  virtual void configure(int /*device*/, const Ranges&) {}
  // Ways to compute these operands, each a number above 0. Each is timed; Run::tactic is the one that was
  // chosen. None: there is one way.
  virtual std::vector<int64_t> tactics(int /*device*/, const Layout&) const { return {}; }
  // What decides the time of a run besides types and extents, for timing caches. nullopt: all attributes.
  virtual std::optional<std::string> timing_key() const { return std::nullopt; }
  virtual void run_cpu(const Run&) const { throw std::logic_error("it has no code for CPUs"); }
  virtual void run_cuda(const Run&) const { throw std::logic_error("it has no code for CUDA"); }
};

// A plugin says where it runs: static constexpr bool kCpu = true, kCuda = false; defaults as here.
namespace plugin_detail {

template <class P>
constexpr bool runs_on_cpu() {
  if constexpr (requires { P::kCpu; }) return P::kCpu;
  return true;
}
template <class P>
constexpr bool runs_on_cuda() {
  if constexpr (requires { P::kCuda; }) return P::kCuda;
  return false;
}

template <class F>
int guard(lathe_plugin_error* error, F&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(error->text, sizeof error->text, "%s", e.what());
  } catch (...) {
    std::snprintf(error->text, sizeof error->text, "an exception of an unknown type");
  }
  return 1;
}

inline Plugin::Layout layout(const lathe_plugin_tensor* in, size_t ins, const lathe_plugin_tensor* out,
                             size_t outs) {
  return {{in, ins}, {out, outs}};
}
// What cannot say why answers `otherwise`.
template <class T, class F>
T answer(T otherwise, F&& body) {
  try {
    return body();
  } catch (...) {
    return otherwise;
  }
}

template <class P>
const lathe_plugin_operator* describe() {
  static const lathe_plugin_operator op = [] {
    lathe_plugin_operator o{};
    o.struct_size = sizeof o;
    o.name = P::kName;
    o.version = P::kVersion;
    o.name_space = P::kNamespace;
    o.create = [](const lathe_plugin_operator*, const lathe_plugin_field* fields, size_t count,
                  void** instance, lathe_plugin_error* error) {
      return guard(error, [&] { *instance = static_cast<Plugin*>(new P(PluginFields(fields, count))); });
    };
    o.destroy = [](void* p) { delete static_cast<Plugin*>(p); };
    o.infer = [](void* p, const lathe_plugin_shape* in, size_t ins, lathe_plugin_shape* out, size_t outs,
                 const lathe_plugin_dims* dims, lathe_plugin_error* error) {
      return guard(error, [&] {
        Plugin::Inference inference(in, ins, out, outs, dims);
        static_cast<Plugin*>(p)->infer(inference);
      });
    };
    o.supports = [](void* p, int device, const lathe_plugin_tensor* in, size_t ins,
                    const lathe_plugin_tensor* out, size_t outs) {
      return answer(
          0, [&] { return static_cast<Plugin*>(p)->supports(device, layout(in, ins, out, outs)) ? 1 : 0; });
    };
    o.workspace_bytes = [](void* p, int device, const lathe_plugin_tensor* in, size_t ins,
                           const lathe_plugin_tensor* out, size_t outs) {
      return answer<int64_t>(
          -1, [&] { return static_cast<Plugin*>(p)->workspace_bytes(device, layout(in, ins, out, outs)); });
    };
    o.work_items = [](void* p, const lathe_plugin_tensor* in, size_t ins, const lathe_plugin_tensor* out,
                      size_t outs) {
      return answer<int64_t>(-1,
                             [&] { return static_cast<Plugin*>(p)->work_items(layout(in, ins, out, outs)); });
    };
    o.attach = [](void* p, void** own, lathe_plugin_error* error) {
      return guard(error, [&] { *own = static_cast<Plugin*>(p)->attach().release(); });
    };
    o.configure = [](void* p, int device, const lathe_plugin_range* in, size_t ins,
                     const lathe_plugin_range* out, size_t outs, lathe_plugin_error* error) {
      return guard(error, [&] { static_cast<Plugin*>(p)->configure(device, {{in, ins}, {out, outs}}); });
    };
    o.tactics = [](void* p, int device, const lathe_plugin_tensor* in, size_t ins,
                   const lathe_plugin_tensor* out, size_t outs, int64_t* tactics, size_t room) {
      return answer<size_t>(0, [&] {
        const auto all = static_cast<Plugin*>(p)->tactics(device, layout(in, ins, out, outs));
        for (size_t i = 0; i < all.size() && i < room; ++i) tactics[i] = all[i];
        return all.size();
      });
    };
    o.timing_key = [](void* p, void (*set)(void*, const char*), void* sink) {
      answer(0, [&] {
        if (const auto key = static_cast<Plugin*>(p)->timing_key()) set(sink, key->c_str());
        return 0;
      });
    };
    if (runs_on_cpu<P>())
      o.run_cpu = [](void* p, const lathe_plugin_call* call, lathe_plugin_error* error) {
        return guard(error, [&] { static_cast<Plugin*>(p)->run_cpu(Plugin::Run(*call)); });
      };
    if (runs_on_cuda<P>())
      o.run_cuda = [](void* p, const lathe_plugin_call* call, lathe_plugin_error* error) {
        return guard(error, [&] { static_cast<Plugin*>(p)->run_cuda(Plugin::Run(*call)); });
      };
    return o;
  }();
  return &op;
}

}  // namespace plugin_detail

// What lathe_plugin_library() returns for a library of these plugins.
template <class... Plugins>
const lathe_plugin_library_info* plugin_library(uint32_t host_abi_version) {
  static const lathe_plugin_operator* const operators[] = {plugin_detail::describe<Plugins>()...};
  static const lathe_plugin_library_info info = {sizeof info, LATHE_PLUGIN_ABI_VERSION, sizeof...(Plugins),
                                                 operators};
  return host_abi_version == LATHE_PLUGIN_ABI_VERSION ? &info : nullptr;
}

// The operator of one plugin, for PluginRegistry::add().
template <class P>
const lathe_plugin_operator& plugin_operator() {
  return *plugin_detail::describe<P>();
}

}  // namespace lathe::v1
