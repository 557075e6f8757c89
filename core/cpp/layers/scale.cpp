// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/reduce_sum.hpp"
#include "core/cpp/ops/reshape.hpp"

namespace hugectr {
namespace {

/// Repeats what a 2-D bottom (b, n) holds; the gradient sums the copies.
///
/// Attributes: `factor` = f (1); `axis` (1): 0 repeats every element f times, (b, n * f); 1 repeats
/// every row f times, (b * f, n).
class ScaleLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    check_bottom(*this, 0, x, x.shape.size() == 2, "(batch, columns)");
    const std::int64_t axis = spec().attributes.get_int("axis", 1);
    HCTR_CHECK(axis == 0 || axis == 1, "Scale layer \"", name(), "\": axis is ", axis,
               ", must be 0 (elements) or 1 (rows)");
    const double factor = spec().attributes.get_double("factor", 1.0);
    HCTR_CHECK(factor >= 1.0 && factor == std::floor(factor) && factor <= 1e6, "Scale layer \"",
               name(), "\": factor is ", factor, ", must be a whole number from 1 to 1000000");
    const std::size_t b = x.shape[0], n = x.shape[1], f = static_cast<std::size_t>(factor);
    // A dimension of 1 is put where the copies go, and grows to f.
    grows_ = axis == 0 ? 2 : 1;
    one_ = axis == 0 ? Shape{b, n, 1} : Shape{b, 1, n};
    all_ = one_;
    all_[static_cast<std::size_t>(grows_)] = f;
    const TensorRef from = builder.scratch(name() + "@one", one_);
    const TensorRef to = builder.top(name() + "@all", all_);
    const TensorRef y = builder.top(name(), axis == 0 ? Shape{b, n * f} : Shape{b * f, n});
    pass_on_no_gradient(*this, builder);
    builder.forward(ReshapeFwd{.x = x, .y = from}, name());
    builder.forward(ReduceSumBwd{.dy = from, .dx = to, .axis = grows_}, name());
    builder.forward(ReshapeFwd{.x = to, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    const std::string& bottom = spec().bottoms[0];
    if (!builder.needs_gradient(bottom)) return;
    const TensorRef all = builder.scratch(name() + "@dall", all_);
    const TensorRef sum = builder.scratch(name() + "@dsum", one_);
    builder.backward(ReshapeFwd{.x = builder.gradient(name()), .y = all}, name());
    builder.backward(ReduceSumFwd{.x = all, .y = sum, .axis = grows_}, name());
    builder.backward(ReshapeFwd{.x = sum, .y = builder.gradient(bottom)}, name());
  }

 private:
  std::int64_t grows_ = 1;
  Shape one_, all_;
};

}  // namespace

std::unique_ptr<Layer> make_scale(const DenseLayerSpec& spec) {
  return std::make_unique<ScaleLayer>(spec);
}

}  // namespace hugectr
