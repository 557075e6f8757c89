// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/parameter_layout.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/model/network.hpp"

namespace hugectr {
namespace {

ParameterLayout odd_layout() {
  ParameterLayout layout;
  for (const std::size_t elements : {39, 13, 8, 1, 0, 16}) layout.add(elements);
  return layout;
}

TEST(ParameterLayout, EveryParameterBeginsAligned) {
  const ParameterLayout layout = odd_layout();
  EXPECT_EQ(layout.offsets(), (std::vector<std::size_t>{0, 40, 56, 64, 72, 72}));
  EXPECT_EQ(layout.count(), 77u);
  EXPECT_EQ(layout.flat_size(), 88u);
}

TEST(ParameterLayout, FilesStayPacked) {
  const ParameterLayout layout = odd_layout();
  std::vector<float> packed(2 * layout.count());  // two arrays, as Adam's states
  std::iota(packed.begin(), packed.end(), 1.0f);
  const std::vector<float> flat = layout.spread(packed);
  ASSERT_EQ(flat.size(), 2 * layout.flat_size());
  EXPECT_EQ(flat[39], 0.0f);         // a gap
  EXPECT_EQ(flat[40], 40.0f);        // first of the second parameter
  EXPECT_EQ(flat[88 + 40], 117.0f);  // the same in the second array
  EXPECT_EQ(layout.pack(flat), packed);
  EXPECT_THROW(layout.spread(std::vector<float>(5)), InvalidArgument);
  EXPECT_THROW(layout.pack(std::vector<float>(5)), InvalidArgument);
}

TEST(ParameterLayout, GapsStayZeroWhileANetworkTrains) {
  auto resources = ResourceManager::create({{0}}, 3);
  const auto outputs = [](std::int64_t n) { return Attributes{{"num_output", AttributeValue(n)}}; };
  for (const Optimizer optimizer :
       {Optimizer::SGD, Optimizer::MomentumSGD, Optimizer::Nesterov, Optimizer::AdaGrad,
        Optimizer::Adam, Optimizer::Ftrl, Optimizer::RowWiseAdaGrad}) {
    NetworkOptions options;
    options.local_batch = 6;
    options.opt_params.optimizer = optimizer;
    const auto graph = std::make_shared<NetworkGraph>(
        std::vector<NetworkInput>{{"x", {6, 3}, false}, {"label", {6, 1}, false}},
        std::vector<DenseLayerSpec>{{"InnerProduct", {"x"}, {"fc1"}, outputs(5)},
                                    {"InnerProduct", {"fc1"}, {"fc2"}, outputs(1)},
                                    {"BinaryCrossEntropyLoss", {"fc2", "label"}, {"loss"}, {}}},
        options);
    Network network(graph, resources->get_local_gpu(0));
    network.set_dense_weights(graph->initial_parameters());
    const auto fill = [](const TensorRef& ref, float value) {
      for (std::size_t i = 0; i < ref.rows() * ref.row_stride; ++i) ref.ptr<float>()[i] = value;
    };
    fill(network.tensor("x", true), 0.5f);
    fill(network.tensor("label", true), 1.0f);
    fill(network.sample_weight(true), 1.0f);
    for (int step = 1; step <= 3; ++step) {
      network.set_scalars({.step = step, .lr = 0.1f, .inv_weight_sum = 1.0f / 6.0f});
      network.train();
      network.update_params();
    }
    resources->synchronize();
    const std::vector<float> packed = network.dense_weights();
    EXPECT_NE(packed, graph->initial_parameters());
    const TensorRef w = network.weights();
    const std::vector<float> flat(w.ptr<float>(), w.ptr<float>() + w.size());
    EXPECT_EQ(flat, graph->layout().spread(packed));
    for (const std::size_t offset : graph->layout().offsets()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.ptr<float>() + offset) % 32, 0u);
    }
  }
}

}  // namespace
}  // namespace hugectr
