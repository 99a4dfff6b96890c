// SPDX-License-Identifier: Apache-2.0
//
// Nodes that a plugin library runs: matched by operator type, and by the attributes plugin_version and
// plugin_namespace, as TensorRT's importer does. Without a namespace, the node's domain is tried, then none.
#pragma once

#include "ir/plugin.h"
#include "onnx/import_node.h"

namespace lathe::onnx {

// A node of a model that was written here: an operator of plugin/built_in.h by its name and namespace.
bool is_built_in(const NodeProto& proto);
bool has_plugin(const NodeProto& proto, const PluginSource& plugins);
// There is one.
Values import_plugin(NodeImport& node, const NodeProto& proto, const PluginSource& plugins);

}  // namespace lathe::onnx
