// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/collective_ops.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/op_by_name.hpp"
#include "tests/cpp/comm/ranks.hpp"

namespace hugectr {
namespace {

TEST(AllReduceOp, RunsInStreamOrderOnEveryDevice) {
  Ranks ranks(3);
  std::vector<std::vector<float>> data(3, std::vector<float>(5, 1.0f));
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    const OpContext context{.stream = &stream, .communicator = &comm, .device = stream.device()};
    for (int i = 0; i < 3; ++i) {
      run(context, AllReduce{.data = make_ref(data[r].data(), {5}, stream.device())});
    }
  });
  for (const auto& d : data) EXPECT_EQ(d, std::vector<float>(5, 27.0f));
}

TEST(AllReduceOp, HasKernelsForBothKindsOfDevice) {
  EXPECT_TRUE(OpTable::instance().has("all_reduce", DeviceType::Cpu));
  EXPECT_TRUE(OpTable::instance().has("all_reduce", DeviceType::Cuda));
  EXPECT_EQ(OpByName("all_reduce").fields(),
            (std::map<std::string, std::string>{{"data", "inout"}}));
}

TEST(AllReduceOp, ChecksItsArguments) {
  Ranks ranks(1);
  std::vector<std::int32_t> data(6);
  const OpContext context{.stream = ranks.streams[0].get(),
                          .communicator = ranks.communicators[0].get(),
                          .device = {DeviceType::Cpu, 0}};
  EXPECT_THROW(run(context, AllReduce{.data = make_ref(data.data(), {6})}), InvalidArgument);
  std::vector<float> floats(6);
  TensorRef strided = make_ref(floats.data(), {2, 2});
  strided.row_stride = 3;
  EXPECT_THROW(run(context, AllReduce{.data = strided}), InvalidArgument);
  OpContext alone = context;
  alone.communicator = nullptr;
  EXPECT_THROW(run(alone, AllReduce{.data = make_ref(floats.data(), {6})}), InvalidArgument);
  EXPECT_NO_THROW(run(context, AllReduce{.data = make_ref(floats.data(), {6})}));
  ranks.streams[0]->synchronize();
}

}  // namespace
}  // namespace hugectr
