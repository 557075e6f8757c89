// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/layers/batch_statistics.hpp"
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/dice.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// Dice (core/cpp/ops/dice.hpp) over the columns of the last axis; any shape of two dimensions or
/// more. Evaluation takes the statistics of its own batch too.
///
/// Attributes: `elu_alpha` (1.0, the slope where the gate is closed), `eps` (1e-5).
class PreluDiceLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() >= 2, "(batch, .., columns)");
    alpha_ = spec().attributes.get_double("elu_alpha", 1.0);
    eps_ = spec().attributes.get_double("eps", 1e-5);
    HCTR_CHECK(eps_ > 0.0, "PReLU_Dice layer \"", name(), "\": eps is ", eps_,
               ", must be positive");
    const TensorRef y = builder.top(name(), x.shape);
    batch_ = append_batch_statistics(builder, name(), x);
    builder.forward(DiceFwd{.x = x,
                            .mean = batch_.mean,
                            .mean_low = batch_.mean_low,
                            .var = batch_.var,
                            .y = y,
                            .alpha = alpha_,
                            .eps = eps_},
                    name());
    pass_on_no_gradient(*this, builder);
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef dy = builder.gradient(name());
    const std::size_t n = x.shape.back(), rows = partial_rows(last_axis_rows(x).rows());
    const TensorRef dsums = scratch_of_doubles(builder, name(), "dsums", {2 * n});
    builder.backward(
        DiceBwdSums{.x = x,
                    .mean = batch_.mean,
                    .mean_low = batch_.mean_low,
                    .var = batch_.var,
                    .dy = dy,
                    .dsums = dsums,
                    .partial = scratch_of_doubles(builder, name(), "dsums_partial", {rows, 2 * n}),
                    .alpha = alpha_,
                    .eps = eps_},
        name());
    if (builder.info().devices > 1) builder.backward(AllReduce{.data = dsums}, name());
    builder.backward(DiceBwd{.x = x,
                             .weight = builder.external(schedule_names::kSampleWeight),
                             .mean = batch_.mean,
                             .mean_low = batch_.mean_low,
                             .var = batch_.var,
                             .dy = dy,
                             .sums = batch_.sums,
                             .dsums = dsums,
                             .dx = builder.gradient(spec().bottoms[0]),
                             .alpha = alpha_,
                             .eps = eps_},
                     name());
  }

 private:
  double alpha_ = 1.0, eps_ = 1e-5;
  BatchStatistics batch_;
};

}  // namespace

std::unique_ptr<Layer> make_prelu_dice(const DenseLayerSpec& spec) {
  return std::make_unique<PreluDiceLayer>(spec);
}

}  // namespace hugectr
