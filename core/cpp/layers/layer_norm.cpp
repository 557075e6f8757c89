// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/layer_norm.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"

namespace hugectr {
namespace {

/// Every row of the last axis to mean beta and deviation gamma; any shape of two dimensions or
/// more.
///
/// Attributes: `eps` (1e-5), `gamma_init_type` (1), `beta_init_type` (0).
class LayerNormLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() >= 2, "(batch, .., columns)");
    eps_ = spec().attributes.get_double("eps", 1e-5);
    HCTR_CHECK(eps_ > 0.0, "LayerNorm layer \"", name(), "\": eps is ", eps_, ", must be positive");
    gamma_ = declare_scale(*this, builder, "gamma", 1.0f, x.shape.back());
    beta_ = declare_scale(*this, builder, "beta", 0.0f, x.shape.back());
    const TensorRef y = builder.top(name(), x.shape);
    builder.forward(LayerNormFwd{.x = x, .gamma = gamma_, .beta = beta_, .y = y, .eps = eps_},
                    name());
  }

  void backward(LayerBuilder& builder) override {
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const std::size_t n = x.shape.back();
    const Shape partial{layer_norm_pieces(last_axis_rows(x).rows()), 2 * n};
    builder.backward(LayerNormBwd{.x = x,
                                  .gamma = gamma_,
                                  .dy = builder.gradient(name()),
                                  .dx = gradient_if_needed(builder, spec().bottoms[0]),
                                  .dgamma = builder.parameter_gradient(gamma_),
                                  .dbeta = builder.parameter_gradient(beta_),
                                  .partial = builder.scratch(name() + "@partial", partial,
                                                             TensorScalarType::Float32),
                                  .eps = eps_},
                     name());
  }

 private:
  double eps_ = 1e-5;
  TensorRef gamma_, beta_;
};

}  // namespace

std::unique_ptr<Layer> make_layer_norm(const DenseLayerSpec& spec) {
  return std::make_unique<LayerNormLayer>(spec);
}

}  // namespace hugectr
