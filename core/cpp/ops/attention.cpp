// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/attention.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"

namespace hugectr {
namespace {

void check_packed_heads(const char* op, const TensorRef& q,
                        std::initializer_list<const TensorRef*> refs) {
  for (const TensorRef* ref : refs) {
    HCTR_CHECK(!heads_lie_apart(q) || ref->contiguous(), op, ": a tensor of shape ",
               to_string(ref->shape), " must be contiguous where heads lie apart");
  }
}

template <class Op>
void check_attention(const Op& op) {
  constexpr const char* kName = Op::kName;
  check_real(kName, "q", op.q);
  const Shape& q = op.q.shape;
  const bool apart = heads_lie_apart(op.q);
  const std::size_t length = q.size() - 2;  // its dimension
  HCTR_CHECK((q.size() == 3 || apart) && op.k.shape.size() == q.size() && op.k.shape[length] > 0,
             kName, ": q ", to_string(q), " and k ", to_string(op.k.shape),
             " must have (b, length, heads * dim) or (b, heads, length, dim)");
  const auto heads = static_cast<std::size_t>(op.heads);
  HCTR_CHECK(op.heads >= 1 && (apart || q[2] % heads == 0), kName, ": ", op.heads,
             " heads do not divide the ", q[2], " columns of q");
  HCTR_CHECK(!apart || q[1] == heads, kName, ": q ", to_string(q), " must have ", heads, " heads");
  Shape keys = q;
  keys[length] = op.k.shape[length];
  check_real(kName, "k", op.k, op.q.dtype, keys);
  check_real(kName, "v", op.v, op.q.dtype, keys);
  check_real(kName, "o", op.o, op.q.dtype, q);
  if (!op.mask.empty()) {
    check_real(kName, "mask", op.mask, op.q.dtype, {q[0], 1, q[length], keys[length]});
  }
  check_packed_float(kName, "lse", op.lse, {q[0], heads, q[length]});
  check_packed_heads(kName, op.q, {&op.q, &op.k, &op.v, &op.o});
}

}  // namespace

void AttentionFwd::check() const { check_attention(*this); }

void AttentionBwd::check() const {
  check_attention(*this);
  check_real(kName, "dy", dy, q.dtype, q.shape);
  check_real(kName, "dq", dq, q.dtype, q.shape);
  check_real(kName, "dk", dk, q.dtype, k.shape);
  check_real(kName, "dv", dv, q.dtype, k.shape);
  check_packed_float(kName, "delta", delta, lse.shape);
  check_packed_heads(kName, q, {&dy, &dq, &dk, &dv});
}

namespace {

// One head of one sample.
struct Head {
  std::size_t sample, number, heads;

  Matrix of(const TensorRef& ref) const {
    Matrix matrix;
    const std::size_t dim = ref.shape[2] / heads;
    matrix.data = ref.row<float>(sample) + number * dim;
    matrix.dtype = ref.dtype;
    matrix.columns = dim;
    matrix.rows = ref.shape[1];
    matrix.stride = ref.shape[2];
    return matrix;
  }
  float* statistics(const TensorRef& ref) const {
    return ref.row<float>(sample) + number * ref.shape[2];
  }
};

Matrix square(std::vector<float>& values, std::size_t rows, std::size_t columns) {
  values.resize(rows * columns);
  Matrix matrix;
  matrix.data = values.data();
  matrix.dtype = TensorScalarType::Float32;
  matrix.rows = rows;
  matrix.columns = matrix.stride = columns;
  return matrix;
}

template <class Op>
void set_scores(const Op& op, const Head& head, const Matrix& scores) {
  gemm_in_thread({.transpose_b = true,
                  .a = head.of(op.q),
                  .b = head.of(op.k),
                  .c = scores,
                  .alpha = attention_scale(op.q, op.heads)});
  if (op.mask.empty()) return;
  const float* mask = op.mask.template row<float>(head.sample / samples_of_mask(op));
  float* score = scores.ptr();
  for (std::size_t e = 0; e < scores.rows * scores.columns; ++e) {
    score[e] -= (1.0f - mask[e]) * kMaskedPair;
  }
}

void forward_head(const AttentionFwd& op, const Head& head) {
  thread_local std::vector<float> values;
  const Matrix scores = square(values, op.q.shape[1], op.k.shape[1]);
  set_scores(op, head, scores);
  float* lse = head.statistics(op.lse);
  for (std::size_t i = 0; i < scores.rows; ++i) {
    float* row = scores.row(i);
    const float most = *std::max_element(row, row + scores.columns);
    float sum = 0.0f;
    for (std::size_t j = 0; j < scores.columns; ++j) sum += row[j] = std::exp(row[j] - most);
    for (std::size_t j = 0; j < scores.columns; ++j) row[j] /= sum;
    lse[i] = most + std::log(sum);
  }
  gemm_in_thread({.a = scores, .b = head.of(op.v), .c = head.of(op.o)});
}

void backward_head(const AttentionBwd& op, const Head& head) {
  thread_local std::vector<float> p_values, ds_values;
  const Matrix p = square(p_values, op.q.shape[1], op.k.shape[1]);
  const Matrix ds = square(ds_values, p.rows, p.columns);
  const Matrix dy = head.of(op.dy), o = head.of(op.o);
  set_scores(op, head, p);
  gemm_in_thread({.transpose_b = true, .a = dy, .b = head.of(op.v), .c = ds});
  const float scale = attention_scale(op.q, op.heads);
  const float* lse = head.statistics(op.lse);
  for (std::size_t i = 0; i < p.rows; ++i) {
    float delta = 0.0f;
    for (std::size_t d = 0; d < o.columns; ++d) delta += dy.row(i)[d] * o.row(i)[d];
    head.statistics(op.delta)[i] = delta;
    float* __restrict share = p.row(i);
    float* __restrict gradient = ds.row(i);
    for (std::size_t j = 0; j < p.columns; ++j) {
      share[j] = std::exp(share[j] - lse[i]);
      gradient[j] = scale * share[j] * (gradient[j] - delta);
    }
  }
  gemm_in_thread({.a = ds, .b = head.of(op.k), .c = head.of(op.dq)});
  gemm_in_thread({.transpose_a = true, .a = ds, .b = head.of(op.q), .c = head.of(op.dk)});
  gemm_in_thread({.transpose_a = true, .a = p, .b = dy, .c = head.of(op.dv)});
}

template <class Op, class Body>
void for_each_head(const OpContext& ctx, const Op& op, const Body& body) {
  const auto heads = static_cast<std::size_t>(op.heads);
  parallel_for(*ctx.pool, op.q.rows() * heads, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(op, Head{i / heads, i % heads, heads});
  });
}

void attention_fwd_kernel(const OpContext& ctx, const AttentionFwd& op) {
  for_each_head(ctx, heads_as_samples(op), forward_head);
}

void attention_bwd_kernel(const OpContext& ctx, const AttentionBwd& op) {
  for_each_head(ctx, heads_as_samples(op), backward_head);
}

const OpRegistration<AttentionFwd> attention_fwd_cpu{DeviceType::Cpu, &attention_fwd_kernel};
const OpRegistration<AttentionBwd> attention_bwd_cpu{DeviceType::Cpu, &attention_bwd_kernel};

}  // namespace
}  // namespace hugectr
