// SPDX-License-Identifier: Apache-2.0
//
// Which operators are imported: one function per family, each in import_<family>.cpp (those of other domains
// than ONNX's own in a folder per domain); importers.cpp joins them.
#pragma once

#include <string_view>
#include <vector>

#include "onnx/import_node.h"

namespace lathe::onnx {

std::vector<Importer> attention_importers();
std::vector<Importer> cast_importers();
std::vector<Importer> concat_importers();
std::vector<Importer> conv_importers();
std::vector<Importer> einsum_importers();
std::vector<Importer> gather_importers();
std::vector<Importer> legacy_importers();
std::vector<Importer> loss_importers();
std::vector<Importer> matmul_importers();
std::vector<Importer> norm_importers();
std::vector<Importer> optional_importers();
std::vector<Importer> pad_importers();
std::vector<Importer> pointwise_importers();
std::vector<Importer> pool_importers();
std::vector<Importer> quantize_importers();
std::vector<Importer> random_importers();
std::vector<Importer> recurrent_importers();
std::vector<Importer> reduce_importers();
std::vector<Importer> reshape_importers();
std::vector<Importer> resize_importers();
std::vector<Importer> reverse_sequence_importers();
std::vector<Importer> rotary_importers();
std::vector<Importer> selection_importers();
std::vector<Importer> shape_importers();
std::vector<Importer> signal_importers();
std::vector<Importer> slice_importers();
std::vector<Importer> softmax_importers();
std::vector<Importer> state_importers();
std::vector<Importer> text_importers();
std::vector<Importer> training_importers();
std::vector<Importer> vision_importers();

// com.microsoft, in microsoft/
std::vector<Importer> microsoft_activation_importers();
std::vector<Importer> microsoft_attention_importers();
std::vector<Importer> microsoft_bnb4_importers();
std::vector<Importer> microsoft_crop_importers();
std::vector<Importer> microsoft_gather_quantized_importers();
std::vector<Importer> microsoft_group_query_importers();
std::vector<Importer> microsoft_mixture_importers();
std::vector<Importer> microsoft_norm_importers();
std::vector<Importer> microsoft_packing_importers();
std::vector<Importer> microsoft_pool_importers();
std::vector<Importer> microsoft_position_bias_importers();
std::vector<Importer> microsoft_product_importers();
std::vector<Importer> microsoft_quantized_importers();
std::vector<Importer> microsoft_quantized_recurrent_importers();
std::vector<Importer> microsoft_rotary_importers();
std::vector<Importer> microsoft_signal_importers();
std::vector<Importer> microsoft_standard_importers();
std::vector<Importer> microsoft_word_embedding_importers();

// ai.onnx.ml, in ml/
std::vector<Importer> ml_feature_importers();
std::vector<Importer> ml_linear_importers();
std::vector<Importer> ml_tree_importers();

// All of them, sorted by domain, operator and version.
const std::vector<Importer>& all_importers();
// The importer of an operator (`domain` is empty for ONNX's own), or null. `known` says whether another opset
// has one.
const Importer* find_importer(std::string_view domain, std::string_view op_type, int64_t opset,
                              bool* known = nullptr);
// Imports the node as ONNX's own operator `op_type` of `opset`, with these inputs: for operators of vendors
// that mean the same.
Values import_as(const NodeImport& node, std::string_view op_type, int64_t opset, Values inputs);

}  // namespace lathe::onnx
