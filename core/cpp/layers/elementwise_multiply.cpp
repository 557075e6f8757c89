// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/elementwise_multiply.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// Element-wise product of two or more bottoms of one shape. DotProduct is the older name of the
/// same layer: it does not reduce.
class ElementwiseMultiplyLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(2, 0, 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    check_equal_bottoms(*this, xs);
    const TensorRef y = builder.top(name(), xs[0].shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(ElementwiseMultiplyFwd{.xs = xs, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    if (!any_bottom_needs_gradient(*this, builder)) return;
    ElementwiseMultiplyBwd op{.xs = bottoms_of(*this, builder), .dy = builder.gradient(name())};
    for (std::size_t i = 0; i < spec().bottoms.size(); ++i) {
      if (!builder.needs_gradient(spec().bottoms[i])) continue;
      op.dxs.push_back(builder.gradient(spec().bottoms[i]));
      op.wanted.push_back(static_cast<std::int64_t>(i));
    }
    builder.backward(op, name());
  }
};

}  // namespace

std::unique_ptr<Layer> make_elementwise_multiply(const DenseLayerSpec& spec) {
  return std::make_unique<ElementwiseMultiplyLayer>(spec);
}

std::unique_ptr<Layer> make_dot_product(const DenseLayerSpec& spec) {
  return std::make_unique<ElementwiseMultiplyLayer>(spec);
}

}  // namespace hugectr
