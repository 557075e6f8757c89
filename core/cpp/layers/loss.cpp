// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/entry_fields.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/losses/loss_weights.hpp"
#include "core/cpp/losses/losses.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

/// A loss of the catalogue. Bottoms: logits (b, n), label (b, n), (b, 1) for classes, and where
/// there is one a weight (b, 1), which multiplies that of the samples: the loss is then divided by
/// the sum of the products over the global batch. Training writes this device's share of the loss
/// and the logits' gradient; evaluation the loss, "<top>@prediction" (b, n), "<top>@score" (b, 1)
/// of two classes and, where labels may be unknown, "<top>@known" (n, b), the weight of each.
///
/// Attributes: the entry's fields; `loss_weight` (1.0); of pairs `target_weight_vec` (1 each).
/// `use_regularizer`, `regularizer_type`, `lambda` concern the flat parameters and are read by
/// their owner, the network. There is no Sigmoid or Softmax layer before this one.
template <class Entry>
class LossLayer final : public Layer {
 public:
  using Layer::Layer;

  bool is_loss() const override { return true; }
  LabelRange labels() const override {
    const bool classes = OfClasses<Entry> && outputs_.columns > 2;
    const float most = classes ? static_cast<float>(outputs_.columns - 1) : Entry::kMostLabel;
    return {Entry::kLeastLabel, most, Entry::kName};
  }
  const LossOutputs* loss_outputs() const override { return &outputs_; }

  void forward(LayerBuilder& builder) override {
    expect(2, 3, 1);
    CatalogueLoss<Entry> op;
    read_fields(*this, op.entry);
    op.logits = builder.bottom(spec().bottoms[0]);
    op.labels = builder.bottom(spec().bottoms[1]);
    check_shapes(op.logits, op.labels);
    check_order(builder);
    outputs_ = {.name = name(),
                .logits = spec().bottoms[0],
                .labels = spec().bottoms[1],
                .prediction = Entry::kPrediction,
                .columns = op.logits.shape[1],
                .weight = loss_weight(spec())};
    if constexpr (OfPairs<Entry>) op.target_weights = target_weights();
    take_weights(builder, op);
    op.loss = builder.external(schedule_names::kLoss);
    if (builder.info().sums_losses) {
      outputs_.loss = name() + "@loss";
      op.loss = builder.top(outputs_.loss, {1}, TensorScalarType::Float32);
    }
    if (builder.info().train) {
      op.grad_scale = outputs_.weight;
      op.dlogits = gradient_if_needed(builder, spec().bottoms[0]);
      op.loss_scale = builder.loss_scale();
    } else {
      declare_evaluation(builder, op);
    }
    op.partial = scratch(builder, "partial", {partial_rows(op.logits.shape[0])});
    builder.loss(op, name());
  }

  // The gradient is a by-product of the loss and already there.
  void backward(LayerBuilder&) override {}

 private:
  static constexpr auto kFloat = TensorScalarType::Float32;

  void check_shapes(const TensorRef& logits, const TensorRef& labels) const {
    const bool matrix = logits.shape.size() == 2;
    const std::size_t n = matrix ? logits.shape[1] : 0;
    if constexpr (OfClasses<Entry>) {
      check_bottom(*this, 0, logits, n >= 2, "(batch, classes) with at least 2 classes");
      const Shape wanted{logits.shape[0], 1};
      check_bottom(*this, 1, labels, labels.shape == wanted, to_string(wanted));
    } else {
      constexpr bool kPairs = OfPairs<Entry>;
      check_bottom(*this, 0, logits, kPairs ? n >= 1 && n <= kMostLabels : n == 1,
                   kPairs ? concat("(batch, labels) with at most ", kMostLabels, " labels")
                          : std::string("(batch, 1)"));
      check_bottom(*this, 1, labels, labels.shape == logits.shape, to_string(logits.shape));
    }
  }

  /// Labels before logits have the right shapes, and would train nothing without a word. Nor does
  /// a loss have a gradient of labels: what weights make would be learned by halves.
  void check_order(const LayerBuilder& builder) const {
    const auto& bottoms = spec().bottoms;
    HCTR_CHECK(builder.needs_gradient(bottoms[0]) || !builder.needs_gradient(bottoms[1]),
               spec().type, " layer \"", name(), "\": bottom \"", bottoms[1],
               "\" is what weights make of a sample, \"", bottoms[0],
               "\" is not: the bottoms are logits, then labels");
    HCTR_CHECK(!builder.needs_gradient(bottoms[1]), spec().type, " layer \"", name(),
               "\": the labels \"", bottoms[1],
               "\" must come from the data, nothing may be learned through them");
  }

  std::vector<double> target_weights() const {
    std::vector<double> weights = spec().attributes.get_doubles("target_weight_vec");
    HCTR_CHECK(weights.empty() || weights.size() == outputs_.columns, spec().type, " layer \"",
               name(), "\": target_weight_vec has ", weights.size(), " numbers, must have ",
               outputs_.columns, ", one a label");
    return weights;
  }

  TensorRef scratch(LayerBuilder& builder, const char* what, const Shape& shape) const {
    return builder.scratch(name() + "@" + what, shape, TensorScalarType::Float64);
  }

  /// The samples' weights, times the third bottom where there is one.
  void take_weights(LayerBuilder& builder, LossTensors& op) {
    op.weight = builder.external(schedule_names::kSampleWeight);
    op.inv_weight_sum = builder.external(schedule_names::kInvWeightSum);
    if (spec().bottoms.size() < 3) return;
    const TensorRef column = builder.bottom(spec().bottoms[2]);
    const Shape wanted{op.logits.shape[0], 1};
    check_bottom(*this, 2, column, column.shape == wanted, to_string(wanted));
    HCTR_CHECK(!builder.needs_gradient(spec().bottoms[2]), spec().type, " layer \"", name(),
               "\": the weight \"", spec().bottoms[2],
               "\" must come from the data, nothing may be learned through it");
    WeightProduct product{.weight = op.weight, .column = column};
    outputs_.weights = name() + "@weight";
    product.product = builder.top(outputs_.weights, {wanted[0]}, kFloat);
    product.sum = scratch(builder, "weight_sum", {1});
    product.partial = scratch(builder, "weight_partial", {partial_rows(wanted[0])});
    builder.loss(product, name());
    if (builder.info().devices > 1) builder.loss(AllReduce{.data = product.sum}, name());
    InverseSum inverse{.sum = product.sum};
    inverse.inverse = builder.scratch(name() + "@inv_weight_sum", {1}, kFloat);
    builder.loss(inverse, name());
    op.weight = product.product;
    op.inv_weight_sum = inverse.inverse;
  }

  void declare_evaluation(LayerBuilder& builder, LossTensors& op) {
    outputs_.predictions = name() + "@prediction";
    op.prediction = builder.top(outputs_.predictions, op.logits.shape, kFloat);
    outputs_.scores = outputs_.logits;
    if constexpr (OfClasses<Entry>) {
      outputs_.scores.clear();
      if (outputs_.columns == 2) {
        outputs_.scores = name() + "@score";
        op.score = builder.top(outputs_.scores, op.labels.shape, kFloat);
      }
    }
    if constexpr (OfPairs<Entry>) {
      KnownLabels known{.labels = op.labels, .weight = op.weight, .least = Entry::kLeastKnown};
      outputs_.weights = name() + "@known";
      outputs_.weight_a_column = true;
      const Shape shape{outputs_.columns, op.labels.shape[0]};
      known.known = builder.top(outputs_.weights, shape, kFloat);
      builder.loss(known, name());
    }
  }

  LossOutputs outputs_;
};

template <class Entry>
std::unique_ptr<Layer> make_loss(const DenseLayerSpec& spec) {
  return std::make_unique<LossLayer<Entry>>(spec);
}

}  // namespace

double loss_weight(const DenseLayerSpec& spec) {
  const double weight = spec.attributes.get_double("loss_weight", 1.0);
  HCTR_CHECK(weight >= 0.0 && std::isfinite(weight), spec.type, " layer \"",
             spec.tops.empty() ? "" : spec.tops.front(), "\": loss_weight is ", weight,
             ", must be a number from 0 on");
  return weight;
}

std::vector<LayerFactory> loss_layers() {
  std::vector<LayerFactory> all;
  for_each_entry<Losses>(
      [&]<class Entry>(const Entry&) { all.push_back({Entry::kName, &make_loss<Entry>}); });
  return all;
}

}  // namespace hugectr
