// SPDX-License-Identifier: Apache-2.0
//
// Einsum as transposes, sums and matrix products, operand by operand from the left: labels that only one side
// has and nobody needs later are summed; what both have is a batch when it is needed later and contracted
// when not:
//
//   "bij,bkj->bik":  batch b, rows i, columns k, contracted j:  (b, i, j) x (b, j, k) -> (b, i, k)
//
// An ellipsis stands for the labels '0', '1', ... counted from the right. A label twice in one operand is its
// diagonal, which is taken first.
#include <algorithm>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

struct Term {
  ValueId value = kNoValue;
  std::string labels;
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

bool has(const std::string& labels, char c) {
  return labels.find(c) != std::string::npos;
}

// The labels of an operand of `rank` dims (-1: of the output, whose ellipsis has `ellipsis` labels).
std::string expand_ellipsis(const NodeImport& node, const std::string& text, int64_t rank, size_t ellipsis) {
  const size_t at = text.find("...");
  if (at == std::string::npos) return text;
  const size_t named = text.size() - 3;
  if (rank >= 0) {
    if (static_cast<size_t>(rank) < named || rank - static_cast<int64_t>(named) > 10)
      node.fail("a term does not fit its operand");
    ellipsis = static_cast<size_t>(rank) - named;
  }
  std::string digits;
  for (size_t i = ellipsis; i-- > 0;) digits += static_cast<char>('0' + i);
  return text.substr(0, at) + digits + text.substr(at + 3);
}

// Without "->" the output has every label that occurs once, in alphabetical order.
std::string implicit_output(const std::vector<std::string>& inputs) {
  std::string all, output;
  for (const std::string& labels : inputs) all += labels;
  for (const char c : all) {
    const bool from_ellipsis = c >= '0' && c <= '9';
    if (!has(output, c) && (from_ellipsis || std::count(all.begin(), all.end(), c) == 1)) output += c;
  }
  // Labels of the ellipsis come first, the highest digit (the outermost dim) in front.
  std::sort(output.begin(), output.end(), [](char a, char b) {
    const bool da = a <= '9', db = b <= '9';
    return da != db ? da : da ? a > b : a < b;
  });
  return output;
}

Equation read_equation(const NodeImport& node) {
  std::string text = node.text("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != node.input_count()) {
    node.fail("equation '" + text + "' has " + std::to_string(terms.size()) + " terms for " +
              std::to_string(node.input_count()) + " operands");
  }
  Equation equation;
  size_t ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    equation.inputs.push_back(expand_ellipsis(node, terms[i], node.rank(i), 0));
    const std::string& labels = equation.inputs.back();
    if (static_cast<int64_t>(labels.size()) != node.rank(i))
      node.fail("term '" + terms[i] + "' does not fit its operand");
    ellipsis = std::max<size_t>(
        ellipsis, std::count_if(labels.begin(), labels.end(), [](char c) { return c >= '0' && c <= '9'; }));
  }
  equation.output = arrow == std::string::npos ? implicit_output(equation.inputs)
                                               : expand_ellipsis(node, text.substr(arrow + 2), -1, ellipsis);
  return equation;
}

class EinsumImport {
 public:
  explicit EinsumImport(NodeImport& node) : node_(node), equation_(read_equation(node)) {}

  Values run() {
    Term result = summed(diagonal({node_.in(0), equation_.inputs[0]}), needed_after(0));
    for (size_t i = 1; i < equation_.inputs.size(); ++i) {
      const std::string later = needed_after(i);
      const Term right = diagonal({node_.in(i), equation_.inputs[i]});
      result = summed(result, later + right.labels);
      result = product(result, summed(right, later + result.labels), later);
    }
    for (const char c : equation_.output) {
      if (!has(result.labels, c)) node_.fail(std::string("label '") + c + "' of the output is in no operand");
    }
    return {ordered(result, equation_.output, "order")};
  }

 private:
  // Labels of the output and of the operands behind operand i.
  std::string needed_after(size_t i) const {
    std::string labels = equation_.output;
    for (size_t j = i + 1; j < equation_.inputs.size(); ++j) labels += equation_.inputs[j];
    return labels;
  }

  // Without the second of two dims with the same label: zeros off their diagonal, then a sum over the second
  // one.
  Term diagonal(Term term) {
    for (size_t second = 1; second < term.labels.size(); ++second) {
      const size_t first = term.labels.find(term.labels[second]);
      if (first == second) continue;
      const Shape shape = node_.shape_of(term.value);
      const ValueId on = node_.pointwise(
          PointwiseCode::Equal, {positions(shape, first), positions(shape, second)}, 0, 0, "on_diagonal");
      const ValueId zero = node_.scalar(0, node_.dtype_of(term.value));
      const ValueId kept = node_.pointwise(PointwiseCode::Where, {on, term.value, zero}, 0, 0, "diagonal");
      term.value = node_.reduce(ReduceKind::Sum, kept, {static_cast<int64_t>(second)}, false, "diagonal_sum");
      term.labels.erase(second--, 1);
    }
    return term;
  }

  // 0, 1, 2, ... along one dim of a shape, to broadcast along the others.
  ValueId positions(const Shape& shape, size_t dim) {
    const ValueId zero = node_.scalar(0, DType::Int64), one = node_.scalar(1, DType::Int64);
    const ValueId count = node_.add(Range{}, {zero, node_.dim_scalar(shape[dim]), one}, "positions");
    Shape axis(shape.size(), Dim(1));
    axis[dim] = shape[dim];
    return node_.reshape(count, axis, "positions_axis");
  }

  // Sums over the labels that nobody needs.
  Term summed(Term term, const std::string& needed) {
    Ints axes;
    std::string kept;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (has(needed, term.labels[i])) {
        kept += term.labels[i];
      } else {
        axes.push_back(static_cast<int64_t>(i));
      }
    }
    if (axes.empty()) return term;
    return {node_.reduce(ReduceKind::Sum, term.value, axes, false, "sum"), kept};
  }

  ValueId ordered(const Term& term, const std::string& labels, std::string_view name) {
    Ints perm;
    for (const char c : labels) perm.push_back(static_cast<int64_t>(term.labels.find(c)));
    return labels == term.labels ? term.value : node_.transpose(term.value, perm, name);
  }

  Shape dims_of(const Term& term, const std::string& labels) const {
    const Shape shape = node_.shape_of(term.value);
    Shape dims;
    for (const char c : labels) dims.push_back(shape[term.labels.find(c)]);
    return dims;
  }

  // As a stack of matrices: (batch..., first..., second...) with each group but the batch as one dim.
  ValueId matrices(const Term& term, const std::string& batch, const std::string& first,
                   const std::string& second, const std::string& name) {
    const ValueId v = ordered(term, batch + first + second, name + "_order");
    Shape shape = dims_of(term, batch);
    shape.push_back(element_count(dims_of(term, first)));
    shape.push_back(element_count(dims_of(term, second)));
    return shape == node_.shape_of(v) ? v : node_.reshape(v, shape, name);
  }

  Term product(const Term& a, const Term& b, const std::string& needed) {
    std::string batch, contracted, rows, columns;
    for (const char c : a.labels) (!has(b.labels, c) ? rows : has(needed, c) ? batch : contracted) += c;
    for (const char c : b.labels) {
      if (!has(a.labels, c)) columns += c;
    }
    const ValueId left = matrices(a, batch, rows, contracted, "a"),
                  right = matrices(b, batch, contracted, columns, "b");
    const ValueId y = node_.add(MatMul{}, {left, right}, "product");
    Shape shape = dims_of(a, batch);
    for (const Dim& d : dims_of(a, rows)) shape.push_back(d);
    for (const Dim& d : dims_of(b, columns)) shape.push_back(d);
    const Term result{shape == node_.shape_of(y) ? y : node_.reshape(y, shape, "result"),
                      batch + rows + columns};
    return result;
  }

  NodeImport& node_;
  Equation equation_;
};

Values import_einsum(NodeImport& node) {
  return EinsumImport(node).run();
}

}  // namespace

std::vector<Importer> einsum_importers() {
  return {{"Einsum", 12, kLatestOpset, import_einsum}};
}

}  // namespace lathe::onnx
