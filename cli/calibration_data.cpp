// SPDX-License-Identifier: Apache-2.0
#include "calibration_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "arguments/arguments.h"
#include "arguments/numpy_file.h"
#include "base/error.h"
#include "base/file.h"
#include "image/image.h"
#include "say.h"

namespace lathe::cli {
namespace {

constexpr int kRandomSamples = 8;
constexpr size_t kMostBytes = size_t{8} << 30;  // of one array

bool is_sample_file(const std::filesystem::path& path) {
  return path.extension() == ".npy" || path.extension() == ".npz" || is_image_file(path);
}

std::vector<std::string> files_of(const std::string& source) {
  std::error_code error;
  if (std::filesystem::is_regular_file(source, error)) {
    if (!is_sample_file(source))
      throw_input_error(source + ": samples are .npy or .npz files or pictures, or a folder of them");
    return {source};
  }
  if (!std::filesystem::is_directory(source, error))
    throw_input_error(
        source +
        ": no such folder or file; --calib takes a folder of .npy or .npz files or pictures, or 'random'");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(source))
    if (entry.is_regular_file() && is_sample_file(entry.path())) files.push_back(entry.path().string());
  if (files.empty())
    throw_input_error(source + ": no .npy or .npz file and no picture (.png, .jpg, .bmp) in this folder");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

CalibrationData::CalibrationData(const std::string& source, std::vector<TensorInfo> inputs,
                                 const NamedShapes& shapes, int most, std::string preprocess)
    : inputs_(std::move(inputs)),
      shapes_(shapes),
      preprocess_(std::move(preprocess)),
      random_(source == "random") {
  if (most == 0) throw_input_error("--samples must be at least 1");
  if (!random_) files_ = files_of(source);
  check_shapes();
  if (random_) {
    count_ = most < 0 ? kRandomSamples : most;
    return;
  }
  if (most > 0 && static_cast<size_t>(most) < files_.size()) files_.resize(static_cast<size_t>(most));
  count_ = static_cast<int64_t>(files_.size());
}

bool CalibrationData::has_pictures() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto& f) { return is_image_file(f); });
}

void CalibrationData::check_shapes() const {
  for (const auto& [name, extents] : shapes_) {
    if (std::none_of(inputs_.begin(), inputs_.end(), [&](const auto& input) { return input.name == name; }))
      throw_input_error("--shapes: the model has no input '" + name + "'");
    if (element_count(extents) == 0)
      throw_input_error("--shapes: input '" + name + "' would have no elements");
  }
}

bool CalibrationData::next(std::vector<Tensor>& sample) {
  if (done_ == count_) return false;
  sample.clear();
  for (const TensorInfo& input : inputs_)
    sample.push_back(random_ ? make(input) : read(files_[static_cast<size_t>(done_)], input));
  ++done_;
  return true;
}

Tensor CalibrationData::read_picture(const std::string& file, const TensorInfo& input) const {
  if (inputs_.size() != 1)
    throw_input_error(
        fmt::format("{}: the model has {} inputs, so that a sample is a .npz file with an array for each",
                    file, inputs_.size()));
  const std::string usual = is_float(input.dtype) ? "imagenet" : "pixels";
  return read_image(file, input.dtype, extents_of(input),
                    preprocess_of(preprocess_.empty() ? usual : preprocess_));
}

// A batch of one may be left out.
Tensor CalibrationData::read(const std::string& file, const TensorInfo& input) const {
  if (is_image_file(file)) return read_picture(file, input);
  Tensor array;
  if (file.ends_with(".npz")) {
    array = read_npz(file, input.name, kMostBytes).tensor;
  } else {
    if (inputs_.size() != 1)
      throw_input_error(
          fmt::format("{}: the model has {} inputs, so that a sample is a .npz file with an array for each",
                      file, inputs_.size()));
    array = parse_npy(MappedFile::open(file)->bytes(), file).tensor;
  }
  if (array.dtype() != input.dtype)
    throw_input_error(fmt::format("{}: input '{}' is {}, the array {}", file, input.name,
                                  dtype_name(input.dtype), dtype_name(array.dtype())));
  const auto rank = static_cast<int64_t>(input.shape.size());
  if (array.rank() + 1 == rank) {
    Extents extents = array.extents();
    extents.insert(extents.begin(), 1);
    array = array.reshaped(extents);
  }
  bool fits = array.rank() == rank;
  for (size_t d = 0; fits && d < input.shape.size(); ++d)
    fits = !input.shape[d].is_constant() || input.shape[d].is_constant(array.extents()[d]);
  if (!fits)
    throw_input_error(fmt::format("{}: input '{}' is {}, the array {}", file, input.name,
                                  to_string(input.shape), to_string(array.extents())));
  return array;
}

// Those that were given; else open dims are 1.
Extents CalibrationData::extents_of(const TensorInfo& input) const {
  Extents extents;
  const auto given = std::find_if(shapes_.begin(), shapes_.end(),
                                  [&](const auto& entry) { return entry.first == input.name; });
  for (size_t d = 0; d < input.shape.size(); ++d)
    extents.push_back(input.shape[d].is_constant() ? input.shape[d].value() : 1);
  return given != shapes_.end() ? given->second : extents;
}

Tensor CalibrationData::make(const TensorInfo& input) {
  const Extents extents = extents_of(input);
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  std::normal_distribution<double> normal;
  for (double& value : values)
    value = is_float(input.dtype) ? normal(generator_) : static_cast<double>(generator_() % 2);
  return Tensor::from_doubles(input.dtype, extents, values);
}

CalibrationData open_calibration_data(const CommandWords& arguments, std::vector<TensorInfo> inputs) {
  const int samples = arguments.has("--samples") ? parse_int("--samples", arguments.value("--samples")) : -1;
  if (arguments.has("--samples") && samples < 1) throw_input_error("--samples must be at least 1");
  const std::string source = arguments.has("--calib") ? arguments.value("--calib") : "random";
  CalibrationData data(source, std::move(inputs), parse_shapes("--shapes", arguments.value("--shapes")),
                       samples, arguments.value("--preprocess"));
  if (arguments.has("--shapes") && !data.is_random() && !data.has_pictures())
    throw_input_error("--shapes is for --calib=random and pictures: arrays have their shapes");
  if (arguments.has("--preprocess") && !data.has_pictures())
    throw_input_error("--preprocess is for pictures, and there is none among the samples");
  if (data.is_random()) say_to(stderr, "warning: {}\n", kRandomSamplesWarning);
  return data;
}

std::function<void(int64_t)> progress_line(int64_t all) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [all](int64_t done) { say_to(stderr, "\rsample {} of {}{}", done, all, done == all ? "\n" : ""); };
}

}  // namespace lathe::cli
