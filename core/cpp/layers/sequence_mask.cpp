// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sequence_mask.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// Two lengths a sample, (b, 1) each -> (b, 1, max_sequence_len_from, max_sequence_len_to): 1 where
/// both places exist, else 0. What MultiHeadAttention takes as its mask; it has no gradient.
/// Lengths are read in float32; a layer before that works in bfloat16 has them whole up to 256.
class SequenceMaskLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(2, 2, 1);
    const std::vector<TensorRef> lengths = bottoms_of(*this, builder);
    for (std::size_t i = 0; i < 2; ++i) {
      check_bottom(*this, i, lengths[i], lengths[i].shape == (Shape{lengths[0].shape[0], 1}),
                   "(batch, 1), a length a sample");
    }
    const TensorRef y = builder.top(name(), {lengths[0].shape[0], 1, read("max_sequence_len_from"),
                                             read("max_sequence_len_to")});
    builder.mark_no_gradient(name());
    builder.forward(SequenceMask{.from = lengths[0], .to = lengths[1], .y = y}, name());
  }

  // The mask does not change when a length changes a little.
  void backward(LayerBuilder& builder) override {
    for (const std::string& bottom : spec().bottoms) {
      HCTR_CHECK(!builder.needs_gradient(bottom), "SequenceMask layer \"", name(), "\": bottom \"",
                 bottom, "\" needs a gradient, and lengths have none: take them from the input");
    }
  }

 private:
  std::size_t read(const char* attribute) const {
    const std::int64_t size = spec().attributes.get_int(attribute, 1);
    HCTR_CHECK(size >= 1, "SequenceMask layer \"", name(), "\": ", attribute, " is ", size,
               ", must be at least 1");
    return static_cast<std::size_t>(size);
  }
};

}  // namespace

std::unique_ptr<Layer> make_sequence_mask(const DenseLayerSpec& spec) {
  return std::make_unique<SequenceMaskLayer>(spec);
}

}  // namespace hugectr
