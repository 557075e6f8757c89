// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/concat.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/slice.hpp"

namespace hugectr {
namespace {

/// Joins any number of bottoms along `axis` (1 by default): 2-D along 1, 3-D along 1 or 2.
class ConcatLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 0, 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    const std::size_t dims = xs[0].shape.size();
    check_bottom(*this, 0, xs[0], dims == 2 || dims == 3, "2-D or 3-D");
    axis_ = spec().attributes.get_int("axis", 1);
    HCTR_CHECK(axis_ >= 1 && axis_ < static_cast<std::int64_t>(dims), "Concat layer \"", name(),
               "\": axis is ", axis_, ", must be 1", dims == 3 ? " or 2" : "", " for ", dims,
               "-D bottoms");
    const auto at = static_cast<std::size_t>(axis_);
    Shape shape = xs[0].shape;
    begins_ = {0};
    for (std::size_t i = 1; i < xs.size(); ++i) {
      Shape wanted = xs[0].shape;
      if (xs[i].shape.size() == dims) wanted[at] = xs[i].shape[at];
      check_bottom(*this, i, xs[i], xs[i].shape == wanted,
                   to_string(xs[0].shape) + " like bottom \"" + spec().bottoms[0] +
                       "\" except at axis " + std::to_string(axis_) + " (Reshape makes it so)");
      begins_.push_back(static_cast<std::int64_t>(shape[at]));
      shape[at] += xs[i].shape[at];
    }
    const TensorRef y = builder.top(spec().tops[0], shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(ConcatFwd{.xs = xs, .y = y, .axis = axis_}, name());
  }

  void backward(LayerBuilder& builder) override {
    if (!any_bottom_needs_gradient(*this, builder)) return;
    SliceFwd op{.x = builder.gradient(spec().tops[0]), .axis = axis_};
    for (std::size_t i = 0; i < spec().bottoms.size(); ++i) {
      if (!builder.needs_gradient(spec().bottoms[i])) continue;
      op.ys.push_back(builder.gradient(spec().bottoms[i]));
      op.begins.push_back(begins_[i]);
    }
    builder.backward(op, name());
  }

 private:
  std::int64_t axis_ = 1;
  std::vector<std::int64_t> begins_;
};

}  // namespace

std::unique_ptr<Layer> make_concat(const DenseLayerSpec& spec) {
  return std::make_unique<ConcatLayer>(spec);
}

}  // namespace hugectr
