// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/interaction.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// DLRM's pairwise dot products: bottoms (b, w) and (b, S, w), top (b, w + S(S+1)/2 + 1). A second
/// top is a helper, which a FusedInnerProduct may take as its second bottom.
class InteractionLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(2, 2, spec().tops.size() == 2 ? 2 : 1);
    const TensorRef mlp = builder.bottom(spec().bottoms[0]);
    const TensorRef emb = builder.bottom(spec().bottoms[1]);
    check_bottom(*this, 0, mlp, mlp.shape.size() == 2, "(batch, width)");
    const std::size_t width = mlp.shape[1];
    check_bottom(*this, 1, emb,
                 emb.shape.size() == 3 && emb.shape[0] == mlp.shape[0] && emb.shape[2] == width,
                 "(" + std::to_string(mlp.shape[0]) + ", slots, " + std::to_string(width) +
                     "), vectors as wide as bottom \"" + spec().bottoms[0] + "\"");
    const TensorRef y = builder.top(name(), {mlp.shape[0], interaction_width(emb.shape[1], width)});
    if (spec().tops.size() == 2) builder.helper(spec().tops[1], y.shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(InteractionFwd{.mlp = mlp, .emb = emb, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    if (!any_bottom_needs_gradient(*this, builder)) return;
    builder.backward(InteractionBwd{.mlp = builder.bottom(spec().bottoms[0]),
                                    .emb = builder.bottom(spec().bottoms[1]),
                                    .dy = builder.gradient(name()),
                                    .dmlp = gradient_if_needed(builder, spec().bottoms[0]),
                                    .demb = gradient_if_needed(builder, spec().bottoms[1])},
                     name());
  }
};

}  // namespace

std::unique_ptr<Layer> make_interaction(const DenseLayerSpec& spec) {
  return std::make_unique<InteractionLayer>(spec);
}

}  // namespace hugectr
