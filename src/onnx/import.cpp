// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"

#include "base/error.h"
#include "onnx/graph_importer.h"
#include "onnx/model.h"
#include "onnx/other_formats.h"
#include "ops/build.h"

namespace lathe {

namespace {

using namespace onnx;

ModelParsed model_info(const ModelProto& model, const std::string& file) {
  ModelParsed info{.file = file,
                   .producer = std::string(model.producer_name),
                   .producer_version = std::string(model.producer_version),
                   .domain = std::string(model.domain),
                   .doc_string = std::string(model.doc_string),
                   .ir_version = model.ir_version,
                   .opset_version = 0,
                   .model_version = model.model_version};
  for (const OpsetId& opset : model.opsets) {
    if (is_onnx_domain(opset.domain)) info.opset_version = opset.version;
  }
  return info;
}

void count_nodes(const ModelProto& model, ImportedModel& imported) {
  imported.node_count = static_cast<int64_t>(model.graph.nodes.size());
  for (const NodeProto& node : model.graph.nodes) {
    if (node.op_type == "QuantizeLinear" || node.op_type == "DynamicQuantizeLinear")
      ++imported.quantize_count;
    if (node.op_type == "DequantizeLinear") ++imported.dequantize_count;
  }
}

void tell(const ImportedModel& imported, Observer& observer) {
  observer.on(imported.info);
  if (imported.info.opset_version > kLatestOpset) {
    observer.log(Severity::Warning, "The model uses opset " + std::to_string(imported.info.opset_version) +
                                        ", newer than " + std::to_string(kLatestOpset) +
                                        ", the newest known: its operators are read as those.");
  }
  if (imported.info.ir_version > kLatestIr) {
    observer.log(Severity::Warning, "The model has IR version " + std::to_string(imported.info.ir_version) +
                                        ", newer than " + std::to_string(kLatestIr) +
                                        ", the newest known: what is new in it is not read.");
  }
  if (imported.quantize_count + imported.dequantize_count > 0) {
    observer.log(
        Severity::Info,
        "The model has " + std::to_string(imported.quantize_count) + " QuantizeLinear and " +
            std::to_string(imported.dequantize_count) +
            " DequantizeLinear nodes. Layers between them run in float where no integer tactic exists.");
  }
}

ImportedModel import_bytes(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                           const std::string& file, Observer& observer, std::shared_ptr<const void> owner,
                           const ImportOptions& options) {
  if (const std::string_view how = how_to_convert(bytes); !how.empty()) throw_input_error(std::string(how));
  const ModelProto model = parse_model(bytes);
  ImportedModel imported;
  imported.info = model_info(model, file);
  for (const auto& [key, value] : model.metadata) imported.metadata.emplace_back(key, value);
  count_nodes(model, imported);
  tell(imported, observer);
  TensorSource tensors(std::move(owner), folder);
  GraphImporter importer(model, tensors, options, imported.graph, observer);
  importer.run();
  imported.strings = importer.strings();
  verify_graph(imported.graph);
  return imported;
}

}  // namespace

ImportedModel import_onnx(const std::filesystem::path& path, Observer& observer,
                          const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  try {
    const std::filesystem::path folder =
        path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    return import_bytes(file->bytes(), folder, path.string(), observer, file, options);
  } catch (Error& error) {
    error.add_context(path.string());
    throw;
  }
}

ImportedModel import_for_shapes(const std::filesystem::path& path, Observer& observer,
                                const std::map<std::string, Extents, std::less<>>& shapes, bool& fixed,
                                const ImportOptions& others) {
  ImportOptions options = others;
  for (const auto& [name, extents] : shapes) options.input_shapes[name] = extents;
  fixed = false;
  try {
    return import_onnx(path, observer, options);
  } catch (const UnsupportedError&) {
    if (shapes.empty()) throw;
    options.fix_shapes = true;
    NullObserver nobody;
    try {
      import_onnx(path, nobody, options);
      fixed = true;
    } catch (const Error&) {
      // The first error says more: it names the nodes of the model as it stands.
    }
    if (!fixed) throw;
  }
  observer.log(Severity::Warning,
               "The model is read for the given input shapes alone: with open dims, some of its nodes are "
               "not supported.");
  return import_onnx(path, observer, options);
}

ImportedModel import_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                          Observer& observer, std::shared_ptr<const void> owner,
                          const ImportOptions& options) {
  return import_bytes(bytes, folder, "", observer, std::move(owner), options);
}

}  // namespace lathe
