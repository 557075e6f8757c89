// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/attention.hpp"

namespace hugectr {
namespace {

/// Attention of queries (b, m, n) over keys and values (b, t, n), in `num_attention_heads` parts of
/// the columns: softmax(q k^T / sqrt(n / heads) - (1 - mask) * 1e4) v -> (b, m, n). With heads
/// apart, queries (b, heads, m, d), keys and values (b, heads, t, d) -> (b, heads, m, d). The
/// fourth bottom, where it is given, is a mask (b, 1, m, t) of 1 and 0, which gets no gradient.
class MultiHeadAttentionLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(3, 4, 1);
    const std::vector<TensorRef> xs = bottoms_of(*this, builder);
    const Shape& q = xs[0].shape;
    check_bottom(*this, 0, xs[0], q.size() == 3 || q.size() == 4,
                 "(batch, length, heads * dim) or (batch, heads, length, dim)");
    const std::size_t length = q.size() - 2;  // its dimension
    Shape keys = q;
    if (xs[1].shape.size() == q.size()) keys[length] = xs[1].shape[length];
    for (std::size_t i = 1; i < 3; ++i) {
      check_bottom(*this, i, xs[i], xs[i].shape == keys, to_string(keys));
    }
    op_ = {.q = xs[0], .k = xs[1], .v = xs[2], .heads = heads_of(q)};
    if (xs.size() == 4) {
      const Shape mask{q[0], 1, q[length], keys[length]};
      check_bottom(*this, 3, xs[3], xs[3].shape == mask, to_string(mask));
      op_.mask = xs[3];
    }
    op_.o = builder.top(name(), q);
    op_.lse =
        builder.scratch(name() + "@lse", {q[0], static_cast<std::size_t>(op_.heads), q[length]},
                        TensorScalarType::Float32);
    pass_on_no_gradient(*this, builder);
    builder.forward(op_, name());
  }

  void backward(LayerBuilder& builder) override {
    HCTR_CHECK(!has_mask() || !builder.needs_gradient(spec().bottoms[3]),
               "MultiHeadAttention layer \"", name(), "\": bottom \"", spec().bottoms[3],
               "\", the mask, needs a gradient and gets none: make it with SequenceMask");
    if (!any_bottom_needs_gradient(*this, builder)) return;
    const auto gradient = [&](std::size_t i, const char* unused) {
      const std::string& bottom = spec().bottoms[i];
      return builder.needs_gradient(bottom)
                 ? builder.gradient(bottom)
                 : builder.scratch(concat(name(), "@", unused), builder.bottom(bottom).shape);
    };
    builder.backward(AttentionBwd{.q = op_.q,
                                  .k = op_.k,
                                  .v = op_.v,
                                  .mask = op_.mask,
                                  .o = op_.o,
                                  .lse = op_.lse,
                                  .dy = builder.gradient(name()),
                                  .dq = gradient(0, "dq"),
                                  .dk = gradient(1, "dk"),
                                  .dv = gradient(2, "dv"),
                                  .delta = builder.scratch(name() + "@delta", op_.lse.shape,
                                                           TensorScalarType::Float32),
                                  .heads = op_.heads},
                     name());
  }

 private:
  /// Checked; 1, the default, goes with any heads that lie apart.
  std::int64_t heads_of(const Shape& q) const {
    const std::int64_t heads = spec().attributes.get_int("num_attention_heads", 1);
    if (q.size() == 4) {
      const auto apart = static_cast<std::int64_t>(q[1]);
      HCTR_CHECK(heads == 1 || heads == apart, "MultiHeadAttention layer \"", name(),
                 "\": num_attention_heads is ", heads, ", must be 1 or the ", apart,
                 " heads of bottom \"", spec().bottoms[0], "\"");
      return apart;
    }
    HCTR_CHECK(heads >= 1 && q[2] % static_cast<std::size_t>(heads) == 0,
               "MultiHeadAttention layer \"", name(), "\": num_attention_heads is ", heads,
               ", must divide the ", q[2], " columns of bottom \"", spec().bottoms[0], "\"");
    return heads;
  }
  bool has_mask() const { return spec().bottoms.size() == 4; }

  AttentionFwd op_;
};

}  // namespace

std::unique_ptr<Layer> make_multi_head_attention(const DenseLayerSpec& spec) {
  return std::make_unique<MultiHeadAttentionLayer>(spec);
}

}  // namespace hugectr
