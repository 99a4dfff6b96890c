// SPDX-License-Identifier: Apache-2.0
//
// A model file is a list of pieces: bytes copied from the recipe, and weights that are drawn while they are
// written (GPT-2 has 650 MB). The graph comes last, so that everything before it has a known length. Each
// drawn tensor starts at a multiple of 64 bytes in the file (its doc_string is filled with blanks to get
// there): a reader that maps the file can use the weights in place.
#include "onnx/zoo.h"

#include <zlib.h>

#include <map>

#include "base/error.h"
#include "base/json.h"
#include "ir/dtype.h"
#include "onnx/embedded_recipes.h"
#include "onnx/model.h"
#include "onnx/random_weights.h"
#include "onnx/wire.h"

namespace lathe {

namespace {

using namespace onnx;

constexpr int64_t kAlignment = 64;
constexpr std::string_view kRecipesKey = "skeleton.recipes";
constexpr std::string_view kDescriptionKey = "description";
// Field numbers of onnx.proto.
constexpr uint32_t kModelGraph = 7, kModelMetadata = 14, kGraphInitializer = 5;
constexpr uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRawData = 9, kTensorDoc = 12;

struct Weights {
  WeightRecipe recipe;
  uint64_t seed = 0;
  int64_t elements = 0;
};

struct Piece {
  std::string bytes;
  std::optional<Weights> weights;  // after the bytes
};

struct Layout {
  std::vector<Piece> pieces;
  int64_t bytes = 0;
};

using RecipeTable = std::map<std::string, WeightRecipe, std::less<>>;

const EmbeddedRecipe& find_recipe(std::string_view name) {
  std::string names;
  for (const EmbeddedRecipe& r : embedded_recipes()) {
    if (r.name == name) return r;
    names += (names.empty() ? "" : ", ") + std::string(r.name);
  }
  throw_input_error("there is no recipe '" + std::string(name) + "' in the zoo; there are: " + names);
}

RecipeTable read_recipe_table(const ModelProto& model, std::string_view name) {
  RecipeTable table;
  for (const auto& [key, text] : model.metadata) {
    if (key != kRecipesKey) continue;
    const Json json = parse_json(text, name);
    for (const auto& [tensor, r] : json.items()) {
      table[tensor] = {.dtype = dtype_from_onnx(r["dtype"].get<int32_t>(), tensor),
                       .dims = r["dims"].get<std::vector<int64_t>>(),
                       .mean = r["mean"].get<double>(),
                       .std = r["std"].get<double>(),
                       .min = r["min"].get<double>(),
                       .max = r["max"].get<double>(),
                       .integer = r["integer"].get<bool>()};
    }
  }
  return table;
}

// The field that the reader stands at, as it was.
void copy_recipe_field(WireReader& r, std::string& out) {
  switch (r.type()) {
    case WireType::Varint:
      put_int(out, r.field(), r.int64());
      break;
    case WireType::Bytes:
      put_bytes(out, r.field(), r.string());
      break;
    default:
      r.fail("a field that recipes do not use");
  }
}

std::string_view tensor_name(std::span<const std::byte> bytes) {
  return parse_tensor(bytes).name;
}

// Lays out one graph. `position` is the place in the file of the next byte; pieces grow by what is written.
class GraphLayout {
 public:
  GraphLayout(Layout& layout, int64_t begin) : layout_(layout), position_(begin) {}

  void add(std::string_view bytes) {
    if (layout_.pieces.empty() || layout_.pieces.back().weights) layout_.pieces.emplace_back();
    layout_.pieces.back().bytes += bytes;
    position_ += static_cast<int64_t>(bytes.size());
  }

  void add_weights(std::string_view name, const WeightRecipe& recipe) {
    const int64_t elements = element_count(Extents(recipe.dims));
    const int64_t bytes = dtype_bytes(recipe.dtype, elements);
    std::string front;
    for (const int64_t d : recipe.dims) put_int(front, kTensorDims, d);
    put_int(front, kTensorType, static_cast<int64_t>(recipe.dtype));
    put_bytes(front, kTensorName, name);
    add(aligned_front(front, bytes));
    layout_.pieces.back().weights =
        Weights{recipe, crc32_z(0, reinterpret_cast<const Bytef*>(name.data()), name.size()), elements};
    position_ += bytes;
  }

  int64_t position() const { return position_; }

 private:
  // Key, length and all fields before the data, with so many blanks that the data is aligned.
  std::string aligned_front(const std::string& front, int64_t data_bytes) const {
    for (size_t blanks = 0;; ++blanks) {
      std::string body = front;
      put_bytes(body, kTensorDoc, std::string(blanks, ' '));
      put_key(body, kTensorRawData, WireType::Bytes);
      put_varint(body, static_cast<uint64_t>(data_bytes));
      std::string out;
      put_key(out, kGraphInitializer, WireType::Bytes);
      put_varint(out, body.size() + static_cast<uint64_t>(data_bytes));
      out += body;
      if ((position_ + static_cast<int64_t>(out.size())) % kAlignment == 0) return out;
      check(blanks < 2 * kAlignment, "no number of blanks aligns a tensor");
    }
  }

  Layout& layout_;
  int64_t position_;
};

int64_t lay_out_graph(std::span<const std::byte> graph, const RecipeTable& table, int64_t begin,
                      Layout& layout) {
  GraphLayout out(layout, begin);
  const WireLocation where{nullptr, "graph", -1, graph.data()};
  WireReader r(graph, where);
  while (r.next()) {
    std::string copy;
    if (r.field() != kGraphInitializer) {
      copy_recipe_field(r, copy);
    } else {
      const auto tensor = r.bytes();
      const std::string_view name = tensor_name(tensor);
      if (const auto it = table.find(name); it != table.end()) {
        out.add_weights(name, it->second);
        continue;
      }
      put_bytes(copy, kGraphInitializer, {reinterpret_cast<const char*>(tensor.data()), tensor.size()});
    }
    out.add(copy);
  }
  return out.position() - begin;
}

Layout lay_out(const EmbeddedRecipe& recipe) {
  const ModelProto model = parse_model(recipe.bytes);
  const RecipeTable table = read_recipe_table(model, recipe.name);
  std::string header;
  std::span<const std::byte> graph;
  const WireLocation where{nullptr, "", -1, recipe.bytes.data()};
  WireReader r(recipe.bytes, where);
  while (r.next()) {
    if (r.field() == kModelGraph) {
      graph = r.bytes();
    } else if (r.field() == kModelMetadata) {
      const std::string_view entry = r.string();
      if (entry.find(kRecipesKey) == std::string_view::npos) put_bytes(header, kModelMetadata, entry);
    } else {
      copy_recipe_field(r, header);
    }
  }
  put_key(header, kModelGraph, WireType::Bytes);
  // The graph's length decides how many bytes its length takes, and where the graph begins decides the blanks
  // in it.
  for (int length_bytes = 1;; ++length_bytes) {
    check(length_bytes <= 10, "the length of the graph does not settle");
    Layout layout;
    layout.pieces.emplace_back();
    const int64_t begin = static_cast<int64_t>(header.size()) + length_bytes;
    const int64_t size = lay_out_graph(graph, table, begin, layout);
    if (varint_size(static_cast<uint64_t>(size)) != length_bytes) continue;
    std::string front = header;
    put_varint(front, static_cast<uint64_t>(size));
    layout.pieces.front().bytes.insert(0, front);
    layout.bytes = begin + size;
    return layout;
  }
}

void write_layout(const Layout& layout, FileWriter& out) {
  constexpr int64_t kElements = 1 << 18;  // at a time
  for (const Piece& piece : layout.pieces) {
    out.write(std::string_view(piece.bytes));
    if (!piece.weights) continue;
    const Weights& w = *piece.weights;
    for (int64_t begin = 0; begin < w.elements; begin += kElements) {
      out.write(
          std::string_view(draw_weights(w.recipe, w.seed, begin, std::min(kElements, w.elements - begin))));
    }
  }
}

std::string describe(const ValueInfo& v) {
  std::string text =
      std::string(v.name) + " " + std::string(dtype_name(dtype_from_onnx(v.type.elem_type, v.name))) + "[";
  if (v.type.shape) {
    for (size_t i = 0; i < v.type.shape->size(); ++i) {
      const Dimension& d = (*v.type.shape)[i];
      text += (i ? ", " : "") + (d.value           ? std::to_string(*d.value)
                                 : d.param.empty() ? "?"
                                                   : std::string(d.param));
    }
  }
  return text + "]";
}

}  // namespace

std::vector<ModelRecipe> list_recipes() {
  std::vector<ModelRecipe> recipes;
  for (const EmbeddedRecipe& embedded : embedded_recipes()) {
    const ModelProto model = parse_model(embedded.bytes);
    ModelRecipe recipe;
    recipe.name = embedded.name;
    for (const auto& [key, value] : model.metadata) {
      if (key == kDescriptionKey) recipe.description = value;
    }
    for (const ValueInfo& v : model.graph.inputs) recipe.inputs.push_back(describe(v));
    for (const ValueInfo& v : model.graph.outputs) recipe.outputs.push_back(describe(v));
    const Layout layout = lay_out(embedded);
    for (const Piece& piece : layout.pieces) {
      if (piece.weights) recipe.parameters += piece.weights->elements;
    }
    recipe.bytes = layout.bytes;
    recipes.push_back(std::move(recipe));
  }
  return recipes;
}

void write_model(std::string_view recipe, FileWriter& out) {
  write_layout(lay_out(find_recipe(recipe)), out);
}

void write_model(std::string_view recipe, const std::filesystem::path& path) {
  const Layout layout = lay_out(find_recipe(recipe));
  write_file_atomically(path, [&](FileWriter& out) { write_layout(layout, out); });
}

}  // namespace lathe
