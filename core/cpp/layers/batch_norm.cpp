// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/layers/batch_statistics.hpp"
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// Each column to mean beta and deviation gamma over the real samples of the GLOBAL batch; with the
/// running statistics in evaluation. (b, n) -> (b, n); with more dimensions a column is one of the
/// last.
///
/// Attributes: `factor` (1.0, weight of the batch in the running statistics), `eps` (1e-5),
/// `gamma_init_type` (1), `beta_init_type` (0).
class BatchNormLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() >= 2, "(batch, columns) or (batch, steps, columns)");
    eps_ = spec().attributes.get_double("eps", 1e-5);
    HCTR_CHECK(eps_ > 0.0, "BatchNorm layer \"", name(), "\": eps is ", eps_, ", must be positive");
    const std::size_t n = x.shape.back();
    gamma_ = declare_scale(*this, builder, "gamma", 1.0f, n);
    beta_ = declare_scale(*this, builder, "beta", 0.0f, n);
    const RunningStatistics running = declare_running(builder, n);
    const TensorRef y = builder.top(name(), x.shape);
    if (builder.info().train) {
      batch_ = append_batch_statistics(builder, name(), x, running);
    } else {
      batch_ = {{}, running.mean, running.mean_low, running.var};
    }
    builder.forward(BatchNormFwd{.x = x,
                                 .mean = batch_.mean,
                                 .mean_low = batch_.mean_low,
                                 .var = batch_.var,
                                 .gamma = gamma_,
                                 .beta = beta_,
                                 .y = y,
                                 .eps = eps_},
                    name());
  }

  void backward(LayerBuilder& builder) override {
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef dy = builder.gradient(name());
    const std::size_t n = x.shape.back(), rows = partial_rows(last_axis_rows(x).rows());
    const TensorRef dsums = scratch_of_doubles(builder, name(), "dsums", {2 * n});
    builder.backward(BatchNormBwdSums{.x = x,
                                      .mean = batch_.mean,
                                      .mean_low = batch_.mean_low,
                                      .var = batch_.var,
                                      .dy = dy,
                                      .dsums = dsums,
                                      .dgamma = builder.parameter_gradient(gamma_),
                                      .dbeta = builder.parameter_gradient(beta_),
                                      .partial = scratch_of_doubles(builder, name(),
                                                                    "dsums_partial", {rows, 2 * n}),
                                      .eps = eps_},
                     name());
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    if (builder.info().devices > 1) builder.backward(AllReduce{.data = dsums}, name());
    builder.backward(BatchNormBwd{.x = x,
                                  .weight = builder.external(schedule_names::kSampleWeight),
                                  .mean = batch_.mean,
                                  .mean_low = batch_.mean_low,
                                  .var = batch_.var,
                                  .gamma = gamma_,
                                  .dy = dy,
                                  .sums = batch_.sums,
                                  .dsums = dsums,
                                  .dx = builder.gradient(spec().bottoms[0]),
                                  .eps = eps_},
                     name());
  }

 private:
  RunningStatistics declare_running(LayerBuilder& builder, std::size_t n) const {
    const auto declare = [&](const char* what, float initial) {
      return builder.non_trainable(
          {.name = name() + what, .layer = name(), .shape = {n}, .initial = initial});
    };
    RunningStatistics running;
    running.mean = declare(".mean", 0.0f);
    running.mean_low = declare(".mean_low", 0.0f);
    running.var = declare(".var", 1.0f);
    running.factor = spec().attributes.get_double("factor", 1.0);
    return running;
  }

  double eps_ = 1e-5;
  TensorRef gamma_, beta_;
  BatchStatistics batch_;  ///< in evaluation the running ones, without sums
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const DenseLayerSpec& spec) {
  return std::make_unique<BatchNormLayer>(spec);
}

}  // namespace hugectr
