// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/device/resource_manager.hpp"

namespace hugectr::test {

/// A device and how a test hands vectors to an op on it.
class OpRun {
 public:
  template <class T>
  TensorRef ref(std::vector<T>& values, Shape shape) {
    return make_ref(values.data(), std::move(shape), gpu_.device());
  }
  template <class T>
  TensorRef ref(std::vector<T>& values) {
    return ref(values, {values.size()});
  }
  template <class Op>
  void operator()(Op op) {
    run(gpu_.compute_context(), std::move(op));
    gpu_.compute_stream().synchronize();
  }

 private:
  std::shared_ptr<ResourceManager> resources_ = ResourceManager::create({{0}}, 1);
  GPUResource& gpu_ = resources_->get_local_gpu(0);
};

using Numbers = std::vector<std::uint32_t>;
using Floats = std::vector<float>;

}  // namespace hugectr::test
