// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/linear_part.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// y = act(x w + b): (b, n) -> (b, num_output), or with more dimensions before the last.
///
/// Attributes: those of InnerProduct; `act_type` ("Relu", or "Non"); `pos_type`, where the layer
/// stands in its stack, which says how many helpers it names beside x and y:
///   "Non", "Isolated"  x [+ 1] -> y      "Head"  x [+ 1] -> y [+ 3]
///   "Tail"             x [+ 3] -> y      "Body"  x [+ 3] -> y [+ 3]
/// The one is the second top of an Interaction, the three are mask, dRelu and db of the layer
/// before. They carry nothing here: gradients find their own way.
class FusedInnerProductLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    const std::string position = spec().attributes.get_string("pos_type", "Non");
    expect(1, 4, spec().tops.size() == 4 ? 4 : 1);
    check_position(position);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_linear_bottom(*this, x);
    for (std::size_t i = 1; i < spec().bottoms.size(); ++i) {
      HCTR_CHECK(builder.is_helper(spec().bottoms[i]), "FusedInnerProduct layer \"", name(),
                 "\": bottom \"", spec().bottoms[i],
                 "\" must be a helper top of the layer before (mask, dRelu, db, or the second top "
                 "of an Interaction)");
    }
    const std::size_t outputs = read_num_output(*this);
    const TensorRef y = builder.top(name(), linear_shape(x, outputs));
    if (spec().tops.size() == 4) {
      builder.helper(spec().tops[1], y.shape);
      builder.helper(spec().tops[2], y.shape);
      builder.helper(spec().tops[3], {1, outputs});
    }
    const std::string act = spec().attributes.get_string("act_type", "Relu");
    linear_.forward(builder, *this, {.outputs = outputs, .activation = read_activation(*this, act)},
                    x, y);
  }

  void backward(LayerBuilder& builder) override {
    linear_.backward(builder, builder.gradient(name()),
                     gradient_if_needed(builder, spec().bottoms[0]));
  }

 private:
  void check_position(const std::string& position) const {
    const std::size_t bottoms = spec().bottoms.size(), tops = spec().tops.size();
    const bool alone = position == "Non" || position == "Isolated";
    const bool inside = position == "Body" || position == "Tail";
    HCTR_CHECK(alone || inside || position == "Head", "FusedInnerProduct layer \"", name(),
               "\": pos_type is \"", position, "\", must be Non, Isolated, Head, Body or Tail");
    const bool more_tops = position == "Head" || position == "Body";
    HCTR_CHECK(tops == 1 || more_tops, "FusedInnerProduct layer \"", name(), "\": pos_type ",
               position, " has 1 top, found ", tops);
    const bool ok = bottoms == 1 || (bottoms == 2 && !inside) || (bottoms == 4 && inside);
    HCTR_CHECK(ok, "FusedInnerProduct layer \"", name(), "\": pos_type ", position, " has 1 or ",
               inside ? 4 : 2, " bottoms, found ", bottoms);
  }

  LinearPart linear_;
};

}  // namespace

std::unique_ptr<Layer> make_fused_inner_product(const DenseLayerSpec& spec) {
  return std::make_unique<FusedInnerProductLayer>(spec);
}

}  // namespace hugectr
