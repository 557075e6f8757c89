// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/ops/add.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/regularizer.hpp"
#include "core/cpp/schedule/bound_schedule.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kBatch = 700;
constexpr std::size_t kWidths[] = {9, 40, 24, 1};
constexpr std::size_t kLayers = 3;

struct Layer {
  TensorRef x, z, y, w, b, dw, db;
};

/// relu(x w0 + b0) and so on; the last layer has no relu. What the layers' backward appends, from
/// dy on.
class Tower {
 public:
  Tower() {
    constexpr TensorRole kExternal = TensorRole::External;
    TensorRef x = s.add_tensor("x", {kBatch, kWidths[0]}, kExternal);
    for (std::size_t i = 0; i < kLayers; ++i) {
      const std::string n = std::to_string(i);
      const std::size_t in = kWidths[i], out = kWidths[i + 1];
      Layer layer{.x = x,
                  .z = s.add_tensor("z" + n, {kBatch, out}),
                  .w = s.add_tensor("w" + n, {in, out}, kExternal),
                  .b = s.add_tensor("b" + n, {out}, kExternal),
                  .dw = s.add_tensor("dw" + n, {in, out}, kExternal),
                  .db = s.add_tensor("db" + n, {out}, kExternal)};
      s.add(Phase::Forward, LinearFwd{.x = x, .w = layer.w, .b = layer.b, .y = layer.z}, "fc" + n);
      if (i + 1 < kLayers) {
        layer.y = s.add_tensor("y" + n, {kBatch, out});
        s.add(Phase::Forward, ReluFwd{.x = layer.z, .y = layer.y}, "relu" + n);
        x = layer.y;
      }
      layers.push_back(layer);
    }
    backward();
  }

  StepSchedule s;
  std::vector<Layer> layers;

 private:
  TensorRef gradient(const std::string& name, const Shape& shape) {
    return s.add_tensor(name, shape, TensorRole::Gradient);
  }

  void backward() {
    TensorRef dz = s.add_tensor("dy", {kBatch, 1}, TensorRole::External);
    for (std::size_t i = kLayers; i-- > 0;) {
      const std::string n = std::to_string(i);
      const Layer& layer = layers[i];
      TensorRef dx;
      if (i > 0) dx = gradient("dy" + std::to_string(i - 1), layer.x.shape);
      s.add(Phase::Backward,
            LinearBwd{.x = layer.x,
                      .w = layer.w,
                      .dy = dz,
                      .dx = dx,
                      .dw = layer.dw,
                      .db = layer.db,
                      .partial = gradient("partial" + n, {partial_rows(kBatch), kWidths[i + 1]})},
            "fc" + n);
      if (i == 0) break;
      dz = gradient("dz" + std::to_string(i - 1), dx.shape);
      s.add(Phase::Backward, ReluBwd{.y = layer.x, .dy = dx, .dx = dz}, "relu");
    }
  }
};

std::vector<LinearBwd> backward_records(const StepSchedule& s) {
  std::vector<LinearBwd> found;
  for (const OpRecord& record : s.records()) {
    if (const auto* linear = record.op.get_if<LinearBwd>()) found.push_back(*linear);
  }
  return found;
}

void fuse(StepSchedule& s) {
  fuse_linear_activation(s);
  fuse_linear_backward(s);
}

TEST(FuseLinearBackward, EveryProductMasksForTheOneBelow) {
  Tower tower;
  fuse(tower.s);
  const auto records = backward_records(tower.s);
  ASSERT_EQ(records.size(), kLayers);
  for (std::size_t i = 0; i < kLayers; ++i) {  // from the last layer down
    const std::size_t layer = kLayers - 1 - i;
    EXPECT_EQ(records[i].activation, Activation::Non);
    EXPECT_EQ(records[i].below, layer > 0 ? Activation::Relu : Activation::Non);
    EXPECT_EQ(records[i].db.empty(), i > 0);  // the record above sums it
    if (layer == 0) continue;
    EXPECT_EQ(records[i].db_below.id, tower.layers[layer - 1].db.id);
    EXPECT_EQ(records[i].partial_below.shape, (Shape{partial_rows(kBatch), kWidths[layer]}));
    EXPECT_EQ(records[i].dx.id, records[i + 1].dy.id);
    EXPECT_EQ(records[i].dx.id, tower.s.id("dz" + std::to_string(layer - 1)));
  }
}

TEST(FuseLinearBackward, AGradientThatOthersReadStaysUnmasked) {
  Tower kept;
  kept.s.keep("dy1");
  fuse(kept.s);
  EXPECT_EQ(backward_records(kept.s)[0].below, Activation::Non);
  EXPECT_EQ(backward_records(kept.s)[1].activation, Activation::Relu);
  EXPECT_EQ(backward_records(kept.s)[1].below, Activation::Relu);  // the next pair joins

  Tower read_twice;
  StepSchedule& s = read_twice.s;
  const TensorRef seen = s.add_tensor("seen", {kBatch, kWidths[2]}, TensorRole::Gradient);
  s.add(Phase::Backward, AddFwd{.xs = {s.ref("dy1"), s.ref("dy1")}, .y = seen}, "reader");
  fuse(s);
  EXPECT_EQ(backward_records(s)[0].below, Activation::Non);
}

TEST(OverwriteGradients, TheFirstWriterStoresUnlessARegulariserWroteBefore) {
  Tower tower;
  fuse(tower.s);
  overwrite_gradients(tower.s);
  for (const LinearBwd& record : backward_records(tower.s)) {
    EXPECT_TRUE(record.overwrite);
    EXPECT_TRUE(record.overwrite_below);
  }

  Tower twice;
  LinearBwd again = backward_records(twice.s).back();
  twice.s.add(Phase::Backward, again, "a layer with the same parameters");
  overwrite_gradients(twice.s);
  EXPECT_TRUE(backward_records(twice.s)[kLayers - 1].overwrite);
  EXPECT_FALSE(backward_records(twice.s)[kLayers].overwrite);

  Tower regularised;
  StepSchedule& s = regularised.s;
  const TensorRef all = s.add_tensor("@wgrad", {100}, TensorRole::External);
  s.records().insert(s.records().begin(),
                     {RegularizerGrad{.w = all, .dw = all}, Phase::Backward, ""});
  overwrite_gradients(s);
  for (const LinearBwd& record : backward_records(s)) EXPECT_FALSE(record.overwrite);
}

TEST(MarkPaddedRows, OnlyMemoryThatNobodyElseHas) {
  StepSchedule s;
  const TensorRef x = s.add_tensor("x", {4, 13}), y = s.add_tensor("y", {4, 8});
  const TensorRef w = s.add_tensor("w", {13, 8}, TensorRole::External);
  const TensorRef dy = s.add_tensor("dy", {4, 8}, TensorRole::Gradient);
  const TensorRef dx = s.add_tensor("dx", {4, 13}, TensorRole::Gradient);
  s.add(Phase::Forward, LinearFwd{.x = x, .w = w, .y = y}, "fc");
  s.add(Phase::Backward, LinearBwd{.x = x, .w = w, .dy = dy, .dx = dx, .dw = w}, "fc");
  const auto marks = [&] {
    mark_padded_rows(s);
    const LinearBwd backward = backward_records(s)[0];
    EXPECT_EQ(s.records()[0].op.get_if<LinearFwd>()->padded, backward.padded);
    return std::make_pair(backward.padded, backward.dx_padded);
  };
  const auto at = [&](const TensorRef& ref) -> ScheduleTensor& {
    return s.tensors()[static_cast<std::size_t>(ref.id)];
  };
  EXPECT_EQ(marks(), std::make_pair(false, false));  // packed rows
  at(x).row_stride = at(dx).row_stride = 16;
  EXPECT_EQ(marks(), std::make_pair(true, true));
  at(x).role = TensorRole::Gradient;  // shares memory: what lies between its rows is anything
  EXPECT_EQ(marks(), std::make_pair(false, true));

  const int wide = s.add_tensor("wide", {4, 20}).id;
  at(s.ref(wide)).row_stride = 24;
  for (const auto& [offset, padded] : {std::make_pair(0, false), std::make_pair(7, true)}) {
    at(x).role = TensorRole::View;
    at(x).base = wide;
    at(x).offset = static_cast<std::size_t>(offset);
    at(x).row_stride = 24;
    EXPECT_EQ(marks().first, padded) << offset;  // its rows end where those of `wide` do, or not
  }
}

/// All parameter gradients after a run; `start` is what they hold before it.
std::map<std::string, std::vector<float>> gradients(bool fused, float start) {
  auto resources = ResourceManager::create({{0}}, 1);
  const OpContext context = resources->get_local_gpu(0).compute_context();
  Tower tower;
  if (fused) {
    fuse(tower.s);
    overwrite_gradients(tower.s);
  }
  tower.s.refresh_refs();
  std::map<std::string, std::vector<float>> memory;
  std::map<std::string, TensorRef> external;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const ScheduleTensor& tensor : tower.s.tensors()) {
    if (tensor.role != TensorRole::External) continue;
    std::vector<float>& values = memory[tensor.name];
    values.resize(num_elements(tensor.shape));
    const bool gradient = tensor.name[0] == 'd' && tensor.name != "dy";
    for (float& value : values) value = gradient ? start : normal(random);
    external[tensor.name] = make_ref(values.data(), tensor.shape);
  }
  BoundSchedule bound(tower.s, context, resources->get_device_memory_resource(0), "test", external);
  bound.run(Phase::Forward, Phase::Backward);
  context.stream->synchronize();
  return memory;
}

TEST(FuseLinearBackward, FusedAndUnfusedAgree) {
  const auto unfused = gradients(false, 0.0f);
  const auto fused = gradients(true, std::numeric_limits<float>::quiet_NaN());
  ASSERT_EQ(fused.size(), unfused.size());
  for (const auto& [name, wanted] : unfused) {
    double distance = 0.0, norm = 0.0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      distance += std::pow(fused.at(name)[i] - wanted[i], 2.0);
      norm += std::pow(wanted[i], 2.0);
    }
    EXPECT_LE(std::sqrt(distance), 1e-5 * std::sqrt(norm)) << name;
    EXPECT_GT(norm, 0.0) << name;
  }
  EXPECT_EQ(fused, gradients(true, std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace
}  // namespace hugectr
