// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/multi_cross.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/projected_cross.hpp"

namespace hugectr {
namespace {

/// Cross layers of DCN, (b, n) -> (b, n).
///
/// Attributes: `num_layers`, `weight_init_type` (XavierUniform, with a projection XavierNorm),
/// `bias_init_type` (Zero), `projection_dim` = k: 0 is DCN v1 with weights w (n) and b (n) a
/// layer, k > 0 is DCN v2 with U (n, k), V (k, n) and b (n) a layer.
class MultiCrossLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() == 2, "(batch, columns)");
    layers_ = positive("num_layers", 1);
    projection_ = positive("projection_dim", 0);
    declare_parameters(builder, x.shape[1]);
    projection_ > 0 ? forward_projected(builder, x) : forward_vectors(builder, x);
  }

  void backward(LayerBuilder& builder) override {
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const std::size_t batch = x.shape[0], n = x.shape[1];
    partial_ =
        builder.scratch(name() + "@partial",
                        projection_ > 0 ? Shape{partial_rows(batch), n}
                                        : Shape{cross_pieces(batch), (layers_ + 1) * n + layers_});
    projection_ > 0 ? backward_projected(builder, x) : backward_vectors(builder, x);
  }

 private:
  std::size_t positive(const char* attribute, std::int64_t least) const {
    const std::int64_t value = spec().attributes.get_int(attribute, 0);
    HCTR_CHECK(value >= least, "MultiCross layer \"", name(), "\": ", attribute, " is ", value,
               ", must be at least ", least);
    return static_cast<std::size_t>(value);
  }

  TensorRef declare(LayerBuilder& builder, const std::string& what, std::size_t layer,
                    const Shape& shape, FillValues values) {
    return builder.parameter({.name = name() + "." + what + std::to_string(layer),
                              .layer = name(),
                              .shape = shape,
                              .initialize = std::move(values)});
  }

  // The order is that of the dense model file: all of a cross layer, then the next one.
  void declare_parameters(LayerBuilder& builder, std::size_t n) {
    const Initializer weight = spec().attributes.get_initializer("weight_init_type");
    Initializer bias = spec().attributes.get_initializer("bias_init_type");
    if (bias == Initializer::Default) bias = Initializer::Zero;
    for (std::size_t l = 0; l < layers_; ++l) {
      if (projection_ > 0) {
        us_.push_back(declare(builder, "u", l, {n, projection_},
                              weight_values(weight, Initializer::XavierNorm, n, projection_)));
        vs_.push_back(declare(builder, "v", l, {projection_, n},
                              weight_values(weight, Initializer::XavierNorm, projection_, n)));
      } else {
        ws_.push_back(declare(builder, "weight", l, {n},
                              weight_values(weight, Initializer::XavierUniform, n, 1)));
      }
      bs_.push_back(declare(builder, "bias", l, {n}, bias_values(bias, n)));
    }
  }

  void forward_vectors(LayerBuilder& builder, const TensorRef& x) {
    const TensorRef y = builder.top(name(), x.shape);
    dots_ = builder.scratch(name() + "@dots", {x.shape[0], layers_});
    builder.forward(MultiCrossFwd{.x = x, .ws = ws_, .bs = bs_, .y = y, .dots = dots_}, name());
  }

  void backward_vectors(LayerBuilder& builder, const TensorRef& x) {
    MultiCrossBwd op{.x = x, .ws = ws_, .bs = bs_, .dots = dots_, .partial = partial_};
    op.dy = builder.gradient(name());
    op.dx = gradient_if_needed(builder, spec().bottoms[0]);
    for (std::size_t l = 0; l < layers_; ++l) {
      op.dws.push_back(builder.parameter_gradient(ws_[l]));
      op.dbs.push_back(builder.parameter_gradient(bs_[l]));
    }
    builder.backward(op, name());
  }

  std::string scratch_name(const char* what, std::size_t layer) const {
    return name() + "@" + what + std::to_string(layer);
  }

  void forward_projected(LayerBuilder& builder, const TensorRef& x0) {
    xs_ = {x0};
    for (std::size_t l = 0; l < layers_; ++l) {
      hs_.push_back(builder.scratch(scratch_name("h", l), {x0.shape[0], projection_}));
      zs_.push_back(builder.scratch(scratch_name("z", l), x0.shape));
      xs_.push_back(l + 1 == layers_ ? builder.top(name(), x0.shape)
                                     : builder.scratch(scratch_name("x", l + 1), x0.shape));
      builder.forward(ProjectedCrossFwd{.x0 = x0,
                                        .x = xs_[l],
                                        .u = us_[l],
                                        .v = vs_[l],
                                        .bias = bs_[l],
                                        .h = hs_[l],
                                        .z = zs_[l],
                                        .y = xs_[l + 1]},
                      name());
    }
  }

  void backward_projected(LayerBuilder& builder, const TensorRef& x0) {
    const TensorRef dx0 = gradient_if_needed(builder, spec().bottoms[0]);
    TensorRef dy = builder.gradient(name());
    const TensorRef dz = builder.scratch(name() + "@dz", x0.shape);
    const TensorRef dh = builder.scratch(name() + "@dh", {x0.shape[0], projection_});
    for (std::size_t l = layers_; l-- > 0;) {
      const TensorRef dx = l == 0 ? TensorRef{} : builder.scratch(scratch_name("dx", l), x0.shape);
      builder.backward(ProjectedCrossBwd{.x0 = x0,
                                         .x = xs_[l],
                                         .u = us_[l],
                                         .v = vs_[l],
                                         .h = hs_[l],
                                         .z = zs_[l],
                                         .dy = dy,
                                         .dx0 = dx0,
                                         .dx = dx,
                                         .du = builder.parameter_gradient(us_[l]),
                                         .dv = builder.parameter_gradient(vs_[l]),
                                         .dbias = builder.parameter_gradient(bs_[l]),
                                         .dz = dz,
                                         .dh = dh,
                                         .partial = partial_,
                                         .accumulate = l + 1 < layers_,
                                         .x_is_x0 = l == 0},
                       name());
      dy = dx;
    }
  }

  std::size_t layers_ = 0, projection_ = 0;
  std::vector<TensorRef> ws_, us_, vs_, bs_, xs_, hs_, zs_;
  TensorRef dots_, partial_;
};

}  // namespace

std::unique_ptr<Layer> make_multi_cross(const DenseLayerSpec& spec) {
  return std::make_unique<MultiCrossLayer>(spec);
}

}  // namespace hugectr
