// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/softmax.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// Softmax over the last axis; any shape of two dimensions or more. A second bottom is a mask: 1
/// keeps an element, 0 takes it out. It gets no gradient.
class SoftmaxLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 2, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() >= 2, "(batch, .., columns)");
    SoftmaxFwd op{.x = x};
    if (spec().bottoms.size() == 2) {
      op.mask = builder.bottom(spec().bottoms[1]);
      check_bottom(*this, 1, op.mask, softmax_mask_fits(op.mask.shape, x.shape),
                   "a mask of shape " + to_string(x.shape) +
                       ", or with 1 for neighbouring dimensions between the first and the last");
    }
    op.y = builder.top(name(), x.shape);
    builder.forward(op, name());
    if (!builder.needs_gradient(spec().bottoms[0])) builder.mark_no_gradient(name());
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    builder.backward(SoftmaxBwd{.y = builder.bottom(name()),
                                .dy = builder.gradient(name()),
                                .dx = builder.gradient(spec().bottoms[0])},
                     name());
  }
};

}  // namespace

std::unique_ptr<Layer> make_softmax(const DenseLayerSpec& spec) {
  return std::make_unique<SoftmaxLayer>(spec);
}

}  // namespace hugectr
