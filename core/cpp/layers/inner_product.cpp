// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/linear_part.hpp"
#include "core/cpp/layers/registry.hpp"

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
    check_linear_bottom(*this, x);
    const std::size_t outputs = read_num_output(*this);
    linear_.forward(builder, *this, {.outputs = outputs}, x,
                    builder.top(name(), linear_shape(x, outputs)));
  }

  void backward(LayerBuilder& builder) override {
    linear_.backward(builder, builder.gradient(name()),
                     gradient_if_needed(builder, spec().bottoms[0]));
  }

 private:
  LinearPart linear_;
};

}  // namespace

std::unique_ptr<Layer> make_inner_product(const DenseLayerSpec& spec) {
  return std::make_unique<InnerProductLayer>(spec);
}

}  // namespace hugectr
