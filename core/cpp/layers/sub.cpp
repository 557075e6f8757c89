// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sub.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/reshape.hpp"

namespace hugectr {
namespace {

/// The first bottom less the second, element by element.
class SubLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(2, 2, 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    check_equal_bottoms(*this, xs);
    const TensorRef y = builder.top(name(), xs[0].shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(SubFwd{.a = xs[0], .b = xs[1], .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    const std::string &a = spec().bottoms[0], &b = spec().bottoms[1];
    if (builder.needs_gradient(b)) {
      builder.backward(SubBwd{.dy = builder.gradient(name()), .db = builder.gradient(b)}, name());
    }
    if (builder.needs_gradient(a)) {
      builder.backward(ReshapeFwd{.x = builder.gradient(name()), .y = builder.gradient(a)}, name());
    }
  }
};

}  // namespace

std::unique_ptr<Layer> make_sub(const DenseLayerSpec& spec) {
  return std::make_unique<SubLayer>(spec);
}

}  // namespace hugectr
