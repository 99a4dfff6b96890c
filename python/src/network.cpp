// SPDX-License-Identifier: Apache-2.0
//
// The network API: products, functions, reductions, and the network itself. Where C++ has two forms of an
// argument, numbers or a tensor, Python takes either; numbers and arrays become constants.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "network.h"

namespace lathe_python {
namespace {

api::DataType type_named(const std::string& name) {
  using T = api::DataType;
  for (const T type : {T::Float, T::UInt8, T::Int8, T::UInt16, T::Int16, T::Int32, T::Int64, T::Bool, T::Half,
                       T::Double, T::UInt32, T::UInt64, T::BFloat16, T::Float8E4M3FN, T::Float8E4M3FNUZ,
                       T::Float8E5M2, T::Float8E5M2FNUZ, T::UInt4, T::Int4})
    if (api::data_type_name(type) == name) return type;
  throw api::Error(api::ErrorKind::Input, {.what = "there is no such type",
                                           .where = "'" + name + "'",
                                           .hint = "numpy's names are known: float32, int64, ..."});
}

}  // namespace

// Element types by name, numpy's types and dtypes.
api::DataType type_from(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) return type_named(nb::cast<std::string>(object));
  return type_named(nb::cast<std::string>(nb::module_::import_("numpy").attr("dtype")(object).attr("name")));
}

namespace {

// A reference that any thread may drop.
std::shared_ptr<const void> keep(const Array& array) {
  return std::shared_ptr<const void>(new Array(array), [](const void* p) {
    const nb::gil_scoped_acquire acquire;
    delete static_cast<const Array*>(p);
  });
}

Tensor constant(Builder& b, nb::handle values, const nb::object& type, const std::string& name) {
  nb::object given = nb::borrow(values);
  const nb::object numpy = nb::module_::import_("numpy");
  if (!type.is_none())
    given = numpy.attr("asarray")(given, nb::str(std::string(api::data_type_name(type_from(type))).c_str()));
  const bool is_float = nb::isinstance<nb::float_>(values);
  const Array array =
      to_array(given, {.name = name, .type = is_float ? api::DataType::Float : api::DataType::Int64});
  return b.constant(type_of(array.dtype(), name), dims_of(array), array.data(), keep(array), name);
}

}  // namespace

// A tensor of the network, or what becomes a constant of it. `like`: the type of numbers that say none.
Tensor tensor_from(Builder& b, nb::handle object, std::optional<api::DataType> like) {
  if (object.is_none()) return {};
  if (nb::isinstance<Tensor>(object)) return nb::cast<Tensor>(object);
  const bool number = nb::isinstance<nb::float_>(object) || nb::isinstance<nb::int_>(object);
  const bool integer = nb::isinstance<nb::int_>(object);
  if (number)
    return b.scalar(nb::cast<double>(object),
                    like.value_or(integer ? api::DataType::Int64 : api::DataType::Float));
  return constant(b, object, nb::none(), "");
}

api::NetworkTensors tensors_from(Builder& b, nb::handle list) {
  api::NetworkTensors tensors;
  for (const nb::handle item : list) tensors.push_back(tensor_from(b, item));
  return tensors;
}

namespace {

template <class T>
bool all_are(const nb::sequence& list) {
  for (const nb::handle item : list)
    if (!nb::isinstance<T>(item)) return false;
  return true;
}

api::Attribute attribute_from(const std::string& key, nb::handle value) {
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::sequence>(value) && !nb::hasattr(value, "__array_interface__")) {
    const auto list = nb::cast<nb::sequence>(value);
    if (all_are<nb::int_>(list)) return nb::cast<Dims>(value);
    if (all_are<nb::str>(list)) return nb::cast<std::vector<std::string>>(value);
    return nb::cast<std::vector<double>>(value);
  }
  const Array array = to_array(value, {.name = key});
  api::HostTensor tensor(type_of(array.dtype(), key), dims_of(array));
  const auto* bytes = static_cast<const std::byte*>(array.data());
  tensor.bytes.assign(bytes, bytes + array.nbytes());
  return tensor;
}

api::Attributes attributes_from(const nb::kwargs& kwargs) {
  api::Attributes attributes;
  for (const auto& [key, value] : kwargs)
    if (!value.is_none()) {
      const auto name = nb::cast<std::string>(key);
      attributes[name] = attribute_from(name, value);
    }
  return attributes;
}

// Members of an enum as Python's ReLU-like names: LeakyRelu -> LEAKY_RELU.
template <class Enum>
void bind_enum(nb::module_& m, const char* name, const char* doc, std::initializer_list<const char*> names) {
  nb::enum_<Enum> type(m, name, doc);
  int value = 0;
  for (const char* n : names) type.value(n, static_cast<Enum>(value++));
}

void bind_enums(nb::module_& m) {
  bind_enum<api::Activation>(
      m, "Activation", "Functions of one number.",
      {"RELU", "SIGMOID", "TANH", "LEAKY_RELU", "ELU", "SELU", "SOFTSIGN", "SOFTPLUS", "CLIP", "HARD_SIGMOID",
       "SCALED_TANH", "THRESHOLDED_RELU", "GELU_ERF", "GELU_TANH", "SILU", "HARD_SWISH", "MISH", "CELU"});
  bind_enum<api::Unary>(
      m, "Unary", "Functions of one number.",
      {"EXP",   "LOG",  "SQRT", "RECIPROCAL", "ABS",   "NEG",   "SIN",   "COS",        "TAN",
       "SINH",  "COSH", "ASIN", "ACOS",       "ATAN",  "ASINH", "ACOSH", "ATANH",      "CEIL",
       "FLOOR", "ERF",  "NOT",  "SIGN",       "ROUND", "ISINF", "ISNAN", "BITWISE_NOT"});
  bind_enum<api::Elementwise>(m, "Elementwise", "Functions of two numbers.",
                              {"SUM",           "PROD",  "MAX",         "MIN",        "SUB",
                               "DIV",           "POW",   "FLOOR_DIV",   "AND",        "OR",
                               "XOR",           "EQUAL", "GREATER",     "LESS",       "GREATER_OR_EQUAL",
                               "LESS_OR_EQUAL", "MOD",   "BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"});
  bind_enum<api::Reduction>(
      m, "Reduction", "What a reduction computes.",
      {"SUM", "PROD", "MAX", "MIN", "MEAN", "L1", "L2", "LOG_SUM", "LOG_SUM_EXP", "SUM_SQUARE"});
  bind_enum<api::Pooling>(m, "Pooling", "What a window becomes.", {"MAX", "AVERAGE", "LP"});
  bind_enum<api::AutoPadding>(m, "AutoPadding", "Pads that are found.", {"NONE", "SAME_UPPER", "SAME_LOWER"});
  bind_enum<api::Padding>(m, "Padding", "What lies outside.", {"CONSTANT", "REFLECT", "EDGE", "WRAP"});
  bind_enum<api::Interpolation>(m, "Interpolation", "Between elements.", {"NEAREST", "LINEAR", "CUBIC"});
  bind_enum<api::ScatterMode>(m, "ScatterMode", "What an update does.",
                              {"REPLACE", "ADD", "MULTIPLY", "MIN", "MAX"});
}

api::ConvolutionOptions convolution_options(const Dims& strides, const Dims& dilations,
                                            const Dims& pads_begin, const Dims& pads_end,
                                            api::AutoPadding auto_padding, int64_t groups,
                                            const Dims& output_padding) {
  return {strides,      dilations, pads_begin,    pads_end.empty() ? pads_begin : pads_end,
          auto_padding, groups,    output_padding};
}

void bind_pointwise(nb::class_<Builder>& c) {
  c.def("activation", &Builder::activation, nb::arg("kind"), nb::arg("x"), nb::arg("alpha") = nb::none(),
        nb::arg("beta") = nb::none(), nb::arg(kName) = "",
        "alpha and beta are ONNX's, with its defaults. CLIP: between alpha and beta; SCALED_TANH: alpha * "
        "tanh(beta * x).");
  c.def("unary", &Builder::unary, nb::arg("kind"), nb::arg("x"), nb::arg(kName) = "");
  c.def(
      "elementwise",
      [](Builder& b, api::Elementwise kind, nb::handle x, nb::handle y, const std::string& name) {
        const bool first = nb::isinstance<Tensor>(x);
        const Tensor tensor = first ? nb::cast<Tensor>(x) : tensor_from(b, y);
        return b.elementwise(kind, tensor_from(b, x, tensor.type()), tensor_from(b, y, tensor.type()), name);
      },
      nb::arg("kind"), nb::arg("a"), nb::arg("b"), nb::arg(kName) = "",
      "Shapes broadcast as numpy's; one may be a number.");
  c.def(
      "select",
      [](Builder& b, const Tensor& condition, nb::handle x, nb::handle y, const std::string& name) {
        const auto like = nb::isinstance<Tensor>(x) ? nb::cast<Tensor>(x).type() : tensor_from(b, y).type();
        return b.select(condition, tensor_from(b, x, like), tensor_from(b, y, like), name);
      },
      nb::arg("condition"), nb::arg("then"), nb::arg("otherwise"), nb::arg(kName) = "");
  c.def(
      "parametric_relu",
      [](Builder& b, const Tensor& x, nb::handle slope, const std::string& name) {
        return b.parametric_relu(x, tensor_from(b, slope, x.type()), name);
      },
      nb::arg("x"), nb::arg("slope"), nb::arg(kName) = "");
  c.def(
      "scale",
      [](Builder& b, const Tensor& x, nb::handle scale, nb::handle shift, nb::handle power, int64_t axis,
         const std::string& name) {
        const auto of = [&](nb::handle h) { return tensor_from(b, h, x.type()); };
        return b.scale(x, of(scale), of(shift), of(power), axis, name);
      },
      nb::arg("x"), nb::arg("scale").none(), nb::arg("shift") = nb::none(), nb::arg("power") = nb::none(),
      nb::arg("axis") = 1, nb::arg(kName) = "",
      "(x * scale + shift) ** power; tensors of one dim lie along `axis`.");
  c.def(
      "cast",
      [](Builder& b, const Tensor& x, nb::handle type, const std::string& name) {
        return b.cast(x, type_from(type), name);
      },
      nb::arg("x"), nb::arg("dtype"), nb::arg(kName) = "");
  c.def("identity", &Builder::identity, nb::arg("x"), nb::arg(kName) = "");
}

template <auto Call>
void bind_convolution(nb::class_<Builder>& c, const char* name, const char* doc) {
  c.def(
      name,
      [](Builder& b, const Tensor& x, nb::handle weights, nb::handle bias, const Dims& strides,
         const Dims& dilations, const Dims& pads_begin, const Dims& pads_end, api::AutoPadding auto_padding,
         int64_t groups, const Dims& output_padding, const std::string& layer) {
        return (b.*Call)(x, tensor_from(b, weights), tensor_from(b, bias),
                         convolution_options(strides, dilations, pads_begin, pads_end, auto_padding, groups,
                                             output_padding),
                         layer);
      },
      nb::arg("x"), nb::arg("weights"), nb::arg("bias") = nb::none(), nb::arg("strides") = Dims(),
      nb::arg("dilations") = Dims(), nb::arg("pads_begin") = Dims(), nb::arg("pads_end") = Dims(),
      nb::arg("auto_padding") = api::AutoPadding::None, nb::arg("groups") = 1,
      nb::arg("output_padding") = Dims(), nb::arg(kName) = "", doc);
}

void bind_products(nb::class_<Builder>& c) {
  bind_convolution<&Builder::convolution>(c, "convolution",
                                          "x (N, C, spatial...), weights (M, C/groups, kernel...), bias (M). "
                                          "pads_end: as pads_begin without it.");
  bind_convolution<&Builder::deconvolution>(c, "deconvolution", "weights (C, M/groups, kernel...).");
  c.def(
      "matrix_multiply",
      [](Builder& b, nb::handle x, nb::handle y, bool transpose_a, bool transpose_b,
         const std::string& name) {
        return b.matrix_multiply(tensor_from(b, x), tensor_from(b, y), transpose_a, transpose_b, name);
      },
      nb::arg("a"), nb::arg("b"), nb::arg("transpose_a") = false, nb::arg("transpose_b") = false,
      nb::arg(kName) = "");
  c.def(
      "einsum",
      [](Builder& b, const std::string& equation, nb::handle inputs, const std::string& name) {
        return b.einsum(equation, tensors_from(b, inputs), name);
      },
      nb::arg("equation"), nb::arg("inputs"), nb::arg(kName) = "");
  c.def(
      "attention",
      [](Builder& b, const Tensor& q, const Tensor& k, const Tensor& v, nb::handle mask, bool causal,
         std::optional<double> scale,
         const std::string& name) { return b.attention(q, k, v, tensor_from(b, mask), causal, scale, name); },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("mask") = nb::none(), nb::arg("causal") = false,
      nb::arg("scale") = nb::none(), nb::arg(kName) = "",
      "q (B, H, Sq, D), k (B, H, Sk, D), v (B, H, Sk, Dv); mask bool (True keeps) or float (added).");
  c.def(
      "rotary_embedding",
      [](Builder& b, const Tensor& x, nb::handle cos, nb::handle sin, nb::handle positions, bool interleaved,
         int64_t dim, const std::string& name) {
        return b.rotary_embedding(x, tensor_from(b, cos), tensor_from(b, sin), tensor_from(b, positions),
                                  interleaved, dim, name);
      },
      nb::arg("x"), nb::arg("cos_cache"), nb::arg("sin_cache"), nb::arg("position_ids") = nb::none(),
      nb::arg("interleaved") = false, nb::arg("rotary_dim") = 0, nb::arg(kName) = "");
  c.def("kv_cache_update", &Builder::kv_cache_update, nb::arg("cache"), nb::arg("update"),
        nb::arg("write_indices"), nb::arg(kName) = "");
  const auto quantization = [&](const char* name, auto call, const char* doc) {
    c.def(name, call, nb::arg("x"), nb::arg("scale"), nb::arg("zero_point") = nb::none(),
          nb::arg("dtype") = "int8", nb::arg("axis") = 1, nb::arg("block") = 0, nb::arg(kName) = "", doc);
  };
  quantization(
      "quantize",
      [](Builder& b, const Tensor& x, nb::handle scale, nb::handle zero, nb::handle type, int64_t axis,
         int64_t block, const std::string& name) {
        return b.quantize(x, tensor_from(b, scale, x.type()), tensor_from(b, zero, type_from(type)),
                          type_from(type), axis, block, name);
      },
      "axis: of scales of one dim; block: elements of it that share a scale.");
  c.def(
      "dequantize",
      [](Builder& b, const Tensor& x, nb::handle scale, nb::handle zero, int64_t axis, int64_t block,
         const std::string& name) {
        return b.dequantize(x, tensor_from(b, scale), tensor_from(b, zero, x.type()), axis, block, name);
      },
      nb::arg("x"), nb::arg("scale"), nb::arg("zero_point") = nb::none(), nb::arg("axis") = 1,
      nb::arg("block") = 0, nb::arg(kName) = "");
}

void bind_reductions(nb::class_<Builder>& c) {
  c.def("reduce", &Builder::reduce, nb::arg("kind"), nb::arg("x"), nb::arg("axes") = Dims(),
        nb::arg("keep_dims") = true, nb::arg(kName) = "", "Without axes: all.");
  c.def("arg_max", &Builder::arg_max, nb::arg("x"), nb::arg("axis"), nb::arg("keep_dims") = true,
        nb::arg(kName) = "");
  c.def("arg_min", &Builder::arg_min, nb::arg("x"), nb::arg("axis"), nb::arg("keep_dims") = true,
        nb::arg(kName) = "");
  c.def(
      "top_k",
      [](Builder& b, const Tensor& x, nb::handle k, int64_t axis, bool largest, bool sorted,
         const std::string& name) {
        Tensor count = tensor_from(b, k);
        if (count.dims().empty()) count = b.reshape(count, Dims{1});
        return b.top_k(x, count, axis, largest, sorted, name);
      },
      nb::arg("x"), nb::arg("k"), nb::arg("axis") = -1, nb::arg("largest") = true, nb::arg("sorted") = true,
      nb::arg(kName) = "", "Values and int64 indices.");
  c.def("softmax", &Builder::softmax, nb::arg("x"), nb::arg("axis") = -1, nb::arg("logarithm") = false,
        nb::arg(kName) = "");
  c.def("ragged_softmax", &Builder::ragged_softmax, nb::arg("x"), nb::arg("lengths"), nb::arg(kName) = "");
  c.def(
      "layer_norm",
      [](Builder& b, const Tensor& x, nb::handle scale, nb::handle bias, int64_t axis, double epsilon,
         bool rms, const std::string& name) {
        return b.layer_norm(x, tensor_from(b, scale), tensor_from(b, bias), axis, epsilon, rms, name);
      },
      nb::arg("x"), nb::arg("scale"), nb::arg("bias") = nb::none(), nb::arg("axis") = -1,
      nb::arg("epsilon") = 1e-5, nb::arg("rms") = false, nb::arg(kName) = "");
  c.def(
      "group_norm",
      [](Builder& b, const Tensor& x, nb::handle scale, nb::handle bias, int64_t groups, double epsilon,
         const std::string& name) {
        return b.group_norm(x, tensor_from(b, scale), tensor_from(b, bias), groups, epsilon, name);
      },
      nb::arg("x"), nb::arg("scale"), nb::arg("bias"), nb::arg("groups") = 0, nb::arg("epsilon") = 1e-5,
      nb::arg(kName) = "", "scale and bias (C); groups 0: each channel.");
  c.def(
      "batch_norm",
      [](Builder& b, const Tensor& x, nb::handle scale, nb::handle bias, nb::handle mean, nb::handle variance,
         double epsilon, const std::string& name) {
        const auto of = [&](nb::handle h) { return tensor_from(b, h); };
        return b.batch_norm(x, of(scale), of(bias), of(mean), of(variance), epsilon, name);
      },
      nb::arg("x"), nb::arg("scale"), nb::arg("bias"), nb::arg("mean"), nb::arg("variance"),
      nb::arg("epsilon") = 1e-5, nb::arg(kName) = "");
  c.def("lrn", &Builder::lrn, nb::arg("x"), nb::arg("size"), nb::arg("alpha") = 1e-4, nb::arg("beta") = 0.75,
        nb::arg("bias") = 1, nb::arg(kName) = "");
  c.def(
      "pooling",
      [](Builder& b, api::Pooling kind, const Tensor& x, const Dims& window, const Dims& strides,
         const Dims& dilations, const Dims& pads_begin, const Dims& pads_end, api::AutoPadding auto_padding,
         bool round_up, bool count_padding, int64_t p, const std::string& name) {
        return b.pooling(kind, x, window,
                         {strides, dilations, pads_begin, pads_end.empty() ? pads_begin : pads_end,
                          auto_padding, round_up, count_padding, p},
                         name);
      },
      nb::arg("kind"), nb::arg("x"), nb::arg("window"), nb::arg("strides") = Dims(),
      nb::arg("dilations") = Dims(), nb::arg("pads_begin") = Dims(), nb::arg("pads_end") = Dims(),
      nb::arg("auto_padding") = api::AutoPadding::None, nb::arg("round_up") = false,
      nb::arg("count_padding") = false, nb::arg("p") = 2, nb::arg(kName) = "");
  c.def("cumulative", &Builder::cumulative, nb::arg("x"), nb::arg("axis"), nb::arg("exclusive") = false,
        nb::arg("reverse") = false, nb::arg("product") = false, nb::arg(kName) = "");
}

}  // namespace

void bind_network(nb::module_& m) {
  bind_enums(m);
  nb::class_<api::Network>(m, "Network", "A model: as it was imported, or made by NetworkBuilder.")
      .def_prop_ro("name", &api::Network::name)
      .def_prop_ro("inputs", &api::Network::inputs)
      .def_prop_ro("outputs", &api::Network::outputs)
      .def_prop_ro("layer_count", &api::Network::layer_count, "Operators before optimization.")
      .def_prop_ro(
          "layers",
          [](const api::Network& n) {
            nb::list rows;
            for (const api::NetworkLayer& layer : n.layers()) {
              nb::dict row;
              row["name"] = layer.name, row["op_type"] = layer.op_type;
              row["inputs"] = layer.inputs, row["outputs"] = layer.outputs;
              rows.append(row);
            }
            return rows;
          },
          "A dict for each operator before optimization: name, op_type, inputs, outputs (names of tensors, "
          "'' for an absent one).")
      .def("to_onnx", &api::Network::to_onnx, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
           "Writes an ONNX model. Weights go to a file beside it, path.data, where they pass 2 GB.")
      .def(
          "to_onnx_bytes",
          [](const api::Network& n) {
            const auto bytes = n.to_onnx_bytes();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The bytes of an ONNX model.");
  const auto shape = [](const Tensor& t) { return nb::tuple(nb::cast(t.dims())); };
  nb::class_<Tensor>(m, "NetworkTensor", "A tensor of a network that is being made.")
      .def_prop_ro("name", &Tensor::name)
      .def_prop_ro("dtype", [](const Tensor& t) { return std::string(api::data_type_name(t.type())); })
      .def_prop_ro("shape", shape, "-1 where a dim is dynamic.")
      .def_prop_ro("dim_names", &Tensor::dim_names)
      .def("__repr__", [](const Tensor& t) {
        std::string dims;
        for (const std::string& d : t.dim_names()) dims += (dims.empty() ? "" : ", ") + d;
        return "<" + t.name() + ": " + std::string(api::data_type_name(t.type())) + " [" + dims + "]>";
      });
  nb::class_<Builder> c(
      m, "NetworkBuilder",
      "Adds layers one by one. Each call checks types and shapes and raises InputError, naming the layer.");
  c.def(nb::init<const std::string&>(), nb::arg("name") = "network")
      .def(nb::init<const api::Network&>(), nb::arg("network"), "Goes on with a network.")
      .def(
          "input",
          [](Builder& b, const std::string& name, nb::handle type, const Dims& dims,
             const std::vector<std::string>& names) { return b.input(name, type_from(type), dims, names); },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"),
          nb::arg("dim_names") = std::vector<std::string>(),
          "Dims of -1 are dynamic; equal names mean equal extents.")
      .def(
          "constant",
          [](Builder& b, nb::handle values, const nb::object& type, const std::string& name) {
            return constant(b, values, type, name);
          },
          nb::arg("values"), nb::arg("dtype") = nb::none(), nb::arg(kName) = "",
          "By reference where the memory is contiguous: it must not change as long as a network or engine "
          "needs it.")
      .def("output", &Builder::output, nb::arg("tensor"), nb::arg(kName) = "")
      .def("set_input_shape", &Builder::set_input_shape, nb::arg("input"), nb::arg("shape"),
           "Dynamic dims get extents; -1 leaves one dynamic.")
      .def("cut_input", &Builder::cut_input, nb::arg("tensor"),
           "The tensor of this name becomes an input; finish() leaves out what computed it.")
      .def("rename", &Builder::rename, nb::arg("old"), nb::arg("new"), "A tensor, or else a layer.")
      .def("fold", &Builder::fold,
           "Computes what depends on constants alone; tensors that vanish by this must not be used any more.")
      .def("clear_outputs", &Builder::clear_outputs)
      .def("find", &Builder::find, nb::arg("name"))
      .def("replace", &Builder::replace, nb::arg("old"), nb::arg("new"), "All that reads `old` reads `new`.")
      .def("finish", &Builder::finish, "The network as it is now, without what no output needs.")
      .def(
          "use_plugins", [](Builder& b, const api::PluginRegistry& plugins) { b.use_plugins(plugins); },
          nb::arg("plugins"),
          "op() knows these custom operators, too, from now on. Builders need the same registry.")
      .def(
          "op",
          [](Builder& b, const std::string& type, nb::handle inputs, size_t outputs, const std::string& name,
             const nb::kwargs& attributes) -> nb::object {
            const auto results =
                b.op(type, tensors_from(b, inputs), attributes_from(attributes), outputs, name);
            return outputs == 1 ? nb::cast(results[0]) : nb::cast(results);
          },
          nb::arg("op_type"), nb::arg("inputs"), nb::arg("outputs") = 1, nb::arg(kName) = "",
          nb::arg("attributes"),
          "Any ONNX operator; its attributes are named arguments. A tensor, or a list where `outputs` is not "
          "1.");
  bind_pointwise(c);
  bind_products(c);
  bind_reductions(c);
  bind_shapes(c);
  bind_flow(c);
}

}  // namespace lathe_python
