// SPDX-License-Identifier: Apache-2.0
//
// Every operator of every domain, in each of its versions, on inputs of any number, rank, size and type and
// with any attributes: it is read, or refused as a wrong or unsupported input. A crash, an assertion, a
// std::exception or an internal error is a bug of ours. Seeds are fixed.
//
// Half of a model's choices agree with one another (one type, one rank, one length of lists): a model whose
// parts are all independent rarely gets beyond an importer's first check.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

#include "base/hash.h"
#include "onnx/import.h"
#include "onnx/importers.h"
#include "onnx/tensorrt/importers.h"
#include "onnx/test_model.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;

struct OperatorVersion {
  std::string_view domain, op_type;
  int64_t version = 1;
};

constexpr std::string_view kIntegers =
    "K N align_corners allowzero antialias axis backgroundLabelId background_class batch_axis batch_dims "
    "bits block_size blocksize box_coding broadcast ceil_mode center_point_box channels_last "
    "coordinate_transformation_mode count_include_pad crop_height crop_width default_int64 "
    "deformable_group detect_negative detect_positive dilation do_rotary dtype end exclude_outside "
    "exclusive expert_weight_bits fmod gather_axis group groups hidden_size ignore_index input_forget "
    "interleaved inverse is_causal is_inner_broadcast is_packed_batching is_test k keepTopK keepdims "
    "kv_num_heads largest layout left_window_size linear_before_reset local_window_size max_distance "
    "max_gram_length max_output_boxes max_output_boxes_per_class max_skip_count min_gram_length "
    "n_supports n_targets ndim new_axis noop_with_empty_axes normalized num_branches num_groups num_heads "
    "num_outputs num_scan_inputs offset_group one_class onesided output_datatype output_dtype "
    "output_height output_width p periodic post_transform precision q_num_heads qk_matmul_output_mode "
    "quant_type quantize_axis replaced_value_int64 reverse right_window_size rotary_embedding_dim "
    "sample_size sampling_ratio saturate seed select_last_index signal_ndim size smooth_softmax "
    "softmax_precision sorted span sparse_block_size spatial start stash_type state_window step "
    "storage_order swiglu_fusion targets time_axis to topK training_mode transA transB unidirectional "
    "upper value_int zeros";
constexpr std::string_view kIntegerLists =
    "axes cats_int64s class_ids class_nodeids class_treeids classlabels_int64s classlabels_ints dilations "
    "directions ends image imputed_value_int64s inputdimensions kernel_shape keys_int64s leaf_targetids "
    "mrope_section ngram_counts ngram_indexes nodes_falseleafs nodes_falsenodeids nodes_featureids "
    "nodes_missing_value_tracks_true nodes_nodeids nodes_treeids nodes_trueleafs nodes_truenodeids "
    "output_padding output_shape paddings pads perm pool_int64s pooled_shape qkv_hidden_sizes "
    "scan_input_axes scan_input_directions scan_output_axes scan_output_directions scales shape size "
    "split starts strides target_ids target_nodeids target_treeids tree_roots value_ints values_int64s "
    "vectors_per_class";
constexpr std::string_view kReals =
    "activation_alpha activation_beta alpha beta bias clip cubic_coeff_a default_float eps epsilon "
    "extrapolation_value factor gamma height_scale high iouThreshold iou_threshold lambd low "
    "mask_filter_value max mean min momentum p qk_norm_epsilon ratio replaced_value_float scale "
    "scoreThreshold score_threshold seed softcap spatial_scale swiglu_limit threshold value value_float "
    "width_scale";
constexpr std::string_view kRealLists =
    "activation_alpha activation_beta activation_params base_values class_weights coefficients "
    "imputed_value_floats intercepts kernel_params keys_floats nodes_hitrates nodes_values offset prob_a "
    "prob_b rho scale scales support_vectors target_weights value_floats values_floats weights";
constexpr std::string_view kTensors =
    "base_values_as_tensor class_weights_as_tensor default_tensor keys_tensor leaf_weights "
    "membership_values nodes_hitrates_as_tensor nodes_modes nodes_splits nodes_values_as_tensor "
    "target_weights_as_tensor value values_tensor";

// Name and choices of each attribute that is a text.
constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
    {"activation", "Relu silu none Tanh"},
    {"activation_type", "relu silu swiglu gelu identity"},
    {"aggregate_function", "SUM AVERAGE MIN MAX"},
    {"approximate", "none tanh"},
    {"auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"},
    {"coordinate_transformation_mode",
     "half_pixel half_pixel_symmetric asymmetric align_corners tf_crop_and_resize tf_half_pixel_for_nn "
     "pytorch_half_pixel output_half_pixel"},
    {"direction", "forward reverse bidirectional LEFT RIGHT"},
    {"equation", "ij,jk->ik ii->i ...ij,...jk abc,cd i...->... ijkl-> aab,b -> ,"},
    {"keep_aspect_ratio_policy", "stretch not_larger not_smaller"},
    {"kernel_type", "LINEAR POLY RBF SIGMOID"},
    {"metric", "sqeuclidean euclidean"},
    {"mode", "constant reflect edge wrap nearest linear cubic bilinear avg max DCR CRD TF IDF TFIDF up fan"},
    {"nearest_mode", "floor ceil round_prefer_floor round_prefer_ceil"},
    {"norm", "MAX L1 L2"},
    {"padding_mode", "zeros border reflection"},
    {"post_transform", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"},
    {"quant_type", "int fp4"},
    {"reduction", "none add mul min max mean sum"},
    {"round_mode", "up down nearest"},
    {"to", "FLOAT INT64 BOOL"},
    {"update_rule", "linear gated delta gated_delta"},
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> all;
  for (size_t at = 0, end = 0; end != std::string_view::npos; at = end + 1) {
    end = text.find(' ', at);
    all.push_back(text.substr(at, end - at));
  }
  return all;
}

class AnyModel {
 public:
  AnyModel(const OperatorVersion& op, uint32_t seed)
      : random_(seed ^ static_cast<uint32_t>(hash_text(op.op_type))) {}

  std::string bytes(const OperatorVersion& op) {
    const bool is_onnx = op.domain.empty();
    TestModel m(is_onnx ? op.version : kLatestOpset);
    if (!is_onnx) m.opset_of(op.domain, op.version);
    type_ = any_type();
    rank_ = below(6);
    for (std::string& dim : dims_) dim = any_dim();
    length_ = below(7);
    const Names inputs = add_inputs(m, is_onnx && op.op_type.find("Sequence") != std::string_view::npos);
    Names outputs;
    const int64_t output_count = below(2) == 0 ? 1 : 1 + below(4);
    for (int64_t i = 0; i < output_count; ++i) {
      outputs.push_back("y" + std::to_string(i));
      m.output(outputs.back());
    }
    m.node(op.op_type, inputs, outputs, attributes(inputs), op.domain);
    return m.bytes();
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class Choices>
  auto one_of(const Choices& choices) {
    return choices[static_cast<size_t>(below(static_cast<int64_t>(std::size(choices))))];
  }

  int any_type() {
    static constexpr int kTypes[] = {1, 1, 1, 1,  1,  1,  1,  1,  2,  3,  4,  5,  6,  7, 7,
                                     7, 9, 9, 10, 11, 12, 13, 16, 17, 19, 21, 22, 23, 25};
    return one_of(kTypes);
  }

  Names add_inputs(TestModel& m, bool sequence) {
    static constexpr int64_t kCounts[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 12, 16};
    Names inputs;
    for (int64_t i = one_of(kCounts); i > 0; --i) {
      const std::string name = "x" + std::to_string(i);
      inputs.push_back(one_in(8) ? "" : name);
      if (inputs.back().empty()) continue;
      add_input(m, name, one_in(3) ? below(6) : rank_);
      if (one_in(12)) inputs.back() = computed(m, name);
    }
    if (!inputs.empty() && !inputs[0].empty() && one_in(sequence ? 2 : 40)) {
      Names list;
      for (const std::string& name : inputs)
        if (!name.empty()) list.push_back(name);
      m.node("SequenceConstruct", list, {"list"});
      inputs[0] = "list";
    }
    return inputs;
  }

  // A result of other nodes that reads `name`: a shape computation, or a tensor whose extent only a run
  // finds.
  std::string computed(TestModel& m, const std::string& name) {
    const std::string result = name + "_computed";
    if (one_in(2)) {
      m.node("Shape", {name}, {result});
    } else {
      m.node("NonZero", {name}, {result});
    }
    return result;
  }

  std::string any_dim() {
    static constexpr const char* kDims[] = {"0", "1", "1", "2", "2", "3", "4", "8", "16", "n", "s", ""};
    return one_of(kDims);
  }

  // Its last dims are the model's, but for some; what has fewer dims may have one per channel.
  void add_input(TestModel& m, const std::string& name, int64_t rank) {
    const int64_t first = rank == 1 && one_in(2) ? 1 : std::max<int64_t>(0, rank_ - rank);
    const int type = one_in(3) ? any_type() : type_;
    Names dims;
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (int64_t d = 0; d < rank; ++d) {
      dims.push_back(one_in(6) ? any_dim() : dims_[static_cast<size_t>((first + d) % std::ssize(dims_))]);
      const bool open = dims.back().find_first_of("0123456789") == std::string::npos;
      extents.push_back(open ? 2 : std::stoll(dims.back()));
      count *= extents.back();
    }
    const bool is_huge = !dims.empty() && one_in(40);
    if (is_huge) dims.back() = one_in(2) ? "2147483648" : "1099511627776";
    if (is_huge || one_in(2)) {
      m.input(name, type, dims);
    } else {
      m.initializer(constant(name, type, extents, count));
    }
  }

  // A tensor of small numbers: of each integer the first byte alone is not zero, or all of them are 255 or
  // 127.
  std::string constant(const std::string& name, int type, const std::vector<int64_t>& extents,
                       int64_t count) {
    const DType dtype = static_cast<DType>(type);
    const int64_t bytes = dtype_bytes(dtype, 1), all = dtype_bytes(dtype, count);
    std::string raw(static_cast<size_t>(all), '\0');
    if (is_integer(dtype) || dtype == DType::Bool) {
      for (int64_t at = 0; at < all; at += bytes) {
        char* element = raw.data() + at;
        if (type != 9 && one_in(16))
          std::fill_n(element, bytes, one_in(4) ? '\x7f' : '\xff');  // the largest, or -1
        else
          *element = static_cast<char>(below(type == 9 ? 2 : 5));
      }
    } else if (dtype == DType::Float32) {
      for (int64_t at = 0; at < count; ++at) {
        const float value = any_real();
        std::copy_n(reinterpret_cast<const char*>(&value), sizeof(value), raw.data() + at * bytes);
      }
    }
    return TestModel::make_tensor(name, type, extents, raw);
  }

  int64_t any_integer() {
    static constexpr int64_t kValues[] = {-1, -2, 0, 0, 1, 1, 1, 2, 2, 3, 4, 7, 8, 16};
    static constexpr int64_t kExtremes[] = {int64_t{1} << 31, int64_t{1} << 40,
                                            std::numeric_limits<int64_t>::max(),
                                            std::numeric_limits<int64_t>::min(), -1000};
    return one_in(24) ? one_of(kExtremes) : one_of(kValues);
  }
  float any_real() {
    static constexpr float kValues[] = {0, 0.5f, 1, 1, 1, 2, 2, 3, -1, 1e-5f};
    static constexpr float kExtremes[] = {1e30f, -1e30f, std::numeric_limits<float>::infinity(),
                                          std::numeric_limits<float>::quiet_NaN()};
    return one_in(24) ? one_of(kExtremes) : one_of(kValues);
  }
  template <class T, class Make>
  std::vector<T> list(Make make) {
    std::vector<T> values(static_cast<size_t>(one_in(4) ? below(7) : length_));
    for (T& value : values) value = make();
    return values;
  }

  Names attributes(const Names& inputs) {
    static constexpr int64_t kShares[] = {100, 8, 3,
                                          1};  // of the attributes that a node does not have: 1 - 1 / n
    const int64_t share = one_of(kShares);
    const auto takes = [&] { return share == 1 ? !one_in(3) : one_in(share); };
    Names all;
    for (const auto name : words(kIntegerLists))
      if (takes())
        all.push_back(TestModel::ints_attribute(name, list<int64_t>([&] { return any_integer(); })));
    for (const auto name : words(kIntegers))
      if (takes()) all.push_back(TestModel::int_attribute(name, any_integer()));
    for (const auto name : words(kReals))
      if (takes()) all.push_back(TestModel::float_attribute(name, any_real()));
    for (const auto name : words(kRealLists))
      if (takes()) all.push_back(TestModel::floats_attribute(name, list<float>([&] { return any_real(); })));
    for (const auto name : words(kTensors))
      if (takes()) all.push_back(TestModel::tensor_attribute(name, any_tensor()));
    for (const auto& [name, choices] : kTexts)
      if (takes()) all.push_back(TestModel::text_attribute(name, one_of(words(choices))));
    if (one_in(2)) {
      for (const std::string_view name : {"body", "then_branch", "else_branch"})
        all.push_back(TestModel::graph_attribute(name, body(inputs)));
    }
    // Of attributes of the same name the first counts; which kind that is changes from model to model.
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  std::string any_tensor() {
    std::vector<int64_t> extents(static_cast<size_t>(one_in(3) ? below(4) : 1));
    int64_t count = 1;
    for (int64_t& extent : extents) count *= extent = one_in(3) ? below(5) : length_;
    return constant("value", one_in(2) ? type_ : any_type(), extents, count);
  }

  // A graph that reads its own inputs and, at times, values of the graph around it.
  std::string body(const Names& outer) {
    TestModel m;
    Names values;
    for (int64_t i = below(6); i > 0; --i) {
      values.push_back("b" + std::to_string(i));
      if (one_in(2))
        m.input_without_shape(values.back(), any_type());
      else
        add_input(m, values.back(), below(3));
    }
    for (const std::string& name : outer)
      if (!name.empty() && one_in(2)) values.push_back(name);
    for (int64_t i = below(5); i > 0; --i) {
      const std::string result = "r" + std::to_string(i);
      static constexpr std::string_view kOne[] = {"Identity", "Relu", "Shape", "NonZero", "Not"};
      static constexpr std::string_view kTwo[] = {"Add", "Less", "Concat"};
      if (values.empty()) break;
      if (one_in(2))
        m.node(one_of(kOne), {one_of(values)}, {result});
      else
        m.node(one_of(kTwo), {one_of(values), one_of(values)}, {result},
               {TestModel::int_attribute("axis", 0)});
      m.output(result);
      values.push_back(result);
    }
    return m.graph();
  }

  std::mt19937 random_;
  int type_ = 1;
  int64_t rank_ = 0, length_ = 0;
  std::array<std::string, 6> dims_;
};

// What the lists of importers say, and the operators that graph_importer.cpp and sequences.cpp read.
std::vector<OperatorVersion> operators_of(std::string_view domain) {
  std::vector<OperatorVersion> all;
  for (const Importer& importer : all_importers()) {
    if (importer.domain != domain) continue;
    all.push_back({domain, importer.op_type, importer.since});
    if (importer.until != importer.since) all.push_back({domain, importer.op_type, importer.until});
  }
  if (domain.empty()) {
    for (const std::string_view name :
         {"If", "Loop", "Scan", "Identity", "ConcatFromSequence", "SequenceAt", "SequenceConstruct",
          "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence", "Optional",
          "OptionalGetElement", "OptionalHasElement"})
      for (const int64_t version : {int64_t{1}, int64_t{11}, kLatestOpset})
        all.push_back({domain, name, version});
  }
  return all;
}

struct Trial {
  const char* name;
  std::string_view domain;
  uint32_t models;  // per operator and version
  int least;        // so many of all must be read
};

class AnyShapes : public testing::TestWithParam<Trial> {};

TEST_P(AnyShapes, AreReadOrRefused) {
  NullObserver observer;
  int read = 0;
  for (const OperatorVersion& op : operators_of(GetParam().domain)) {
    for (uint32_t seed = 0; seed < GetParam().models; ++seed) {
      const std::string bytes = AnyModel(op, seed).bytes(op);
      const auto where = [&] {
        return std::string(op.op_type) + " of version " + std::to_string(op.version) + ", seed " +
               std::to_string(seed);
      };
      try {
        import_onnx(as_bytes(bytes), {}, observer);
        ++read;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Input) << where() << ": " << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << where() << ": " << error.what();
      }
    }
  }
  EXPECT_GT(read, GetParam().least);
}

INSTANTIATE_TEST_SUITE_P(Import, AnyShapes,
                         testing::Values(Trial{"onnx", "", 30, 1000}, Trial{"ml", kMlDomain, 60, 100},
                                         Trial{"microsoft", kMicrosoftDomain, 50, 100},
                                         Trial{"tensorrt", kTensorRtDomain, 60, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lathe::onnx
