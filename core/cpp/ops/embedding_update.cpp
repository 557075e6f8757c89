// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_update.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_update_rules.hpp"
#include "core/cpp/ops/loops/run_sum.hpp"
#include "core/cpp/ops/loops/vec_size_dispatch.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kUpdateGrain = 512;  // rows of a piece
constexpr std::size_t kRunsAhead = 24;     // rows fetched before they are needed

void visit_params(OpVisitor& v, OptParams& params) {
  v.attribute("optimizer", params.optimizer);
  v.attribute("update_type", params.update_type);
  const auto number = [&](const char* name, float& value) {
    double wide = value;
    v.attribute(name, wide);
    // Readers may visit one op from several threads: write only what changed.
    if (static_cast<float>(wide) != value) value = static_cast<float>(wide);
  };
  number("beta1", params.beta1);
  number("beta2", params.beta2);
  number("epsilon", params.epsilon);
  number("momentum_factor", params.momentum_factor);
}

/// Start of state array s, or nullptr when the rule has fewer.
float* state(const std::vector<TensorRef>& states, std::size_t s) {
  return s < states.size() ? states[s].ptr<float>() : nullptr;
}

template <std::size_t D, class Rule>
void update_rows(const EmbeddingUpdate& op, const Rule& rule, std::size_t begin, std::size_t end,
                 std::size_t runs, float unscale) {
  const std::size_t d = D ? D : op.gradient.shape[2];
  const std::uint32_t* __restrict rows = op.unique_rows.ptr<std::uint32_t>();
  const std::uint32_t* __restrict offsets = op.run_offsets.ptr<std::uint32_t>();
  float* weights = op.weights.ptr<float>();
  float* s0 = state(op.states, 0);
  float* s1 = state(op.states, 1);
  const std::size_t occurrences = offsets[end];
  RunSum<D> run_sum(op.sorted_buckets, op.gradient, op.scale);
  alignas(64) float sum[D ? D : kMaxRunVecSize];
  std::size_t fetched = offsets[begin];
  for (std::size_t run = begin; run < end; ++run) {
    if (run + kRunsAhead < runs) {
      const std::size_t ahead = rows[run + kRunsAhead] * d;
      prefetch_row(weights + ahead, d);
      if constexpr (Rule::kStates > 0) prefetch_row(s0 + ahead, d);
      if constexpr (Rule::kStates > 1) prefetch_row(s1 + ahead, d);
    }
    const std::size_t wanted = std::min<std::size_t>(occurrences, offsets[run + 1] + kBucketsAhead);
    for (; fetched < wanted; ++fetched) run_sum.prefetch(fetched);
    run_sum(offsets[run], offsets[run + 1], sum);
    set_scaled<D>(sum, sum, unscale, d);
    const std::size_t at = rows[run] * d;
    rule.apply(d, sum, weights + at, Rule::kStates > 0 ? s0 + at : nullptr,
               Rule::kStates > 1 ? s1 + at : nullptr, rows[run]);
  }
}

float unscale_of(const TensorRef& unscale) {
  return unscale.empty() ? 1.0f : *unscale.ptr<float>();
}

void embedding_update_kernel(const OpContext& context, const EmbeddingUpdate& op) {
  const float unscale = unscale_of(op.unscale);
  if (unscale == 0.0f) return;  // a skipped step
  const auto runs = static_cast<std::size_t>(*op.run_count.ptr<std::int64_t>());
  std::int64_t* last_step = op.last_step.empty() ? nullptr : op.last_step.ptr<std::int64_t>();
  with_row_rule(op.params, *op.lr.ptr<float>(), *op.step.ptr<std::int64_t>(), last_step,
                [&](const auto& rule) {
                  with_vec_size(op.gradient.shape[2], [&](auto dim) {
                    parallel_for(
                        *context.pool, runs, kUpdateGrain, [&](std::size_t begin, std::size_t end) {
                          update_rows<decltype(dim)::value>(op, rule, begin, end, runs, unscale);
                        });
                  });
                });
}

void embedding_sweep_kernel(const OpContext& context, const EmbeddingSweep& op) {
  if (unscale_of(op.unscale) == 0.0f) return;  // a skipped step
  const std::uint32_t* touched = op.unique_rows.ptr<std::uint32_t>();
  const std::uint32_t* touched_end = touched + *op.run_count.ptr<std::int64_t>();
  const std::size_t d = op.weights.shape[1];
  float* weights = op.weights.ptr<float>();
  float* s0 = state(op.states, 0);
  float* s1 = state(op.states, 1);
  with_row_rule(
      op.params, *op.lr.ptr<float>(), *op.step.ptr<std::int64_t>(), nullptr, [&](const auto& rule) {
        using Rule = std::decay_t<decltype(rule)>;
        parallel_for(*context.pool, op.weights.rows(), 2048,
                     [&](std::size_t begin, std::size_t end) {
                       const std::uint32_t* next = std::lower_bound(touched, touched_end, begin);
                       // The rows between two touched ones lie one after the other: one loop over
                       // all of them.
                       for (std::size_t row = begin; row < end;) {
                         const std::size_t stop =
                             next < touched_end ? std::min<std::size_t>(*next, end) : end;
                         if (stop > row) {
                           const std::size_t at = row * d;
                           rule.apply((stop - row) * d, nullptr, weights + at,
                                      Rule::kStates > 0 ? s0 + at : nullptr,
                                      Rule::kStates > 1 ? s1 + at : nullptr, row);
                         }
                         row = stop + 1;
                         ++next;
                       }
                     });
      });
}

const OpRegistration<EmbeddingUpdate> embedding_update_cpu{DeviceType::Cpu,
                                                           &embedding_update_kernel};
const OpRegistration<EmbeddingSweep> embedding_sweep_cpu{DeviceType::Cpu, &embedding_sweep_kernel};

template <class Op>
void check_table(const Op& op) {
  HCTR_CHECK(op.weights.dtype == TensorScalarType::Float32 && op.weights.shape.size() == 2 &&
                 op.weights.contiguous(),
             Op::kName, ": weights have shape ", to_string(op.weights.shape),
             ", must be (rows, d)");
  HCTR_CHECK(op.states.size() == num_states(op.params.optimizer), Op::kName, ": ", op.states.size(),
             " states for an optimizer that has ", num_states(op.params.optimizer));
  for (const TensorRef& state : op.states) {
    check_array(Op::kName, "a state", state, TensorScalarType::Float32, op.weights.size());
  }
  check_array(Op::kName, "lr", op.lr, TensorScalarType::Float32, 1);
  check_array(Op::kName, "step", op.step, TensorScalarType::Int64, 1);
  check_array(Op::kName, "run_count", op.run_count, TensorScalarType::Int64, 1);
  if (!op.unscale.empty()) {
    check_array(Op::kName, "unscale", op.unscale, TensorScalarType::Float32, 1);
  }
}

}  // namespace

void EmbeddingUpdate::visit(OpVisitor& v) {
  v.tensor("sorted_buckets", Access::In, sorted_buckets);
  v.tensor("unique_rows", Access::In, unique_rows);
  v.tensor("run_offsets", Access::In, run_offsets);
  v.tensor("run_count", Access::In, run_count);
  v.tensor("gradient", Access::In, gradient);
  v.optional("scale", Access::In, scale);
  v.tensor("weights", Access::InOut, weights);
  v.tensors("states", Access::InOut, states);
  v.optional("last_step", Access::InOut, last_step);
  v.tensor("lr", Access::In, lr);
  v.tensor("step", Access::In, step);
  v.optional("unscale", Access::In, unscale);
  visit_params(v, params);
}

void EmbeddingUpdate::check() const {
  check_table(*this);
  check_real(kName, "gradient", gradient);
  HCTR_CHECK(gradient.shape.size() == 3 && gradient.shape[2] == weights.shape[1] &&
                 gradient.shape[2] <= kMaxRunVecSize,
             kName, ": gradient has shape ", to_string(gradient.shape),
             ", must be (samples, slots, ", weights.shape[1], ")");
  HCTR_CHECK(!keeps_last_step(params) || (last_step.dtype == TensorScalarType::Int64 &&
                                          last_step.size() >= weights.shape[0]),
             kName, ": last_step must hold one int64 a row for Adam with LazyGlobal");
  if (!scale.empty()) {
    check_array(kName, "scale", scale, TensorScalarType::Float32,
                gradient.shape[0] * gradient.shape[1]);
  }
}

void EmbeddingSweep::visit(OpVisitor& v) {
  v.tensor("unique_rows", Access::In, unique_rows);
  v.tensor("run_count", Access::In, run_count);
  v.tensor("weights", Access::InOut, weights);
  v.tensors("states", Access::InOut, states);
  v.tensor("lr", Access::In, lr);
  v.tensor("step", Access::In, step);
  v.optional("unscale", Access::In, unscale);
  visit_params(v, params);
}

void EmbeddingSweep::check() const {
  check_table(*this);
  HCTR_CHECK(sweeps_untouched_rows(params), kName, ": these settings leave untouched rows alone");
}

}  // namespace hugectr
