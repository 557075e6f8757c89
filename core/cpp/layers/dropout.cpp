// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dropout.hpp"

#include <algorithm>

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/reshape.hpp"

namespace hugectr {
namespace {

// The layer's own part of the mask key. From its name, so that adding a layer elsewhere in the
// network does not change the masks here (FNV-1a).
std::int64_t layer_number(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return static_cast<std::int64_t>(hash);
}

/// Drops units at random in training and scales the others by 1 / (1 - rate); the identity in
/// evaluation. Attributes: `dropout_rate` (0.5).
class DropoutLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    rate_ = spec().attributes.get_double("dropout_rate", 0.5);
    HCTR_CHECK(rate_ >= 0.0 && rate_ < 1.0, "Dropout layer \"", name(), "\": dropout_rate is ",
               rate_, ", must be in [0, 1)");
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef y = builder.top(name(), x.shape);
    // A Reshape may have made several rows of a sample.
    const std::size_t samples = std::max<std::size_t>(1, builder.info().local_batch);
    if (x.rows() % samples == 0) rows_per_sample_ = static_cast<std::int64_t>(x.rows() / samples);
    pass_on_no_gradient(*this, builder);
    if (!builder.info().train) {
      builder.forward(ReshapeFwd{.x = x, .y = y}, name());
      return;
    }
    builder.forward(DropoutFwd{.x = x,
                               .step = builder.external(schedule_names::kStep),
                               .first_sample = builder.external(schedule_names::kFirstSample),
                               .y = y,
                               .rate = rate_,
                               .seed = builder.info().seed,
                               .layer = layer_number(name()),
                               .rows_per_sample = rows_per_sample_},
                    name());
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    builder.backward(DropoutBwd{.dy = builder.gradient(name()),
                                .step = builder.external(schedule_names::kStep),
                                .first_sample = builder.external(schedule_names::kFirstSample),
                                .dx = builder.gradient(spec().bottoms[0]),
                                .rate = rate_,
                                .seed = builder.info().seed,
                                .layer = layer_number(name()),
                                .rows_per_sample = rows_per_sample_},
                     name());
  }

 private:
  double rate_ = 0.5;
  std::int64_t rows_per_sample_ = 1;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(const DenseLayerSpec& spec) {
  return std::make_unique<DropoutLayer>(spec);
}

}  // namespace hugectr
