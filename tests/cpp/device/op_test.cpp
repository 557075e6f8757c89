// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/cpu_stream.hpp"

namespace hugectr {
namespace {

/// y := factor * x + bias, one row at a time.
struct ScaleTestOp {
  static constexpr const char* kName = "test_scale";
  TensorRef x, bias, y;
  double factor = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.optional("bias", Access::In, bias);
    v.tensor("y", Access::Out, y);
    v.attribute("factor", factor);
  }
  void check() const {
    HCTR_CHECK(x.size() == y.size(), "test_scale: x has ", x.size(), " elements, y ", y.size());
  }
};

void scale_kernel(const OpContext&, const ScaleTestOp& op) {
  for (std::size_t i = 0; i < op.x.size(); ++i) {
    const float bias = op.bias.empty() ? 0.0f : *op.bias.ptr<float>();
    op.y.ptr<float>()[i] = static_cast<float>(op.factor) * op.x.ptr<float>()[i] + bias;
  }
}
const OpRegistration<ScaleTestOp> scale_cpu{DeviceType::Cpu, &scale_kernel};

/// Notes the thread its kernel is called in.
struct SubmittingTestOp {
  static constexpr const char* kName = "test_submitting";
  static constexpr bool kSubmits = true;
  static inline std::thread::id called_in;
  void visit(OpVisitor&) {}
  void check() const {}
};
const OpRegistration<SubmittingTestOp> submitting_cpu{
    DeviceType::Cpu, [](const OpContext&, const SubmittingTestOp&) {
      SubmittingTestOp::called_in = std::this_thread::get_id();
    }};

struct Fixture : testing::Test {
  const DeviceId device{DeviceType::Cpu, 1};
  std::unique_ptr<Stream> stream = make_cpu_stream(device, "test");
  OpContext context{.stream = stream.get(), .device = device};
  float x[3] = {1, 2, 3};
  float y[3] = {0, 0, 0};
  ScaleTestOp op{.x = make_ref(x, {3}, device), .y = make_ref(y, {3}, device), .factor = 2.0};

  void expect_refused(const OpContext& where, const std::vector<std::string>& parts) {
    try {
      run(where, op);
      ADD_FAILURE() << "ran";
    } catch (const InvalidArgument& e) {
      for (const auto& part : parts) {
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      }
    }
  }
};
using AnyOpTest = Fixture;

TEST_F(AnyOpTest, RunsInStreamOrder) {
  std::promise<void> gate;
  stream->submit([&] { gate.get_future().wait(); });
  run(context, op);
  EXPECT_EQ(y[2], 0.0f);
  gate.set_value();
  stream->synchronize();
  EXPECT_EQ(y[2], 6.0f);
}

TEST_F(AnyOpTest, WithoutAStreamItRunsAtOnce) {
  context.stream = nullptr;
  run(context, op);
  EXPECT_EQ(y[0], 2.0f);
}

TEST_F(AnyOpTest, PreparedOpRunsManyTimes) {
  AnyOp any(op);
  EXPECT_THROW(any.run_prepared(context), InvalidArgument);
  any.prepare(context);
  any.run_prepared(context);
  stream->synchronize();
  x[0] = 10;
  any.run_prepared(context);
  stream->synchronize();
  EXPECT_EQ(y[0], 20.0f);
}

TEST_F(AnyOpTest, TensorOfAnotherDeviceIsRefusedByName) {
  op.x.device = {DeviceType::Cpu, 2};
  expect_refused(context, {"test_scale", "'x'", "cpu:1", "cpu:2"});
  op.x.device = DeviceId::host();
  run(context, op);  // host memory is everybody's
  stream->synchronize();
  EXPECT_EQ(y[1], 4.0f);
  op.y.device = {DeviceType::Cuda, 1};
  expect_refused(context, {"'y'", "cuda:1"});
}

TEST_F(AnyOpTest, TensorWithoutMemoryIsRefusedByName) {
  op.y.data = nullptr;
  expect_refused(context, {"test_scale", "'y'", "(3)", "no memory"});
}

TEST_F(AnyOpTest, OptionalTensorsAreCheckedWhenTheyAreThere) {
  float bias = 1;
  op.bias = make_ref(&bias, {1}, {DeviceType::Cpu, 7});
  expect_refused(context, {"'bias'", "cpu:7"});
  op.bias.device = device;
  run(context, op);
  stream->synchronize();
  EXPECT_EQ(y[0], 3.0f);
}

TEST_F(AnyOpTest, ItsOwnCheckRunsInTheCaller) {
  op.y.shape = {2};
  expect_refused(context, {"x has 3 elements, y 2"});
}

TEST_F(AnyOpTest, MissingKernelIsADeviceError) {
  context.device = {DeviceType::Cuda, 0};
  op.x.device = op.y.device = context.device;
  EXPECT_THROW(run(context, op), DeviceError);
}

TEST_F(AnyOpTest, VisitingACopyLeavesTheOtherAlone) {
  AnyOp first(op);
  AnyOp second = first;
  second.for_each_tensor([&](const char* name, Access, TensorRef& ref) {
    if (std::string(name) == "y") ref.shape = {1};
  });
  EXPECT_EQ(first.get_if<ScaleTestOp>()->y.shape, (Shape{3}));
  EXPECT_EQ(second.get_if<ScaleTestOp>()->y.shape, (Shape{1}));
  EXPECT_EQ(first.get_if<SubmittingTestOp>(), nullptr);
  const AnyOp third = second;
  std::vector<std::string> names;
  third.for_each_tensor([&](const char* name, Access, const TensorRef&) { names.push_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y"}));
}

TEST_F(AnyOpTest, OpThatSubmitsIsCalledInTheCaller) {
  run(context, SubmittingTestOp{});
  EXPECT_EQ(SubmittingTestOp::called_in, std::this_thread::get_id());
}

TEST_F(AnyOpTest, MadeByNameHasDefaults) {
  const AnyOp made = AnyOp::make("test_scale");
  EXPECT_STREQ(made.name(), "test_scale");
  ASSERT_NE(made.get_if<ScaleTestOp>(), nullptr);
  EXPECT_EQ(made.get_if<ScaleTestOp>()->factor, 1.0);
  EXPECT_THROW(AnyOp::make("test_no_such_op"), InvalidArgument);
  EXPECT_THROW(AnyOp().run(context), InvalidArgument);
  EXPECT_FALSE(static_cast<bool>(AnyOp()));
}

}  // namespace
}  // namespace hugectr
