// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/model/network.hpp"

namespace hugectr {

/// One dense network on one device with arrays for inputs: how layers are tested, and a way to run
/// a network without tables or readers. Values go in and out as float32, whatever `dtype` the
/// network computes in.
class HCTR_API SingleNetwork {
 public:
  SingleNetwork(const std::vector<NetworkInput>& inputs, const std::vector<DenseLayerSpec>& layers,
                bool train, std::uint64_t seed, DeviceType device,
                TensorScalarType dtype = TensorScalarType::Float32);

  /// Writes a tensor, a parameter or "@sample_weight"; the size must fit.
  void set(const std::string& name, const std::vector<float>& values);
  /// Reads a tensor or parameter, "<name>@grad" for gradients.
  std::vector<float> get(const std::string& name, Shape* shape);
  /// Forward (and loss) of update number `step`; 1 / sum of sample weights is the loss's factor.
  void forward(std::int64_t step);
  void backward();
  const NetworkGraph& graph() const { return *graph_; }
  std::vector<std::string> op_names() const { return network_->op_names(train_); }

 private:
  TensorRef find(const std::string& name);

  std::shared_ptr<ResourceManager> resources_;
  std::shared_ptr<const NetworkGraph> graph_;
  std::unique_ptr<Network> network_;
  bool train_;
};

}  // namespace hugectr
