// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// What a masked pair loses before the softmax; the original's number, not minus infinity.
inline constexpr float kMaskedPair = 1e4f;

/// Factor of q . k: 1 / sqrt(size of a head).
inline float attention_scale(const TensorRef& q, std::int64_t heads) {
  return 1.0f / std::sqrt(static_cast<float>(q.shape.back()) / static_cast<float>(heads));
}

/// Whether heads are a dimension of q.
inline bool heads_lie_apart(const TensorRef& q) { return q.shape.size() == 4; }

/// Attention of several heads; head h is columns [h dh, (h + 1) dh) of every tensor.
///
///   s[i, j] = q[b, i, h] . k[b, j, h] / sqrt(dh) - (1 - mask[b, 0, i, j]) * 1e4
///   o[b, i, h] = sum_j p[i, j] v[b, j, h],   p[i, j] = exp(s[i, j] - lse[b, h, i])
///   lse[b, h, i] = log sum_j exp(s[i, j])
///
/// q: (b, m, heads * dh); k, v: (b, n, heads * dh), n >= 1; mask: (b, 1, m, n), may be empty (1
/// everywhere); o: like q; all float32, float16 or bfloat16, samples may be strided. Or heads lie
/// apart, q and o (b, heads, m, dh), k and v (b, heads, n, dh), contiguous. lse: float32
/// (b, heads, m), contiguous. Overwrites o and lse. Scores never reach memory; sums are float32;
/// CUDA rounds p to 16 bits where it multiplies on tensor cores. Deterministic. A query that sees
/// no key at all sees every one, and its scores have the three digits that are left beside 1e4.
struct HCTR_API AttentionFwd {
  static constexpr const char* kName = "attention_fwd";
  static constexpr std::string_view k16BitFields = "q k v mask o";
  TensorRef q, k, v, mask, o, lse;
  std::int64_t heads = 1;

  void visit(OpVisitor& visitor) {
    visitor.tensor("q", Access::In, q);
    visitor.tensor("k", Access::In, k);
    visitor.tensor("v", Access::In, v);
    visitor.optional("mask", Access::In, mask);
    visitor.tensor("o", Access::Out, o);
    visitor.tensor("lse", Access::Out, lse);
    visitor.attribute("heads", heads);
  }
  void check() const;
};

/// Gradients of q, k and v, from scores that are computed again:
///
///   ds[i, j] = p[i, j] (do[i] . v[j] - delta[i]),   delta[i] = do[i] . o[i]
///   dq[i] = sum_j ds[i, j] k[j] / sqrt(dh),  dk[j] = sum_i ds[i, j] q[i] / sqrt(dh),
///   dv[j] = sum_i p[i, j] do[i]
///
/// Shapes and dtypes as in the forward, whose o and lse these are. delta: scratch, float32 (b,
/// heads, m), contiguous. Overwrites dq, dk and dv, which overlap nothing. Every sum has one owner
/// and an order: deterministic.
struct HCTR_API AttentionBwd {
  static constexpr const char* kName = "attention_bwd";
  static constexpr std::string_view k16BitFields = "q k v mask o dy dq dk dv";
  TensorRef q, k, v, mask, o, lse, dy, dq, dk, dv, delta;
  std::int64_t heads = 1;

  void visit(OpVisitor& visitor) {
    visitor.tensor("q", Access::In, q);
    visitor.tensor("k", Access::In, k);
    visitor.tensor("v", Access::In, v);
    visitor.optional("mask", Access::In, mask);
    visitor.tensor("o", Access::In, o);
    visitor.tensor("lse", Access::In, lse);
    visitor.tensor("dy", Access::In, dy);
    visitor.tensor("dq", Access::Out, dq);
    visitor.tensor("dk", Access::Out, dk);
    visitor.tensor("dv", Access::Out, dv);
    visitor.tensor("delta", Access::Out, delta);
    visitor.attribute("heads", heads);
  }
  void check() const;
};

/// An op whose heads lie apart as one of b * heads samples that have one head: what kernels see.
/// The mask stays one for b samples, each for `heads` neighbouring ones of q.
template <class Op>
Op heads_as_samples(Op op) {
  if (!heads_lie_apart(op.q)) return op;
  class Join final : public OpVisitor {
   public:
    void tensor(const char* name, Access, TensorRef& ref) override {
      if (std::string_view(name) == "mask") return;
      Shape& shape = ref.shape;
      const std::size_t samples = shape[0] * shape[1];
      // Statistics are (b, heads, m).
      shape = shape.size() == 4 ? Shape{samples, shape[2], shape[3]} : Shape{samples, 1, shape[2]};
      ref.row_stride = ref.row_size();
    }
  } join;
  op.visit(join);
  op.heads = 1;
  return op;
}

/// Samples of q that share one of the mask.
template <class Op>
std::size_t samples_of_mask(const Op& op) {
  return op.mask.empty() || op.mask.rows() == 0 ? 1 : op.q.rows() / op.mask.rows();
}

}  // namespace hugectr
