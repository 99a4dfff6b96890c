// SPDX-License-Identifier: Apache-2.0
//
// The SVG's layout: a layer's row is the length of the longest path to it, its place in the row the mean of
// the places of what it reads (one pass from top to bottom). Engines are long and narrow, so that this reads
// well; the report's page has the interactive graph.
#include "explorer/core/graph_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

constexpr int kWidth = 230, kHeight = 46, kGapX = 24, kGapY = 34, kMargin = 20;

struct Look {
  std::string_view type, fill;
};
// Colours of Okabe and Ito, lightened: they stay apart for colour-blind readers.
constexpr Look kLooks[] = {
    {"Convolution", "#9fd3f0"}, {"DepthwiseBlock", "#9fd3f0"}, {"MatrixMultiply", "#7fb8d9"},
    {"gemm", "#7fb8d9"},        {"FeedForward", "#7fb8d9"},    {"Attention", "#8fd1b8"},
    {"Pooling", "#cfe8a9"},     {"PointWise", "#f7ef9a"},      {"SoftMax", "#e6b8d0"},
    {"LayerNorm", "#e6b8d0"},   {"Reduce", "#cfe8a9"}};

std::string_view fill_of(const Layer& layer) {
  if (layer.is_overhead()) return "#f3b48a";
  for (const auto& look : kLooks) {
    if (layer.type == look.type) return look.fill;
  }
  return "#e4e4e4";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string dot_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

std::string facts(const Layer& layer) {
  std::string text = layer.type;
  if (!layer.precision.empty()) text += ", " + layer.precision;
  if (layer.time) text += ", " + ms_text(layer.time->average_ms);
  return text;
}

std::string edge_facts(const Tensor& tensor) {
  return fmt::format("{} [{}]", tensor.type, fmt::join(tensor.shape, ","));
}

struct Place {
  int row = 0;
  double x = 0;
};

std::vector<Place> place_layers(const EngineData& engine) {
  std::vector<Place> places(engine.layers.size());
  std::vector<std::vector<int>> before(engine.layers.size());
  for (const auto& edge : engine.edges) {
    if (edge.from && edge.to && *edge.from < *edge.to)
      before[static_cast<size_t>(*edge.to)].push_back(*edge.from);
  }
  std::map<int, std::vector<int>> rows;
  for (size_t i = 0; i < places.size(); ++i) {  // execution order: what is read is placed already
    for (const int from : before[i])
      places[i].row = std::max(places[i].row, places[static_cast<size_t>(from)].row + 1);
    rows[places[i].row].push_back(static_cast<int>(i));
  }
  for (auto& [row, members] : rows) {
    for (const int i : members) {
      double sum = 0;
      for (const int from : before[static_cast<size_t>(i)]) sum += places[static_cast<size_t>(from)].x;
      if (!before[static_cast<size_t>(i)].empty())
        places[static_cast<size_t>(i)].x = sum / static_cast<double>(before[static_cast<size_t>(i)].size());
    }
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      return places[static_cast<size_t>(a)].x < places[static_cast<size_t>(b)].x;
    });
    double next = -1e9;
    for (const int i : members) {
      double& x = places[static_cast<size_t>(i)].x;
      x = std::max(x, next);
      next = x + kWidth + kGapX;
    }
  }
  double left = 0;
  for (const auto& place : places) left = std::min(left, place.x);
  for (auto& place : places) place.x += kMargin - left;
  return places;
}

std::string edge_path(const Place& from, const Place& to) {
  const double x1 = from.x + kWidth / 2.0, y1 = kMargin + from.row * (kHeight + kGapY) + kHeight,
               x2 = to.x + kWidth / 2.0, y2 = kMargin + to.row * (kHeight + kGapY);
  if (to.row - from.row <= 1)
    return fmt::format("M{:.0f} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}", x1, y1, x1,
                       y1 + kGapY / 2.0, x2, y2 - kGapY / 2.0, x2, y2);
  // Around the rows between.
  const double side = std::max(from.x, to.x) + kWidth + kGapX / 2.0;
  return fmt::format(
      "M{:.0f} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}L{:.0f} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} "
      "{:.0f} {:.0f}",
      x1, y1, x1, y1 + kGapY, side, y1, side, y1 + kGapY, side, y2 - kGapY, side, y2, x2, y2 - kGapY, x2, y2);
}

}  // namespace

std::string graph_dot(const EngineData& engine) {
  std::string text =
      "digraph engine {\n  node [shape=box, style=\"filled,rounded\", fontname=Helvetica, fontsize=10];\n  "
      "edge [fontname=Helvetica, fontsize=8];\n";
  for (const auto& layer : engine.layers) {
    text += fmt::format("  l{} [label=\"{}\\n{}\", tooltip=\"{}\", fillcolor=\"{}\"];\n", layer.index,
                        dot_text(facts(layer)), dot_text(shorten(layer.name, 60)), dot_text(layer.name),
                        fill_of(layer));
  }
  for (size_t t = 0; t < engine.tensors.size(); ++t) {
    const auto& tensor = engine.tensors[t];
    if (tensor.role == "input" || tensor.role == "output")
      text += fmt::format("  t{} [label=\"{}\", shape=box, style=dashed];\n", t, dot_text(tensor.name));
  }
  for (const auto& edge : engine.edges) {
    const auto& tensor = engine.tensors[static_cast<size_t>(edge.tensor)];
    if (tensor.role == "weights") continue;
    const std::string from = edge.from ? fmt::format("l{}", *edge.from) : fmt::format("t{}", edge.tensor);
    const std::string to = edge.to ? fmt::format("l{}", *edge.to) : fmt::format("t{}", edge.tensor);
    text += fmt::format("  {} -> {} [label=\"{}\"];\n", from, to, dot_text(edge_facts(tensor)));
  }
  return text + "}\n";
}

std::string graph_svg(const EngineData& engine) {
  const auto places = place_layers(engine);
  double right = 0;
  int rows = 0;
  for (const auto& place : places) {
    right = std::max(right, place.x + kWidth);
    rows = std::max(rows, place.row + 1);
  }
  const double width = right + kMargin + kGapX, height = 2 * kMargin + rows * (kHeight + kGapY) - kGapY;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<g fill=\"none\" stroke=\"#707070\">\n",
      width, height, width, height);
  for (const auto& edge : engine.edges) {
    if (!edge.from || !edge.to) continue;
    const auto& tensor = engine.tensors[static_cast<size_t>(edge.tensor)];
    text +=
        fmt::format("<path d=\"{}\"><title>{} {}</title></path>\n",
                    edge_path(places[static_cast<size_t>(*edge.from)], places[static_cast<size_t>(*edge.to)]),
                    escaped(tensor.name), escaped(edge_facts(tensor)));
  }
  text += "</g>\n";
  for (const auto& layer : engine.layers) {
    const auto& place = places[static_cast<size_t>(layer.index)];
    const double y = kMargin + place.row * (kHeight + kGapY);
    text += fmt::format(
        "<g><title>{}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{}\" "
        "stroke=\"#808080\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"12\" font-weight=\"bold\">{}</text><text x=\"{:.0f}\" "
        "y=\"{:.0f}\" font-size=\"10\">{}</text></g>\n",
        escaped(layer.name), place.x, y, kWidth, kHeight, fill_of(layer), place.x + 8, y + 19,
        escaped(shorten(facts(layer), 34)), place.x + 8, y + 36, escaped(shorten(layer.name, 42)));
  }
  return text + "</svg>\n";
}

}  // namespace lathe::explorer
