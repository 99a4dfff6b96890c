// SPDX-License-Identifier: Apache-2.0
//
// One function per message of onnx.proto. Unknown fields are skipped (newer files stay readable); fields with
// the wrong wire type, lengths past the end and nesting beyond any honest model are errors that name the
// place.
#include "onnx/model.h"

#include <algorithm>

#include "base/error.h"
#include "onnx/wire.h"

namespace lathe::onnx {

namespace {

// Messages nest by subgraphs (graph > node > attribute > graph: three levels each) and by types. Real models
// stay below 20.
constexpr int kMaxDepth = 96;

template <class T>
using ReadFn = void (*)(WireReader&, T&);

template <class T>
void read_message(WireReader& parent, std::string_view field, int64_t index, T& out, ReadFn<T> read) {
  const WireLocation where{&parent.where(), field, index, parent.where().file_begin};
  if (where.depth() > kMaxDepth) parent.fail("messages are nested deeper than " + std::to_string(kMaxDepth));
  WireReader reader(parent.bytes(), where);
  read(reader, out);
}

template <class T>
void read_repeated(WireReader& parent, std::string_view field, std::vector<T>& out, ReadFn<T> read) {
  out.emplace_back();
  read_message(parent, field, static_cast<int64_t>(out.size()) - 1, out.back(), read);
}

using Entry = Entries::value_type;

void read_entry(WireReader& r, Entry& e) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        e.first = r.string();
        break;
      case 2:
        e.second = r.string();
        break;
      default:
        r.skip();
    }
  }
}

void read_tensor(WireReader& r, TensorProto& t) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        r.append(t.dims);
        break;
      case 2:
        t.data_type = static_cast<int32_t>(r.int64());
        break;
      case 3:
        r.fail("the tensor is stored in segments, which nothing supports");
      case 4:
        r.append(t.float_data);
        break;
      case 5:
        r.append(t.int32_data);
        break;
      case 6:
        t.string_data.push_back(r.string());
        break;
      case 7:
        r.append(t.int64_data);
        break;
      case 8:
        t.name = r.string();
        break;
      case 9:
        t.raw_data = r.bytes();
        break;
      case 10:
        r.append(t.double_data);
        break;
      case 11:
        r.append(t.uint64_data);
        break;
      case 13:
        read_repeated<Entry>(r, "external_data", t.external_data, read_entry);
        break;
      case 14:
        t.external = r.int64() == 1;
        break;
      default:
        r.skip();
    }
  }
}

void read_sparse_tensor(WireReader& r, SparseTensorProto& t) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        read_message(r, "values", -1, t.values, read_tensor);
        break;
      case 2:
        read_message(r, "indices", -1, t.indices, read_tensor);
        break;
      case 3:
        r.append(t.dims);
        break;
      default:
        r.skip();
    }
  }
}

void read_dimension(WireReader& r, Dimension& d) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        d.value = r.int64();
        break;
      case 2:
        d.param = r.string();
        break;
      default:
        r.skip();
    }
  }
}

void read_shape(WireReader& r, std::vector<Dimension>& shape) {
  while (r.next()) {
    if (r.field() == 1) {
      read_repeated<Dimension>(r, "dim", shape, read_dimension);
    } else {
      r.skip();
    }
  }
}

void read_tensor_type(WireReader& r, TypeProto& t) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        t.elem_type = static_cast<int32_t>(r.int64());
        break;
      case 2:
        read_message(r, "shape", -1, t.shape.emplace(), read_shape);
        break;
      default:
        r.skip();
    }
  }
}

void read_type(WireReader& r, TypeProto& t);

// TypeProto.Sequence and TypeProto.Optional, which are alike.
void read_element_type(WireReader& r, TypeProto& t) {
  while (r.next()) {
    if (r.field() != 1) {
      r.skip();
      continue;
    }
    t.element = std::make_shared<TypeProto>();
    read_message(r, "elem_type", -1, *t.element, read_type);
  }
}

void read_type(WireReader& r, TypeProto& t) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        t.kind = TypeProto::Kind::Tensor;
        read_message(r, "tensor_type", -1, t, read_tensor_type);
        break;
      case 4:
        t.kind = TypeProto::Kind::Sequence;
        read_message(r, "sequence_type", -1, t, read_element_type);
        break;
      case 9:
        t.kind = TypeProto::Kind::Optional;
        read_message(r, "optional_type", -1, t, read_element_type);
        break;
      case 5:
      case 8:
        t.kind = TypeProto::Kind::Other;
        r.skip();
        break;
      default:
        r.skip();
    }
  }
}

void read_value_info(WireReader& r, ValueInfo& v) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        v.name = r.string();
        break;
      case 2:
        read_message(r, "type", -1, v.type, read_type);
        break;
      default:
        r.skip();
    }
  }
}

void read_graph(WireReader& r, GraphProto& g);

// Files from before IR 2 leave `type` out; the field that is there says it.
void read_attribute(WireReader& r, AttributeProto& a) {
  using Type = AttributeProto::Type;
  Type seen = Type::Undefined;
  while (r.next()) {
    switch (r.field()) {
      case 1:
        a.name = r.string();
        break;
      case 2:
        a.f = r.float32();
        seen = Type::Float;
        break;
      case 3:
        a.i = r.int64();
        seen = Type::Int;
        break;
      case 4:
        a.s = r.string();
        seen = Type::String;
        break;
      case 5:
        a.t = std::make_shared<TensorProto>();
        read_message(r, "t", -1, *a.t, read_tensor);
        seen = Type::Tensor;
        break;
      case 6:
        a.g = std::make_shared<GraphProto>();
        read_message(r, "g", -1, *a.g, read_graph);
        seen = Type::Graph;
        break;
      case 7:
        r.append(a.floats);
        seen = Type::Floats;
        break;
      case 8:
        r.append(a.ints);
        seen = Type::Ints;
        break;
      case 9:
        a.strings.push_back(r.string());
        seen = Type::Strings;
        break;
      case 20:
        a.type = static_cast<Type>(r.int64());
        break;
      case 22:
        a.sparse = std::make_shared<SparseTensorProto>();
        read_message(r, "sparse_tensor", -1, *a.sparse, read_sparse_tensor);
        seen = Type::SparseTensor;
        break;
      case 21:
        a.ref_attr_name = r.string();
        break;
      default:
        r.skip();
    }
  }
  if (a.type == Type::Undefined) a.type = seen;
  if ((a.type == Type::Tensor && !a.t && a.ref_attr_name.empty()) ||
      (a.type == Type::SparseTensor && !a.sparse && a.ref_attr_name.empty()) ||
      (a.type == Type::Graph && !a.g && a.ref_attr_name.empty())) {
    r.fail("attribute '" + std::string(a.name) + "' has a type but no value");
  }
}

void read_node(WireReader& r, NodeProto& n) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        n.inputs.push_back(r.string());
        break;
      case 2:
        n.outputs.push_back(r.string());
        break;
      case 3:
        n.name = r.string();
        break;
      case 4:
        n.op_type = r.string();
        break;
      case 5:
        read_repeated<AttributeProto>(r, "attribute", n.attributes, read_attribute);
        break;
      case 7:
        n.domain = r.string();
        break;
      case 8:
        n.overload = r.string();
        break;
      default:
        r.skip();
    }
  }
  if (n.op_type.empty()) r.fail("a node without op_type");
}

void read_graph(WireReader& r, GraphProto& g) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        read_repeated<NodeProto>(r, "node", g.nodes, read_node);
        break;
      case 2:
        g.name = r.string();
        break;
      case 5:
        read_repeated<TensorProto>(r, "initializer", g.initializers, read_tensor);
        break;
      case 11:
        read_repeated<ValueInfo>(r, "input", g.inputs, read_value_info);
        break;
      case 12:
        read_repeated<ValueInfo>(r, "output", g.outputs, read_value_info);
        break;
      case 13:
        read_repeated<ValueInfo>(r, "value_info", g.value_info, read_value_info);
        break;
      case 15:
        read_repeated<SparseTensorProto>(r, "sparse_initializer", g.sparse_initializers, read_sparse_tensor);
        break;
      default:
        r.skip();
    }
  }
}

void read_opset(WireReader& r, OpsetId& o) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        o.domain = r.string();
        break;
      case 2:
        o.version = r.int64();
        break;
      default:
        r.skip();
    }
  }
}

void read_function(WireReader& r, FunctionProto& f) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        f.name = r.string();
        break;
      case 4:
        f.inputs.push_back(r.string());
        break;
      case 5:
        f.outputs.push_back(r.string());
        break;
      case 6:
        f.attributes.push_back(r.string());
        break;
      case 7:
        read_repeated<NodeProto>(r, "node", f.nodes, read_node);
        break;
      case 9:
        read_repeated<OpsetId>(r, "opset_import", f.opsets, read_opset);
        break;
      case 10:
        f.domain = r.string();
        break;
      case 11:
        read_repeated<AttributeProto>(r, "attribute_proto", f.attribute_defaults, read_attribute);
        break;
      case 13:
        f.overload = r.string();
        break;
      default:
        r.skip();
    }
  }
}

void read_model(WireReader& r, ModelProto& m, bool& has_graph) {
  while (r.next()) {
    switch (r.field()) {
      case 1:
        m.ir_version = r.int64();
        break;
      case 2:
        m.producer_name = r.string();
        break;
      case 3:
        m.producer_version = r.string();
        break;
      case 4:
        m.domain = r.string();
        break;
      case 5:
        m.model_version = r.int64();
        break;
      case 6:
        m.doc_string = r.string();
        break;
      case 7:
        if (has_graph) r.fail("a second graph");
        has_graph = true;
        read_message(r, "graph", -1, m.graph, read_graph);
        break;
      case 8:
        read_repeated<OpsetId>(r, "opset_import", m.opsets, read_opset);
        break;
      case 14:
        read_repeated<Entry>(r, "metadata_props", m.metadata, read_entry);
        break;
      case 25:
        read_repeated<FunctionProto>(r, "functions", m.functions, read_function);
        break;
      default:
        r.skip();
    }
  }
}

}  // namespace

const AttributeProto* find_attribute(const NodeProto& node, std::string_view name) {
  const auto it = std::ranges::find(node.attributes, name, &AttributeProto::name);
  return it == node.attributes.end() ? nullptr : &*it;
}

ModelProto parse_model(std::span<const std::byte> bytes) {
  const WireLocation root{nullptr, "", -1, bytes.data()};
  WireReader reader(bytes, root);
  ModelProto model;
  bool has_graph = false;
  if (bytes.empty()) reader.fail("it is empty");
  read_model(reader, model, has_graph);
  if (!has_graph) reader.fail("there is no graph");
  return model;
}

TensorProto parse_tensor(std::span<const std::byte> bytes) {
  const WireLocation root{nullptr, "", -1, bytes.data()};
  WireReader reader(bytes, root);
  TensorProto tensor;
  read_tensor(reader, tensor);
  return tensor;
}

std::string node_name(const NodeProto& node, std::map<std::string, int, std::less<>>& unnamed) {
  if (!node.name.empty()) return std::string(node.name);
  const std::string type(node.op_type);
  return type + "_" + std::to_string(unnamed[type]++);
}

}  // namespace lathe::onnx
