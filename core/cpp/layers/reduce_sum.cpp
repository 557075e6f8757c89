// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/reduce_sum.hpp"

#include <utility>

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// Sum (ReduceSum) or mean (ReduceMean) over `axis` (1 by default) of a 2-D or 3-D bottom; the axis
/// stays with size 1.
class ReduceLayer final : public Layer {
 public:
  ReduceLayer(DenseLayerSpec spec, bool mean) : Layer(std::move(spec)), mean_(mean) {}

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const std::size_t dims = x.shape.size();
    check_bottom(*this, 0, x, dims == 2 || dims == 3, "2-D or 3-D");
    axis_ = spec().attributes.get_int("axis", 1);
    HCTR_CHECK(axis_ != 0, spec().type, " layer \"", name(),
               "\": axis 0 is the batch, which is spread over the devices; use axis 1",
               dims == 3 ? " or 2" : "");
    HCTR_CHECK(axis_ >= 1 && axis_ < static_cast<std::int64_t>(dims), spec().type, " layer \"",
               name(), "\": axis is ", axis_, ", must be 1", dims == 3 ? " or 2" : "",
               " for bottom \"", spec().bottoms[0], "\" of shape ", to_string(x.shape));
    Shape shape = x.shape;
    std::size_t& size = shape[static_cast<std::size_t>(axis_)];
    if (mean_) factor_ = 1.0 / static_cast<double>(size);
    size = 1;
    const TensorRef y = builder.top(name(), shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(ReduceSumFwd{.x = x, .y = y, .axis = axis_, .factor = factor_}, name());
  }

  void backward(LayerBuilder& builder) override {
    const std::string& bottom = spec().bottoms[0];
    if (!builder.needs_gradient(bottom)) return;
    builder.backward(ReduceSumBwd{.dy = builder.gradient(name()),
                                  .dx = builder.gradient(bottom),
                                  .axis = axis_,
                                  .factor = factor_},
                     name());
  }

 private:
  bool mean_;
  std::int64_t axis_ = 1;
  double factor_ = 1.0;
};

}  // namespace

std::unique_ptr<Layer> make_reduce_mean(const DenseLayerSpec& spec) {
  return std::make_unique<ReduceLayer>(spec, true);
}

std::unique_ptr<Layer> make_reduce_sum(const DenseLayerSpec& spec) {
  return std::make_unique<ReduceLayer>(spec, false);
}

}  // namespace hugectr
