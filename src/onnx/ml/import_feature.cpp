// SPDX-License-Identifier: Apache-2.0
//
// ai.onnx.ml: what stands before and behind a model: scaling, missing values, encodings. There are no maps:
// what needs them is refused by name, and ZipMap gives the tensor that it would have put into maps.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/strings.h"
#include "onnx/importers.h"
#include "onnx/ml/scores.h"
#include "onnx/strings.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;
using Floats = std::vector<float>;

// One number for all columns, or one per column.
ValueId per_column(NodeImport& node, const Floats& values, std::string_view name) {
  return float_constant(node, values, {static_cast<int64_t>(values.size())}, name);
}

Values import_scaler(NodeImport& node) {
  ValueId x = as_float(node, 0);
  if (const auto offset = node.reals("offset"); offset && !offset->empty())
    x = node.pointwise(C::Sub, {x, per_column(node, *offset, "offset")}, "shifted");
  const Floats scale = node.reals("scale").value_or(Floats{1});
  return {node.pointwise(C::Mul, {x, per_column(node, scale, "scale")})};
}

// Rows divided by their largest element, the sum of their sizes, or their length; rows of zeros stay.
Values import_normalizer(NodeImport& node) {
  const ValueId x = as_rows(node, as_float(node, 0));
  const std::string norm = node.text("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") node.fail("norm is '" + norm + "', not MAX, L1 or L2");
  const ReduceKind kind = norm == "MAX" ? ReduceKind::Max : norm == "L1" ? ReduceKind::L1 : ReduceKind::L2;
  const ValueId size = node.reduce(kind, x, {1}, true, "size");
  const ValueId zero = node.scalar(0, DType::Float32), one = node.scalar(1, DType::Float32);
  const ValueId divisor =
      node.pointwise(C::Where, {node.pointwise(C::Equal, {size, zero}, "is_zero"), one, size}, "divisor");
  return {node.pointwise(C::Div, {x, divisor})};
}

Values import_binarizer(NodeImport& node) {
  const ValueId threshold = node.cast(node.scalar(node.real("threshold", 0), DType::Float32), node.dtype(0));
  const ValueId above = node.pointwise(C::Greater, {node.in(0), threshold}, "above");
  return {node.cast(above, node.dtype(0), "result")};
}

// Elements that are NaN, or equal to a number, get the number of their column.
Values import_imputer(NodeImport& node) {
  const DType type = node.dtype(0);
  if (const auto whole = node.ints("imputed_value_int64s"); whole && !whole->empty()) {
    const ValueId missing = node.pointwise(
        C::Equal,
        {node.in(0),
         node.cast(node.constant(Tensor::scalar_i64(node.integer("replaced_value_int64", 0))), type)},
        "missing");
    return {node.pointwise(C::Where, {missing, node.cast(node.ints_constant(*whole), type), node.in(0)})};
  }
  const Floats values = node.reals("imputed_value_floats").value_or(Floats());
  if (values.empty()) node.fail("it has no values to impute");
  const float replaced = node.real("replaced_value_float", 0);
  const ValueId missing =
      std::isnan(replaced) ? node.pointwise(C::IsNaN, {node.in(0)}, "missing")
                           : node.pointwise(C::Equal, {node.in(0), node.scalar(replaced, type)}, "missing");
  return {
      node.pointwise(C::Where, {missing, node.cast(per_column(node, values, "imputed"), type), node.in(0)})};
}

// Columns of all inputs beside each other.
Values import_feature_vectorizer(NodeImport& node) {
  Values columns;
  for (size_t i = 0; i < node.input_count(); ++i) columns.push_back(as_rows(node, as_float(node, i)));
  return {node.add(Concat{.axis = 1}, columns)};
}

// Columns by number; a vector is one row. However the numbers lie, they are one list: ONNX's text says
// nothing of their shape, and ONNX Runtime takes [n, 1], what ArgMax of n rows gives to skl2onnx's
// classifiers, as n columns.
Values import_array_feature_extractor(NodeImport& node) {
  ValueId x = node.in(0);
  if (node.rank(0) == 1) x = node.reshape(x, {1, node.shape(0)[0]}, "row");
  ValueId columns = node.in(1);
  if (node.rank(1) != 1) columns = node.reshape(columns, {element_count(node.shape(1))}, "columns");
  const auto axis = static_cast<int64_t>(node.shape_of(x).size()) - 1;
  return {node.add(Gather{.axis = axis}, {x, columns})};
}

// One column per category.
Values import_one_hot_encoder(NodeImport& node) {
  const auto strings = node.texts("cats_strings");
  ValueId x = node.in(0);
  Ints categories(strings.size());
  if (strings.empty()) {
    if (is_string(node, 0)) node.fail("its input is strings, and its categories are numbers");
    const auto numbers = node.ints("cats_int64s");
    if (!numbers || numbers->empty()) node.fail("it has no categories");
    categories = *numbers;
    x = node.cast(x, DType::Int64, "whole");
  } else {
    std::iota(categories.begin(), categories.end(), 0);
    x = find_strings(node, string_input(node, 0), strings);
  }
  if (node.integer("zeros", 1) == 0)
    node.note("a value that is none of its categories gives zeros instead of an error");
  Shape column = node.shape_of(x);
  column.push_back(1);
  const ValueId equal = node.pointwise(
      C::Equal, {node.reshape(x, column, "column"), node.ints_constant(categories)}, "is_category");
  return {node.cast(equal, DType::Float32, "result")};
}

// A list of keys or values: numbers, or strings.
struct Labels {
  Tensor numbers;
  std::vector<std::string> strings;
  int64_t count() const { return numbers ? numbers.size() : static_cast<int64_t>(strings.size()); }
};

Labels read_labels(const NodeImport& node, const std::string& what) {
  if (const auto t = node.string_tensor(what + "_tensor")) {
    const Strings all(*t);
    Labels labels;
    for (int64_t i = 0; i < all.count(); ++i) labels.strings.emplace_back(all[i]);
    return labels;
  }
  if (const auto t = node.tensor(what + "_tensor")) return {*t, {}};
  if (auto strings = node.texts(what + "_strings"); !strings.empty()) return {{}, std::move(strings)};
  if (const auto whole = node.ints(what + "_int64s"); whole && !whole->empty())
    return {Tensor::from<int64_t>({static_cast<int64_t>(whole->size())}, *whole), {}};
  if (const auto floats = node.reals(what + "_floats"); floats && !floats->empty())
    return {Tensor::from<float>({static_cast<int64_t>(floats->size())}, *floats), {}};
  node.fail("attributes " + what + "_* are missing");
}

Tensor default_label(const NodeImport& node, DType type) {
  if (const auto t = node.tensor("default_tensor")) return *t;
  const double value = is_float(type) ? node.real("default_float", -0.f)
                                      : static_cast<double>(node.integer("default_int64", -1));
  return Tensor::from_doubles(type, {}, std::span(&value, 1));
}

// Every element is compared with every key; the number of the last key that fits, from 1; 0 for none.
ValueId number_of_key(NodeImport& node, const Tensor& keys) {
  if (is_string(node, 0)) node.fail("its input is strings, and its keys are numbers");
  if (keys.rank() != 1) node.fail("its keys are no list");
  Shape column = node.shape(0);
  column.push_back(1);
  const ValueId x = node.reshape(node.in(0), column, "column"),
                key = node.cast(node.constant(keys, "keys"), node.dtype(0));
  ValueId fits = node.pointwise(C::Equal, {x, key}, "fits");
  if (is_float(keys.dtype())) {
    const ValueId both = node.pointwise(
        C::And, {node.pointwise(C::IsNaN, {x}, "x_nan"), node.pointwise(C::IsNaN, {key}, "key_nan")},
        "both_nan");
    fits = node.pointwise(C::Or, {fits, both}, "fits_or_nan");
  }
  Ints numbers(static_cast<size_t>(keys.size()));
  std::iota(numbers.begin(), numbers.end(), 1);
  const ValueId number = node.pointwise(
      C::Where, {fits, node.ints_constant(numbers), node.constant(Tensor::scalar_i64(0))}, "number");
  return node.reduce(ReduceKind::Max, number, {node.rank(0)}, false, "index");
}

// The same among strings: the last one of equal keys counts.
ValueId number_of_key(NodeImport& node, const std::vector<std::string>& keys) {
  const std::vector<std::string> from_last(keys.rbegin(), keys.rend());
  const ValueId found = find_strings(node, string_input(node, 0), from_last);
  const ValueId all = node.constant(Tensor::scalar_i64(static_cast<int64_t>(keys.size())), "count");
  return node.pointwise(C::Sub, {all, found}, "index");
}

// Number 0 stands for the default, others for the values in their order.
ValueId value_of_number(NodeImport& node, const Labels& values, ValueId number) {
  if (!values.numbers) {
    std::vector<std::string> table = {node.text("default_string", "_Unused")};
    if (const auto t = node.string_tensor("default_tensor"); t && Strings(*t).count() == 1)
      table[0] = std::string(Strings(*t)[0]);
    table.insert(table.end(), values.strings.begin(), values.strings.end());
    return pick_strings(node, table, number);
  }
  const ValueId otherwise =
      node.reshape(node.constant(default_label(node, values.numbers.dtype()), "default"), {1}, "default_row");
  const ValueId table =
      node.add(Concat{.axis = 0}, {otherwise, node.constant(values.numbers, "values")}, "table");
  return node.add(Gather{.axis = 0}, {table, number});
}

ValueId encode(NodeImport& node, const Labels& keys, const Labels& values) {
  if (keys.count() != values.count())
    node.fail("it has " + std::to_string(keys.count()) + " keys and " + std::to_string(values.count()) +
              " values");
  const ValueId number = keys.numbers ? number_of_key(node, keys.numbers) : number_of_key(node, keys.strings);
  return value_of_number(node, values, number);
}

// The first version has one list of strings, and maps between them and their positions.
Values import_label_encoder(NodeImport& node) {
  if (const auto classes = node.texts("classes_strings"); !classes.empty()) {
    Ints numbers(classes.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const Labels strings{{}, classes},
        positions{Tensor::from<int64_t>({static_cast<int64_t>(numbers.size())}, numbers), {}};
    return {is_string(node, 0) ? encode(node, strings, positions) : encode(node, positions, strings)};
  }
  return {encode(node, read_labels(node, "keys"), read_labels(node, "values"))};
}

Values import_category_mapper(NodeImport& node) {
  const Labels strings = read_labels(node, "cats");
  const auto numbers = node.ints("cats_int64s").value_or(Ints());
  if (strings.numbers) node.fail("it has no strings as categories");
  const Labels whole{Tensor::from<int64_t>({static_cast<int64_t>(numbers.size())}, numbers), {}};
  return {is_string(node, 0) ? encode(node, strings, whole) : encode(node, whole, strings)};
}

Values import_zip_map(NodeImport& node) {
  node.note("its output is the tensor of scores (a column per class) instead of a sequence of maps");
  return {node.in(0)};
}

}  // namespace

std::vector<Importer> ml_feature_importers() {
  return {{"ArrayFeatureExtractor", 1, kLatestOpset, import_array_feature_extractor, kMlDomain},
          {"Binarizer", 1, kLatestOpset, import_binarizer, kMlDomain},
          {"CategoryMapper", 1, kLatestOpset, import_category_mapper, kMlDomain, true},
          {"FeatureVectorizer", 1, kLatestOpset, import_feature_vectorizer, kMlDomain},
          {"Imputer", 1, kLatestOpset, import_imputer, kMlDomain},
          {"LabelEncoder", 1, kLatestOpset, import_label_encoder, kMlDomain, true},
          {"Normalizer", 1, kLatestOpset, import_normalizer, kMlDomain},
          {"OneHotEncoder", 1, kLatestOpset, import_one_hot_encoder, kMlDomain, true},
          {"Scaler", 1, kLatestOpset, import_scaler, kMlDomain},
          {"ZipMap", 1, kLatestOpset, import_zip_map, kMlDomain}};
}

}  // namespace lathe::onnx
