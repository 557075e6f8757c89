// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/regularizer.hpp"
#include "core/cpp/ops/slice.hpp"
#include "core/cpp/schedule/bound_schedule.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kBatch = 600;
constexpr TensorRole kExternal = TensorRole::External;
constexpr TensorRole kGradient = TensorRole::Gradient;

/// [cross | relu(x w0 + b0)] w1 + b1, with a relu at the end or without, and its backward.
struct Branches {
  struct Widths {
    std::size_t cross = 13, deep = 24, out = 1;
  };

  explicit Branches(Widths w, bool relu = false, bool train = true) : n(w), relu_ends(relu) {
    cross = s.add_tensor("cross", {kBatch, n.cross});
    const TensorRef given = s.add_tensor("given", {kBatch, n.cross}, kExternal);
    s.add(Phase::Forward, ReluFwd{.x = given, .y = cross}, "cross");
    x = s.add_tensor("x", {kBatch, 5}, kExternal);
    z = s.add_tensor("z", {kBatch, n.deep});
    deep = s.add_tensor("deep", {kBatch, n.deep});
    both = s.add_tensor("both", {kBatch, n.cross + n.deep});
    y = s.add_tensor("y", {kBatch, n.out});
    w0 = parameter("w0", {5, n.deep});
    b0 = parameter("b0", {n.deep});
    w1 = parameter("w1", {n.cross + n.deep, n.out});
    b1 = parameter("b1", {n.out});
    s.add(Phase::Forward, LinearFwd{.x = x, .w = w0, .b = b0, .y = z}, "fc0");
    s.add(Phase::Forward, ReluFwd{.x = z, .y = deep}, "relu0");
    s.add(Phase::Forward, ConcatFwd{.xs = {cross, deep}, .y = both}, "concat");
    const TensorRef last = relu ? s.add_tensor("before", {kBatch, n.out}) : y;
    s.add(Phase::Forward, LinearFwd{.x = both, .w = w1, .b = b1, .y = last}, "fc1");
    if (relu) s.add(Phase::Forward, ReluFwd{.x = last, .y = y}, "relu1");
    if (train) backward();
  }

  TensorRef parameter(const std::string& name, const Shape& shape) {
    s.add_tensor("d" + name, shape, kExternal);
    return s.add_tensor(name, shape, kExternal);
  }

  void backward() {
    TensorRef dy = s.add_tensor("dy", {kBatch, n.out}, kExternal);
    if (relu_ends) {
      const TensorRef dz = s.add_tensor("dbefore", {kBatch, n.out}, kGradient);
      s.add(Phase::Backward, ReluBwd{.y = y, .dy = dy, .dx = dz}, "relu1");
      dy = dz;
    }
    const TensorRef d_both = s.add_tensor("both@grad", both.shape, kGradient);
    const TensorRef d_cross = s.add_tensor("cross@grad", cross.shape, kGradient);
    const TensorRef d_deep = s.add_tensor("deep@grad", deep.shape, kGradient);
    const TensorRef d_z = s.add_tensor("z@grad", z.shape, kGradient);
    s.keep("cross@grad");
    s.add(Phase::Backward, linear_bwd("1", both, w1, dy, d_both), "fc1");
    const auto begin = static_cast<std::int64_t>(n.cross);
    s.add(Phase::Backward, SliceFwd{.x = d_both, .ys = {d_cross, d_deep}, .begins = {0, begin}},
          "concat");
    s.add(Phase::Backward, ReluBwd{.y = deep, .dy = d_deep, .dx = d_z}, "relu0");
    s.add(Phase::Backward, linear_bwd("0", x, w0, d_z, {}), "fc0");
  }

  LinearBwd linear_bwd(const std::string& number, const TensorRef& in, const TensorRef& w,
                       const TensorRef& dy, const TensorRef& dx) {
    return {
        .x = in,
        .w = w,
        .dy = dy,
        .dx = dx,
        .dw = s.ref("dw" + number),
        .db = s.ref("db" + number),
        .partial = s.add_tensor("partial" + number, {partial_rows(kBatch), w.shape[1]}, kGradient)};
  }

  StepSchedule s;
  Widths n;
  bool relu_ends;
  TensorRef cross, x, z, deep, both, y, w0, b0, w1, b1;
};

void split(StepSchedule& s) {
  fuse_linear_activation(s);
  split_linear_over_concat(s);
}

template <class Op>
std::vector<Op> records_of(const StepSchedule& s) {
  std::vector<Op> found;
  for (const OpRecord& record : s.records()) {
    if (const auto* op = record.op.get_if<Op>()) found.push_back(*op);
  }
  return found;
}

bool splits(StepSchedule& s) {
  split(s);
  return records_of<ConcatFwd>(s).empty();
}

void expect_rows(const StepSchedule& s, const TensorRef& part, const TensorRef& of,
                 std::size_t first, std::size_t rows) {
  const ScheduleTensor& view = s.tensors()[static_cast<std::size_t>(part.id)];
  EXPECT_EQ(view.role, TensorRole::View);
  EXPECT_EQ(view.base, of.id);
  EXPECT_EQ(view.offset, first * of.shape[1]);
  EXPECT_EQ(view.shape, (Shape{rows, of.shape[1]}));
}

TEST(SplitLinearOverConcat, TheProductsOfThePartsAddUp) {
  Branches net({.cross = 13, .deep = 24, .out = 3}, true);
  ASSERT_TRUE(splits(net.s));
  EXPECT_TRUE(records_of<SliceFwd>(net.s).empty());

  const auto forward = records_of<LinearFwd>(net.s);
  ASSERT_EQ(forward.size(), 3u);
  EXPECT_EQ(forward[1].x.id, net.cross.id);
  EXPECT_EQ(forward[2].x.id, net.deep.id);
  expect_rows(net.s, forward[1].w, net.w1, 0, 13);
  expect_rows(net.s, forward[2].w, net.w1, 13, 24);
  EXPECT_EQ(forward[1].activation, Activation::Non);
  EXPECT_TRUE(forward[1].b.empty());
  EXPECT_TRUE(forward[1].addend.empty());
  EXPECT_EQ(forward[2].activation, Activation::Relu);
  EXPECT_EQ(forward[2].b.id, net.b1.id);
  EXPECT_EQ(forward[2].addend.id, forward[1].y.id);
  EXPECT_EQ(forward[2].y.id, net.y.id);

  const auto backward = records_of<LinearBwd>(net.s);
  ASSERT_EQ(backward.size(), 3u);
  EXPECT_EQ(backward[0].activation, Activation::Relu);
  EXPECT_EQ(backward[1].activation, Activation::Non);
  EXPECT_EQ(backward[1].dy.id, backward[0].dz.id);  // masked once
  EXPECT_EQ(backward[0].db.id, net.s.id("db1"));    // and summed once
  EXPECT_TRUE(backward[1].db.empty());
  EXPECT_EQ(backward[0].dx.id, net.s.id("cross@grad"));
  EXPECT_EQ(backward[1].dx.id, net.s.id("deep@grad"));
  expect_rows(net.s, backward[0].dw, net.s.ref("dw1"), 0, 13);
  expect_rows(net.s, backward[1].dw, net.s.ref("dw1"), 13, 24);
  EXPECT_EQ(backward[1].w.id, forward[2].w.id);
}

TEST(SplitLinearOverConcat, TheLinearBelowLosesItsMask) {
  Branches net({});
  split(net.s);
  fuse_linear_backward(net.s);
  const auto backward = records_of<LinearBwd>(net.s);
  ASSERT_EQ(backward.size(), 3u);
  EXPECT_EQ(backward[0].below, Activation::Non);
  EXPECT_EQ(backward[1].below, Activation::Relu);
  EXPECT_EQ(backward[1].db_below.id, net.s.id("db0"));
  EXPECT_EQ(backward[2].activation, Activation::Non);
}

TEST(SplitLinearOverConcat, EvaluationSplitsToo) {
  Branches net({}, false, false);
  EXPECT_TRUE(splits(net.s));
  EXPECT_EQ(records_of<LinearFwd>(net.s).size(), 3u);
}

TEST(SplitLinearOverConcat, APartWithoutGradientGetsNone) {
  Branches net({});
  for (OpRecord& record : net.s.records()) {
    const auto* slice = record.op.get_if<SliceFwd>();
    if (slice) record.op = SliceFwd{.x = slice->x, .ys = {slice->ys[1]}, .begins = {13}};
  }
  ASSERT_TRUE(splits(net.s));
  EXPECT_TRUE(records_of<LinearBwd>(net.s)[0].dx.empty());
  EXPECT_EQ(records_of<LinearBwd>(net.s)[1].dx.id, net.s.id("deep@grad"));
}

TEST(SplitLinearOverConcat, OnlyWhereItPays) {
  const auto with = [](const Branches::Widths& widths) {
    Branches net(widths);
    return splits(net.s);
  };
  EXPECT_FALSE(with({.cross = 12}));          // 48 bytes in float32
  EXPECT_FALSE(with({.deep = 8, .out = 9}));  // the sums would be wider
  EXPECT_TRUE(with({.deep = 8, .out = 8}));

  Branches in_16_bits({.cross = 12});  // 24 bytes
  for (const TensorRef& ref : {in_16_bits.cross, in_16_bits.z, in_16_bits.deep, in_16_bits.both,
                               in_16_bits.y, in_16_bits.w0, in_16_bits.b0, in_16_bits.w1,
                               in_16_bits.b1, in_16_bits.s.ref("both@grad")}) {
    in_16_bits.s.let_be_16_bits(ref);
  }
  in_16_bits.s.let_be_16_bits(in_16_bits.x);
  in_16_bits.s.let_be_16_bits(in_16_bits.s.ref("given"));
  cast_to_16_bits(in_16_bits.s, TensorScalarType::BFloat16);
  EXPECT_TRUE(splits(in_16_bits.s));
  const auto last = records_of<LinearFwd>(in_16_bits.s).back();
  expect_rows(in_16_bits.s, last.w, in_16_bits.s.ref(name_in_16_bits("w1")), 12, 24);
}

TEST(SplitLinearOverConcat, NotWhereOthersSeeTheWholeOrItsGradient) {
  Branches read_twice({});
  read_twice.s.add(
      Phase::Forward,
      ReluFwd{.x = read_twice.both, .y = read_twice.s.add_tensor("more", {kBatch, 37})}, "reader");
  EXPECT_FALSE(splits(read_twice.s));
  Branches kept({});
  kept.s.keep("both");
  EXPECT_FALSE(splits(kept.s));
  Branches gradient({});
  gradient.s.keep("both@grad");
  EXPECT_FALSE(splits(gradient.s));
}

TEST(OverwriteGradients, EveryRangeOfRowsHasItsFirstWriter) {
  Branches net({});
  split(net.s);
  overwrite_gradients(net.s);
  for (const LinearBwd& record : records_of<LinearBwd>(net.s)) EXPECT_TRUE(record.overwrite);

  Branches twice({});
  split(twice.s);
  LinearBwd whole = records_of<LinearBwd>(twice.s)[0];
  whole.dw = twice.s.ref("dw1");
  whole.db = {};
  twice.s.add(Phase::Backward, whole, "writes all rows again");
  overwrite_gradients(twice.s);
  EXPECT_TRUE(records_of<LinearBwd>(twice.s)[1].overwrite);
  EXPECT_FALSE(records_of<LinearBwd>(twice.s).back().overwrite);

  Branches regularised({});
  const TensorRef all = regularised.s.add_tensor("@wgrad", {100}, kExternal);
  split(regularised.s);
  auto& records = regularised.s.records();
  records.insert(records.begin(), {RegularizerGrad{.w = all, .dw = all}, Phase::Backward, ""});
  overwrite_gradients(regularised.s);
  for (const LinearBwd& record : records_of<LinearBwd>(regularised.s)) {
    EXPECT_FALSE(record.overwrite);
  }
}

/// Runs the step; every External tensor is a vector, gradients start as NaN where they may.
std::vector<std::vector<float>> run(Branches& net, bool optimized) {
  auto resources = ResourceManager::create({{0}}, 1);
  const OpContext context = resources->get_local_gpu(0).compute_context();
  if (optimized) {
    optimize(net.s);
  } else {
    net.s.refresh_refs();
  }
  std::vector<std::vector<float>> memory;
  std::map<std::string, TensorRef> external;
  memory.reserve(net.s.tensors().size());
  for (const ScheduleTensor& tensor : net.s.tensors()) {
    if (tensor.role != kExternal) continue;
    const bool gradient = tensor.name[0] == 'd' && tensor.name != "dy";
    std::vector<float>& values = memory.emplace_back(num_elements(tensor.shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 37 + tensor.name.size() * 11) % 101) / 101.0f - 0.4f;
      if (gradient) values[i] = optimized ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    }
    external[tensor.name] = make_ref(values.data(), tensor.shape);
  }
  BoundSchedule bound(net.s, context, resources->get_device_memory_resource(0), "test", external);
  bound.run(Phase::Forward, Phase::Backward);
  context.stream->synchronize();
  const TensorRef y = bound.tensor("y"), d_cross = bound.tensor("cross@grad");
  for (const TensorRef& ref : {y, d_cross}) {
    std::vector<float>& values = memory.emplace_back();
    for (std::size_t r = 0; r < kBatch; ++r) {
      values.insert(values.end(), ref.row<float>(r), ref.row<float>(r) + ref.shape[1]);
    }
  }
  return memory;
}

TEST(SplitLinearOverConcat, SplitAndWholeAgree) {
  for (const Branches::Widths widths : {Branches::Widths{}, {.cross = 7, .deep = 9, .out = 5}}) {
    for (const bool relu : {false, true}) {
      Branches plain(widths, relu), fused(widths, relu);
      const auto wanted = run(plain, false), found = run(fused, true);
      EXPECT_TRUE(records_of<ConcatFwd>(fused.s).empty());
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t t = 0; t < wanted.size(); ++t) {
        double distance = 0.0, norm = 0.0;
        ASSERT_EQ(found[t].size(), wanted[t].size());
        for (std::size_t i = 0; i < wanted[t].size(); ++i) {
          const double difference = double{found[t][i]} - double{wanted[t][i]};
          distance += difference * difference;
          norm += double{wanted[t][i]} * double{wanted[t][i]};
        }
        EXPECT_LE(distance, 1e-10 * norm) << t;
        EXPECT_GT(norm, 0.0) << t;
      }
    }
  }
}

}  // namespace
}  // namespace hugectr
