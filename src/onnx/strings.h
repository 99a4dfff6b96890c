// SPDX-License-Identifier: Apache-2.0
//
// Strings while a model is imported. A value that ONNX calls a tensor of strings is bytes with one dim more
// than ONNX says (ir/strings.h), and marked in the builder. Operators on strings are built-in ones
// (plugin/built_in.h); operators that only move elements move the strings' numbers in a list instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/plugin.h"
#include "onnx/import_node.h"

namespace lathe::onnx {

bool is_string(const NodeImport& node, size_t input);
// Input `input`, which must be strings.
ValueId string_input(const NodeImport& node, size_t input);
ValueId strings_constant(NodeImport& node, const std::vector<std::string>& strings, std::string_view suffix);
// A built-in operator; of `outputs` results the first is strings if `gives_strings`.
Values add_built_in(NodeImport& node, std::string_view name, const std::vector<PluginField>& fields,
                    const Values& inputs, bool gives_strings, size_t outputs = 1,
                    std::string_view suffix = {});
// The number of the key that each string is, how many keys there are for none.
ValueId find_strings(NodeImport& node, ValueId strings, const std::vector<std::string>& keys);
// Strings of a list, by number.
ValueId pick_strings(NodeImport& node, const std::vector<std::string>& list, ValueId numbers);

// Equal on strings.
Values import_string_equal(NodeImport& node);

// Whether an operator of ONNX only moves elements, or tells of shapes, so that it does with strings, too.
bool moves_strings(std::string_view domain, std::string_view op_type);
// Its results, by its importer on the strings' numbers.
Values import_moved_strings(NodeImport& node, ImportFunction import);

}  // namespace lathe::onnx
