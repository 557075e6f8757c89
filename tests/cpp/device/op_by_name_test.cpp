// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op_by_name.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

enum class Flavour { Plain, Sweet, Sour };

/// Has every kind of field.
struct FieldsTestOp {
  static constexpr const char* kName = "test_fields";
  TensorRef x, bias, y, state;
  std::vector<TensorRef> parts;
  bool flag = false;
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  double rate = 0;
  Flavour flavour = Flavour::Plain;
  std::vector<std::int64_t> axes;
  std::vector<double> scales;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.optional("bias", Access::In, bias);
    v.tensors("parts", Access::In, parts);
    v.tensor("y", Access::Out, y);
    v.optional("state", Access::InOut, state);
    v.attribute("flag", flag);
    v.attribute("count", count);
    v.attribute("seed", seed);
    v.attribute("rate", rate);
    v.attribute("flavour", flavour);
    v.attribute("axes", axes);
    v.attribute("scales", scales);
  }
  void check() const {}
};
const OpRegistration<FieldsTestOp> fields_cpu{DeviceType::Cpu,
                                              [](const OpContext&, const FieldsTestOp&) {}};

template <class F>
void expect_refused(const F& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "accepted";
  } catch (const InvalidArgument& e) {
    for (const auto& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
}

TEST(OpByName, ListsItsFields) {
  const std::map<std::string, std::string> expected{{"x", "in"},
                                                    {"bias", "in"},
                                                    {"parts", "in"},
                                                    {"y", "out"},
                                                    {"state", "inout"},
                                                    {"flag", "attribute"},
                                                    {"count", "attribute"},
                                                    {"seed", "attribute"},
                                                    {"rate", "attribute"},
                                                    {"flavour", "attribute"},
                                                    {"axes", "attribute"},
                                                    {"scales", "attribute"}};
  EXPECT_EQ(OpByName("test_fields").fields(), expected);
}

TEST(OpByName, FillsTensorsAndAttributes) {
  float x[2], y[2], a[1], b[1];
  OpByName by_name("test_fields");
  by_name.set_tensor("x", make_ref(x, {2}));
  by_name.set_tensor("y", make_ref(y, {2}));
  by_name.set_tensors("parts", {make_ref(a, {1}), make_ref(b, {1})});
  by_name.set_attribute("flag", true);
  by_name.set_attribute("count", std::int64_t{-3});
  by_name.set_attribute("seed", std::int64_t{7});
  by_name.set_attribute("rate", 0.5);
  by_name.set_attribute("flavour", std::int64_t{2});
  by_name.set_attribute("axes", std::vector<std::int64_t>{1, 2});
  by_name.set_attribute("scales", std::vector<double>{1.5});
  const AnyOp any = by_name.take();
  const auto* op = any.get_if<FieldsTestOp>();
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->x.data, x);
  EXPECT_EQ(op->y.data, y);
  ASSERT_EQ(op->parts.size(), 2u);
  EXPECT_EQ(op->parts[1].data, b);
  EXPECT_TRUE(op->bias.empty());
  EXPECT_TRUE(op->flag);
  EXPECT_EQ(op->count, -3);
  EXPECT_EQ(op->seed, 7u);
  EXPECT_EQ(op->rate, 0.5);
  EXPECT_EQ(op->flavour, Flavour::Sour);
  EXPECT_EQ(op->axes, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(op->scales, (std::vector<double>{1.5}));
}

TEST(OpByName, ConvertsWhereNothingIsLost) {
  OpByName by_name("test_fields");
  float x[1];
  by_name.set_tensor("x", make_ref(x, {1}));
  by_name.set_tensor("y", make_ref(x, {1}));
  by_name.set_attribute("flag", std::int64_t{1});
  by_name.set_attribute("count", 2.0);
  by_name.set_attribute("rate", std::int64_t{3});
  by_name.set_attribute("scales", std::vector<std::int64_t>{1, 2});
  by_name.set_attribute("axes", std::vector<double>{});
  const AnyOp any = by_name.take();
  const auto* op = any.get_if<FieldsTestOp>();
  EXPECT_TRUE(op->flag);
  EXPECT_EQ(op->count, 2);
  EXPECT_EQ(op->rate, 3.0);
  EXPECT_EQ(op->scales, (std::vector<double>{1, 2}));
  expect_refused([&] { by_name.set_attribute("flag", std::int64_t{2}); }, {"'flag'", "bool"});
  expect_refused([&] { by_name.set_attribute("count", 2.5); }, {"'count'", "int"});
  expect_refused([&] { by_name.set_attribute("seed", std::int64_t{-1}); }, {"'seed'"});
  expect_refused([&] { by_name.set_attribute("rate", std::vector<double>{1}); }, {"'rate'"});
  expect_refused([&] { by_name.set_attribute("axes", std::vector<double>{0.5}); }, {"'axes'"});
  expect_refused([&] { by_name.set_attribute("scales", 1.0); }, {"'scales'"});
}

TEST(OpByName, UnknownFieldsAndMissingTensorsAreNamed) {
  float x[1];
  OpByName by_name("test_fields");
  const TensorRef ref = make_ref(x, {1});
  expect_refused([&] { by_name.set_tensor("z", ref); },
                 {"test_fields", "'z'", "x (in)", "y (out)"});
  expect_refused([&] { by_name.set_tensor("rate", ref); }, {"no tensor 'rate'"});
  expect_refused([&] { by_name.set_tensors("x", {ref}); }, {"no list of tensors 'x'"});
  expect_refused([&] { by_name.set_attribute("speed", 1.0); }, {"'speed'", "rate (attribute)"});
  by_name.set_tensor("x", ref);
  expect_refused([&] { by_name.take(); }, {"test_fields", "needs the tensor 'y'"});
  EXPECT_THROW(OpByName("test_no_such_op"), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
