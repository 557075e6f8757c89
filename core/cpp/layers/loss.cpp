// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/entry_fields.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/losses/losses.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// A loss of the catalogue. Bottoms: logits (b, 1) and label (b, 1). Training writes this device's
/// share of the loss and the logits' gradient; evaluation the loss and "<top>@prediction" (b, 1),
/// the probability.
///
/// Attributes: the entry's fields. `use_regularizer`, `regularizer_type`, `lambda` concern the flat
/// parameters and are read by their owner, the network. There is no Sigmoid layer before this one.
template <class Entry>
class LossLayer final : public Layer {
 public:
  using Layer::Layer;

  bool is_loss() const override { return true; }
  LabelRange labels() const override {
    return {Entry::kLeastLabel, Entry::kMostLabel, Entry::kName};
  }

  void forward(LayerBuilder& builder) override {
    expect(2, 2, 1);
    const TensorRef logits = builder.bottom(spec().bottoms[0]);
    const TensorRef labels = builder.bottom(spec().bottoms[1]);
    check_bottom(*this, 0, logits, logits.shape.size() == 2 && logits.shape[1] == 1, "(batch, 1)");
    check_bottom(*this, 1, labels, labels.shape == logits.shape, to_string(logits.shape));
    PointwiseLoss<Entry> op;
    read_fields(*this, op.entry);
    op.logits = logits;
    op.labels = labels;
    op.weight = builder.external(schedule_names::kSampleWeight);
    op.inv_weight_sum = builder.external(schedule_names::kInvWeightSum);
    op.loss = builder.external(schedule_names::kLoss);
    if (builder.info().train) {
      op.dlogits = gradient_if_needed(builder, spec().bottoms[0]);
      op.loss_scale = builder.loss_scale();
    } else {
      op.prediction = builder.top(name() + "@prediction", logits.shape, TensorScalarType::Float32);
    }
    op.partial = builder.scratch(name() + "@partial", {partial_rows(logits.shape[0])},
                                 TensorScalarType::Float64);
    builder.loss(op, name());
  }

  // The gradient is a by-product of the loss and already there.
  void backward(LayerBuilder&) override {}
};

template <class Entry>
std::unique_ptr<Layer> make_loss(const DenseLayerSpec& spec) {
  return std::make_unique<LossLayer<Entry>>(spec);
}

}  // namespace

std::vector<LayerFactory> loss_layers() {
  std::vector<LayerFactory> all;
  for_each_entry<Losses>(
      [&]<class Entry>(const Entry&) { all.push_back({Entry::kName, &make_loss<Entry>}); });
  return all;
}

}  // namespace hugectr
