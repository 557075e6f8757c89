// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// Each column to mean beta and deviation gamma over the real samples of the GLOBAL batch; with the
/// running statistics in evaluation. (b, n) -> (b, n).
///
/// Attributes: `factor` (1.0, weight of the batch in the running statistics), `eps` (1e-5),
/// `gamma_init_type` (1), `beta_init_type` (0).
class BatchNormLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() == 2, "(batch, columns)");
    eps_ = spec().attributes.get_double("eps", 1e-5);
    HCTR_CHECK(eps_ > 0.0, "BatchNorm layer \"", name(), "\": eps is ", eps_, ", must be positive");
    declare_parameters(builder, x.shape[1]);
    const TensorRef y = builder.top(name(), x.shape);
    if (builder.info().train) {
      append_statistics(builder, x);
    } else {
      mean_ = running_mean_;
      mean_low_ = running_mean_low_;
      var_ = running_var_;
    }
    builder.forward(BatchNormFwd{.x = x,
                                 .mean = mean_,
                                 .mean_low = mean_low_,
                                 .var = var_,
                                 .gamma = gamma_,
                                 .beta = beta_,
                                 .y = y,
                                 .eps = eps_},
                    name());
  }

  void backward(LayerBuilder& builder) override {
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef dy = builder.gradient(name());
    const TensorRef dsums = doubles(builder, "dsums", {2 * x.shape[1]});
    builder.backward(
        BatchNormBwdSums{.x = x,
                         .mean = mean_,
                         .mean_low = mean_low_,
                         .var = var_,
                         .dy = dy,
                         .dsums = dsums,
                         .dgamma = builder.parameter_gradient(gamma_),
                         .dbeta = builder.parameter_gradient(beta_),
                         .partial = doubles(builder, "dsums_partial",
                                            {partial_rows(x.shape[0]), 2 * x.shape[1]}),
                         .eps = eps_},
        name());
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    if (builder.info().devices > 1) builder.backward(AllReduce{.data = dsums}, name());
    builder.backward(BatchNormBwd{.x = x,
                                  .weight = builder.external(schedule_names::kSampleWeight),
                                  .mean = mean_,
                                  .mean_low = mean_low_,
                                  .var = var_,
                                  .gamma = gamma_,
                                  .dy = dy,
                                  .sums = sums_,
                                  .dsums = dsums,
                                  .dx = builder.gradient(spec().bottoms[0]),
                                  .eps = eps_},
                     name());
  }

 private:
  TensorRef doubles(LayerBuilder& builder, const std::string& what, const Shape& shape) const {
    return builder.scratch(name() + "@" + what, shape, TensorScalarType::Float64);
  }

  FillValues values(const char* attribute, float standard, std::size_t n) const {
    const Initializer kind = spec().attributes.get_initializer(attribute);
    return kind == Initializer::Default ? fill_constant(standard) : bias_values(kind, n);
  }

  void declare_parameters(LayerBuilder& builder, std::size_t n) {
    gamma_ = builder.parameter({.name = name() + ".gamma",
                                .layer = name(),
                                .shape = {n},
                                .initialize = values("gamma_init_type", 1.0f, n)});
    beta_ = builder.parameter({.name = name() + ".beta",
                               .layer = name(),
                               .shape = {n},
                               .initialize = values("beta_init_type", 0.0f, n)});
    running_mean_ = builder.non_trainable(
        {.name = name() + ".mean", .layer = name(), .shape = {n}, .initial = 0.0f});
    running_mean_low_ = builder.non_trainable(
        {.name = name() + ".mean_low", .layer = name(), .shape = {n}, .initial = 0.0f});
    running_var_ = builder.non_trainable(
        {.name = name() + ".var", .layer = name(), .shape = {n}, .initial = 1.0f});
  }

  void append_statistics(LayerBuilder& builder, const TensorRef& x) {
    const std::size_t n = x.shape[1], rows = partial_rows(x.shape[0]);
    const TensorRef weight = builder.external(schedule_names::kSampleWeight);
    sums_ = doubles(builder, "sums", {n + 1});
    const TensorRef squares = doubles(builder, "squares", {n});
    mean_ = builder.scratch(name() + "@mean", {n});
    mean_low_ = builder.scratch(name() + "@mean_low", {n});
    var_ = builder.scratch(name() + "@var", {n});
    builder.forward(BatchNormSums{.x = x,
                                  .weight = weight,
                                  .sums = sums_,
                                  .partial = doubles(builder, "sums_partial", {rows, n + 1})},
                    name());
    if (builder.info().devices > 1) builder.forward(AllReduce{.data = sums_}, name());
    builder.forward(BatchNormSquares{.x = x,
                                     .weight = weight,
                                     .sums = sums_,
                                     .squares = squares,
                                     .partial = doubles(builder, "squares_partial", {rows, n})},
                    name());
    if (builder.info().devices > 1) builder.forward(AllReduce{.data = squares}, name());
    builder.forward(BatchNormStatistics{.sums = sums_,
                                        .squares = squares,
                                        .mean = mean_,
                                        .mean_low = mean_low_,
                                        .var = var_,
                                        .running_mean = running_mean_,
                                        .running_mean_low = running_mean_low_,
                                        .running_var = running_var_,
                                        .factor = spec().attributes.get_double("factor", 1.0)},
                    name());
  }

  double eps_ = 1e-5;
  TensorRef gamma_, beta_, running_mean_, running_mean_low_, running_var_, sums_, mean_, mean_low_,
      var_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(const DenseLayerSpec& spec) {
  return std::make_unique<BatchNormLayer>(spec);
}

}  // namespace hugectr
