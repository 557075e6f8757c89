// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/entry_fields.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/elementwise/activations.hpp"

namespace hugectr {
namespace {

/// An activation of the catalogue, element by element, any shape. Attributes: its fields.
template <class Entry>
class ActivationLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    read_fields(*this, entry_);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef y = builder.top(name(), x.shape);
    builder.forward(ActivationFwd<Entry>{.x = x, .y = y, .entry = entry_}, name());
    pass_on_no_gradient(*this, builder);
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    builder.backward(ActivationBwd<Entry>{.y = builder.bottom(name()),
                                          .dy = builder.gradient(name()),
                                          .dx = builder.gradient(spec().bottoms[0]),
                                          .entry = entry_},
                     name());
  }

 private:
  Entry entry_;
};

template <class Entry>
std::unique_ptr<Layer> make_activation(const DenseLayerSpec& spec) {
  return std::make_unique<ActivationLayer<Entry>>(spec);
}

}  // namespace

std::vector<LayerFactory> activation_layers() {
  std::vector<LayerFactory> all;
  for_each_entry<Activations>(
      [&]<class Entry>(const Entry&) { all.push_back({Entry::kName, &make_activation<Entry>}); });
  return all;
}

}  // namespace hugectr
