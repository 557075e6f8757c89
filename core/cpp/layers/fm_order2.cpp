// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/fm_order2.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// Second-order interactions of k vectors: (b, k * out_dim) or (b, k, out_dim) -> (b, out_dim).
/// Attribute: `out_dim`.
class FmOrder2Layer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const std::int64_t out_dim = spec().attributes.get_int("out_dim", 0);
    HCTR_CHECK(out_dim > 0, "FmOrder2 layer \"", name(), "\": out_dim is ", out_dim,
               ", must be the size of one vector");
    const auto dim = static_cast<std::size_t>(out_dim);
    check_bottom(*this, 0, x,
                 (x.shape.size() == 2 && x.shape[1] % dim == 0) ||
                     (x.shape.size() == 3 && x.shape[2] == dim),
                 "(batch, k * " + std::to_string(dim) + ") or (batch, k, " + std::to_string(dim) +
                     "), as out_dim says");
    const TensorRef y = builder.top(name(), {x.shape[0], dim});
    pass_on_no_gradient(*this, builder);
    builder.forward(FmOrder2Fwd{.x = x, .y = y}, name());
  }

  void backward(LayerBuilder& builder) override {
    const std::string& bottom = spec().bottoms[0];
    if (!builder.needs_gradient(bottom)) return;
    builder.backward(FmOrder2Bwd{.x = builder.bottom(bottom),
                                 .dy = builder.gradient(name()),
                                 .dx = builder.gradient(bottom)},
                     name());
  }
};

}  // namespace

std::unique_ptr<Layer> make_fm_order2(const DenseLayerSpec& spec) {
  return std::make_unique<FmOrder2Layer>(spec);
}

}  // namespace hugectr
