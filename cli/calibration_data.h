// SPDX-License-Identifier: Apache-2.0
//
// Samples of a model's inputs, one after the other: from files, or random ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "arguments/values.h"
#include "arguments/words.h"
#include "ir/tensor.h"
#include "plan/optimization_profile.h"

namespace lathe::cli {

class CalibrationData {
 public:
  // `source`: a folder with one .npy file or picture (models with one input) or .npz file (an array for each
  // input) per sample, taken in the order of their names; one such file; or "random". `shapes` of inputs
  // whose dims are not constant, for random samples and pictures; arrays have theirs. `most`: samples to
  // take; negative: all (random: 8). `preprocess`: of pictures, as image/image.h says; empty: "imagenet" for
  // floats, "pixels" for integers. Throws Input.
  CalibrationData(const std::string& source, std::vector<TensorInfo> inputs, const NamedShapes& shapes,
                  int most, std::string preprocess = {});

  bool is_random() const { return random_; }
  bool has_pictures() const;
  int64_t count() const { return count_; }
  // Fills a tensor for each input; false: there are no more.
  bool next(std::vector<Tensor>& sample);

 private:
  Tensor read(const std::string& file, const TensorInfo& input) const;
  Tensor read_picture(const std::string& file, const TensorInfo& input) const;
  Extents extents_of(const TensorInfo& input) const;
  Tensor make(const TensorInfo& input);
  void check_shapes() const;

  std::vector<TensorInfo> inputs_;
  NamedShapes shapes_;
  std::vector<std::string> files_;
  std::string preprocess_;
  bool random_ = false;
  int64_t count_ = 0, done_ = 0;
  std::mt19937 generator_{2026};
};

// What the user of random samples should know.
inline constexpr const char* kRandomSamplesWarning =
    "the samples are random numbers: ranges, and so the accuracy, are those of noise. The speed is that of a "
    "model calibrated "
    "with real samples.";

// From --calib, --samples, --shapes and --preprocess. Random samples get a warning.
CalibrationData open_calibration_data(const CommandWords& arguments, std::vector<TensorInfo> inputs);

// A line that is written over, for a person at a terminal.
std::function<void(int64_t)> progress_line(int64_t all);

}  // namespace lathe::cli
