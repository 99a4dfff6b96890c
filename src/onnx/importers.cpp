// SPDX-License-Identifier: Apache-2.0
//
// The list that answers "which ONNX operators exist?". If and Identity, which leave no node behind, are in
// graph_importer.cpp.
#include "onnx/importers.h"

#include <algorithm>
#include <tuple>

#include "onnx/tensorrt/importers.h"

namespace lathe::onnx {

namespace {

std::vector<Importer> join(std::vector<std::vector<Importer>> families) {
  std::vector<Importer> all;
  for (auto& family : families) all.insert(all.end(), family.begin(), family.end());
  std::sort(all.begin(), all.end(), [](const Importer& a, const Importer& b) {
    return std::tie(a.domain, a.op_type, a.since) < std::tie(b.domain, b.op_type, b.since);
  });
  return all;
}

}  // namespace

const std::vector<Importer>& all_importers() {
  static const std::vector<Importer> importers = join({
      attention_importers(),
      cast_importers(),
      concat_importers(),
      conv_importers(),
      einsum_importers(),
      gather_importers(),
      legacy_importers(),
      loss_importers(),
      matmul_importers(),
      norm_importers(),
      optional_importers(),
      pad_importers(),
      pointwise_importers(),
      pool_importers(),
      quantize_importers(),
      random_importers(),
      recurrent_importers(),
      reduce_importers(),
      reshape_importers(),
      resize_importers(),
      reverse_sequence_importers(),
      rotary_importers(),
      selection_importers(),
      shape_importers(),
      signal_importers(),
      slice_importers(),
      softmax_importers(),
      state_importers(),
      text_importers(),
      training_importers(),
      vision_importers(),
      microsoft_activation_importers(),
      microsoft_attention_importers(),
      microsoft_bnb4_importers(),
      microsoft_crop_importers(),
      microsoft_gather_quantized_importers(),
      microsoft_group_query_importers(),
      microsoft_mixture_importers(),
      microsoft_norm_importers(),
      microsoft_packing_importers(),
      microsoft_pool_importers(),
      microsoft_position_bias_importers(),
      microsoft_product_importers(),
      microsoft_quantized_importers(),
      microsoft_quantized_recurrent_importers(),
      microsoft_rotary_importers(),
      microsoft_signal_importers(),
      microsoft_standard_importers(),
      microsoft_word_embedding_importers(),
      ml_feature_importers(),
      ml_linear_importers(),
      ml_tree_importers(),
      tensorrt_detection_importers(),
      tensorrt_plugin_importers(),
      tensorrt_quantized_importers(),
  });
  return importers;
}

const Importer* find_importer(std::string_view domain, std::string_view op_type, int64_t opset, bool* known) {
  const auto& all = all_importers();
  const auto key = std::pair(domain, op_type);
  const auto key_of = [](const Importer& importer) { return std::pair(importer.domain, importer.op_type); };
  auto it = std::lower_bound(all.begin(), all.end(), key, [&](const Importer& importer, const auto& wanted) {
    return key_of(importer) < wanted;
  });
  if (known) *known = it != all.end() && key_of(*it) == key;
  for (; it != all.end() && key_of(*it) == key; ++it) {
    if (opset >= it->since && (opset <= it->until || it->until == kLatestOpset)) return &*it;
  }
  return nullptr;
}

Values import_as(const NodeImport& node, std::string_view op_type, int64_t opset, Values inputs) {
  const Importer* importer = find_importer({}, op_type, opset);
  check(importer != nullptr, "there is an importer of the operator that another one is read as");
  NodeImport other = node.with(opset, std::move(inputs));
  return importer->import(other);
}

}  // namespace lathe::onnx
