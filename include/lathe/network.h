// SPDX-License-Identifier: Apache-2.0
//
// A model as it was imported.
#pragma once

#include <memory>
#include <vector>

#include "lathe/types.h"

namespace lathe::v1 {

// Made by Builder. Cheap to copy; immutable.
class Network {
 public:
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  std::string name() const;
  int layer_count() const;  // operators before optimization

  struct Impl;
  explicit Network(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace lathe::v1
