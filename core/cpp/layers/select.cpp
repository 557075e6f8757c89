// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/take.hpp"

namespace hugectr {
namespace {

/// Places of one axis, in any order and as often as listed.
///
/// Gather: rows `indices` of axis 0. Select: places `index` of axis `dim` (0). Axis 0 is the rows
/// that a device has: what is picked there is that of every device.
class SelectLayer final : public Layer {
 public:
  SelectLayer(const DenseLayerSpec& spec, const char* axis, const char* indices)
      : Layer(spec),
        axis_name_(axis),
        axis_(axis == nullptr ? 0 : spec.attributes.get_int(axis, 0)),
        indices_name_(indices),
        indices_(spec.attributes.get_ints(indices)) {}

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const auto dims = static_cast<std::int64_t>(x.shape.size());
    if (axis_name_ != nullptr) {
      HCTR_CHECK(axis_ >= 0 && axis_ < dims, spec().type, " layer \"", name(), "\": ", axis_name_,
                 " is ", axis_, ", must be in [0, ", dims, ") for bottom \"", spec().bottoms[0],
                 "\" of shape ", to_string(x.shape));
    }
    Shape shape = x.shape;
    std::size_t& size = shape[static_cast<std::size_t>(axis_)];
    HCTR_CHECK(!indices_.empty(), spec().type, " layer \"", name(), "\": ", indices_name_,
               " is empty, must list what to pick");
    for (const std::int64_t index : indices_) {
      HCTR_CHECK(index >= 0 && static_cast<std::size_t>(index) < size, spec().type, " layer \"",
                 name(), "\": ", indices_name_, " has ", index, ", which is not in [0, ", size,
                 ") of bottom \"", spec().bottoms[0], "\"");
    }
    size = indices_.size();
    if (axis_ == 0) builder.mark_samples_meet();
    const TensorRef y = builder.top(name(), shape);
    pass_on_no_gradient(*this, builder);
    builder.forward(TakeFwd{.x = x, .y = y, .indices = indices_, .axis = axis_}, name());
  }

  void backward(LayerBuilder& builder) override {
    const std::string& bottom = spec().bottoms[0];
    if (!builder.needs_gradient(bottom)) return;
    builder.backward(TakeBwd{.dy = builder.gradient(name()),
                             .dx = builder.gradient(bottom),
                             .indices = indices_,
                             .axis = axis_},
                     name());
  }

 private:
  const char* axis_name_;  ///< none: axis 0
  std::int64_t axis_;
  const char* indices_name_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

std::unique_ptr<Layer> make_gather(const DenseLayerSpec& spec) {
  return std::make_unique<SelectLayer>(spec, nullptr, "indices");
}

std::unique_ptr<Layer> make_select(const DenseLayerSpec& spec) {
  return std::make_unique<SelectLayer>(spec, "dim", "index");
}

}  // namespace hugectr
