// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sigmoid.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// 1 / (1 + e^-x), element by element, any shape.
class SigmoidLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef y = builder.top(name(), x.shape);
    builder.forward(SigmoidFwd{.x = x, .y = y}, name());
    pass_on_no_gradient(*this, builder);
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    builder.backward(SigmoidBwd{.y = builder.bottom(name()),
                                .dy = builder.gradient(name()),
                                .dx = builder.gradient(spec().bottoms[0])},
                     name());
  }
};

}  // namespace

std::unique_ptr<Layer> make_sigmoid(const DenseLayerSpec& spec) {
  return std::make_unique<SigmoidLayer>(spec);
}

}  // namespace hugectr
