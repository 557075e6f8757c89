// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// y = x w + b: (b, n) -> (b, num_output), or (b, s, n) -> (b, s, num_output).
/// Attributes: `num_output`, `weight_init_type` (XavierNorm), `bias_init_type`
/// (N(0, sqrt(1 / num_output))).
class InnerProductLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() == 2 || x.shape.size() == 3,
                 "(batch, columns) or (batch, steps, columns)");
    const std::int64_t num_output = spec().attributes.get_int("num_output", 1);
    HCTR_CHECK(num_output > 0, "InnerProduct layer \"", name(), "\": num_output is ", num_output,
               ", must be at least 1");
    declare_parameters(builder, x.shape.back(), static_cast<std::size_t>(num_output));
    Shape shape = x.shape;
    shape.back() = static_cast<std::size_t>(num_output);
    const TensorRef y = builder.top(name(), shape);
    builder.forward(LinearFwd{.x = x, .w = weight_, .b = bias_, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef partial = builder.scratch(
        name() + "@partial", {partial_rows(x.size() / x.shape.back()), bias_.size()});
    builder.backward(LinearBwd{.x = x,
                               .w = weight_,
                               .dy = builder.gradient(name()),
                               .dx = gradient_if_needed(builder, spec().bottoms[0]),
                               .dw = builder.parameter_gradient(weight_),
                               .db = builder.parameter_gradient(bias_),
                               .partial = partial},
                     name());
  }

 private:
  void declare_parameters(LayerBuilder& builder, std::size_t in, std::size_t out) {
    const Attributes& attributes = spec().attributes;
    weight_ = builder.parameter(
        {.name = name() + ".weight",
         .layer = name(),
         .shape = {in, out},
         .initialize = weight_values(attributes.get_initializer("weight_init_type"),
                                     Initializer::XavierNorm, in, out)});
    bias_ = builder.parameter(
        {.name = name() + ".bias",
         .layer = name(),
         .shape = {out},
         .initialize = bias_values(attributes.get_initializer("bias_init_type"), out)});
  }

  TensorRef weight_, bias_;
};

}  // namespace

std::unique_ptr<Layer> make_inner_product(const DenseLayerSpec& spec) {
  return std::make_unique<InnerProductLayer>(spec);
}

}  // namespace hugectr
