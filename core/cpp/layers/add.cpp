// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/add.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/reshape.hpp"

namespace hugectr {
namespace {

/// Element-wise sum of two or more bottoms of one shape.
class AddLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(2, 0, 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    check_equal_bottoms(*this, xs);
    const TensorRef y = builder.top(name(), xs[0].shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(AddFwd{.xs = xs, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    for (const std::string& bottom : spec().bottoms) {
      if (!builder.needs_gradient(bottom)) continue;
      builder.backward(ReshapeFwd{.x = builder.gradient(name()), .y = builder.gradient(bottom)},
                       name());
    }
  }
};

}  // namespace

std::unique_ptr<Layer> make_add(const DenseLayerSpec& spec) {
  return std::make_unique<AddLayer>(spec);
}

}  // namespace hugectr
