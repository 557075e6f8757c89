// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/network_graph.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/cpp/comm/collective_ops.hpp"

namespace hugectr {
namespace {

/// Three InnerProducts on two devices: six parameters, 4 * 8 + 8 * 8 + 8 weights and their biases.
NetworkGraph three_layers(NetworkOptions options) {
  const auto fc = [](const char* bottom, const char* top, std::int64_t outputs) {
    DenseLayerSpec spec{.type = "InnerProduct", .bottoms = {bottom}, .tops = {top}};
    spec.attributes.set("num_output", outputs);
    return spec;
  };
  options.local_batch = 16;
  options.devices = 2;
  return NetworkGraph(
      {{"label", {16, 1}, false, false}, {"dense", {16, 4}}},
      {fc("dense", "fc1", 8),
       fc("fc1", "fc2", 8),
       fc("fc2", "fc3", 1),
       {.type = "BinaryCrossEntropyLoss", .bottoms = {"fc3", "label"}, .tops = {"loss"}}},
      options);
}

/// "layer" of each record from Backward on, "sum" for one of a bucket, in the order they run.
std::vector<std::string> from_backward_on(const NetworkGraph& graph) {
  std::vector<std::string> names;
  for (const OpRecord& record : graph.train_schedule().records()) {
    if (record.phase < Phase::Backward) continue;
    if (record.sum == GradientSum::Beside) {
      EXPECT_NE(record.op.get_if<AllReduce>(), nullptr);
      EXPECT_EQ(record.phase, Phase::Backward);
      names.emplace_back("sum");
    } else {
      names.push_back(record.layer);
    }
  }
  return names;
}

class NetworkGraphBuckets : public testing::Test {
 protected:
  void TearDown() override { unsetenv("HUGECTR_BUCKET_BYTES"); }
};

using Lines = std::vector<std::string>;

TEST_F(NetworkGraphBuckets, ASmallNetworkHasOneAtTheEndOfBackward) {
  EXPECT_EQ(from_backward_on(three_layers({})),
            (Lines{"fc3", "fc2", "fc1", "sum", "update_params"}));
}

TEST_F(NetworkGraphBuckets, FullOnesAreSummedWhileBackwardGoesOn) {
  setenv("HUGECTR_BUCKET_BYTES", "100", 1);
  EXPECT_EQ(from_backward_on(three_layers({})),
            (Lines{"fc3", "fc2", "sum", "fc1", "sum", "update_params"}));
}

TEST_F(NetworkGraphBuckets, LossScalingLooksAtSums) {
  NetworkOptions options;
  options.compute_dtype = TensorScalarType::Float16;
  options.loss_scale = 128.0;
  const Lines names = from_backward_on(three_layers(options));
  const auto at = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  EXPECT_LT(at("sum"), at("loss_scale"));
  EXPECT_LT(at("loss_scale"), at("update_params"));
}

TEST_F(NetworkGraphBuckets, AVariableThatIsNoNumberIsNamed) {
  for (const char* text : {"4 MB", "0", "-1", "99999999999999999999999"}) {
    setenv("HUGECTR_BUCKET_BYTES", text, 1);
    try {
      three_layers({});
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(concat("HUGECTR_BUCKET_BYTES=", text)),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace hugectr
