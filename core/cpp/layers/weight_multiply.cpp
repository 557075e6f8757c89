// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/weight_multiply.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// (b, s) -> (b, s * d): column i becomes x[b, i] times row i of the weight.
/// Attributes: `weight_dims` = [s, d], `weight_init_type`.
class WeightMultiplyLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const std::vector<std::int64_t> dims = spec().attributes.get_ints("weight_dims");
    HCTR_CHECK(dims.size() == 2 && dims[0] > 0 && dims[1] > 0, "WeightMultiply layer \"", name(),
               "\": weight_dims must be two positive numbers [columns of the bottom, vector size]");
    const auto slots = static_cast<std::size_t>(dims[0]), dim = static_cast<std::size_t>(dims[1]);
    check_bottom(*this, 0, x, x.shape.size() == 2 && x.shape[1] == slots,
                 "(batch, " + std::to_string(slots) + "), as weight_dims[0] says");
    weight_ = builder.parameter(
        {.name = name() + ".weight",
         .layer = name(),
         .shape = {slots, dim},
         .initialize = weight_values(spec().attributes.get_initializer("weight_init_type"),
                                     Initializer::XavierUniform, slots, dim)});
    const TensorRef y = builder.top(name(), {x.shape[0], slots * dim});
    builder.forward(WeightMultiplyFwd{.x = x, .w = weight_, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef partial =
        builder.scratch(name() + "@partial", {partial_rows(x.shape[0]), weight_.size()});
    builder.backward(WeightMultiplyBwd{.x = x,
                                       .w = weight_,
                                       .dy = builder.gradient(name()),
                                       .dx = gradient_if_needed(builder, spec().bottoms[0]),
                                       .dw = builder.parameter_gradient(weight_),
                                       .partial = partial},
                     name());
  }

 private:
  TensorRef weight_;
};

}  // namespace

std::unique_ptr<Layer> make_weight_multiply(const DenseLayerSpec& spec) {
  return std::make_unique<WeightMultiplyLayer>(spec);
}

}  // namespace hugectr
