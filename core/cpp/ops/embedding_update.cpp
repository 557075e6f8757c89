// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_update.hpp"

#include <algorithm>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/rounded_rows.hpp"
#include "core/cpp/ops/loops/run_blocks.hpp"
#include "core/cpp/ops/loops/update_weights.hpp"
#include "core/cpp/ops/loops/vec_size_dispatch.hpp"
#include "core/cpp/ops/loops/visit_opt_params.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kUpdateGrain = 512;  // rows of a piece

/// Start of state array s, or nullptr when the rule has fewer.
float* state(const std::vector<TensorRef>& states, std::size_t s) {
  return s < states.size() ? states[s].ptr<float>() : nullptr;
}

/// What all rows of an update share.
struct Step {
  float lr, unscale;
  std::int64_t number;
  std::int64_t* last_step;
};

/// What the rule knows once for all weights of a row with gradient g; takes note that the row is
/// brought up to this step.
template <class Rule>
auto begin_row(const Rule& rule, const Step& step, float rate, std::size_t row, const float* g,
               std::size_t d, float* s0) {
  if constexpr (KeepsLastStep<Rule>) {
    const auto begun = rule.row(step.lr, step.last_step[row], step.number);
    step.last_step[row] = step.number;
    return begun;
  } else if constexpr (RowWise<Rule>) {
    return rule.row(rate, s0[row], mean_square(g, d));
  } else {
    return rate;
  }
}

template <class Weight, class Rule>
void update_rows(const EmbeddingUpdate& op, const Rule& rule, const Step& step, std::size_t begin,
                 std::size_t end, std::size_t runs) {
  constexpr std::size_t kStates = RowWise<Rule> ? 0 : kStateCount<Rule>;  // of as many as weights
  const std::size_t d = op.gradient.shape[2];
  const std::uint32_t* __restrict rows = op.unique_rows.ptr<std::uint32_t>();
  constexpr bool kRounded = !std::is_same_v<Weight, float>;
  Weight* weights = op.weights.ptr<Weight>();
  float* s0 = state(op.states, 0);
  float* s1 = state(op.states, 1);
  const float rate = rate_of(rule, step.lr, step.number);
  std::vector<float> wide(kRounded ? d : 0);  // a row that is rounded
  const RoundedStep rounded(op.rounding, step.number);
  const Adjustment adjust = adjustment_of(op.params);
  const bool adjusts = adjust.any();
  const float kept = adjust.kept(step.lr);
  RunBlocks blocks(op.sorted_buckets, op.gradient, op.scale, op.run_offsets, begin, end);
  for (std::size_t block = begin; block < end; block += RunBlocks::kRuns) {
    const std::size_t block_end = std::min(end, block + RunBlocks::kRuns);
    const std::size_t last_ahead = std::min(runs, block_end + RunBlocks::kRuns);
    for (std::size_t run = block + RunBlocks::kRuns; run < last_ahead; ++run) {
      const std::size_t ahead = rows[run] * d;
      prefetch_row(weights + ahead, d);
      if constexpr (kStates > 0) prefetch_row(s0 + ahead, d);
      if constexpr (kStates > 1) prefetch_row(s1 + ahead, d);
      if constexpr (RowWise<Rule>) prefetch_row(s0 + rows[run], 1);
    }
    float* g = blocks.sums(block, block_end, step.unscale);
    for (std::size_t run = block; run < block_end; ++run, g += d) {
      const std::size_t at = rows[run] * d;
      float* row;
      if constexpr (kRounded) {
        row = wide.data();
        widen_row(weights + at, d, row);
      } else {
        row = weights + at;
      }
      if (adjusts) {
        for (std::size_t c = 0; c < d; ++c) adjust(kept, row[c], g[c]);
      }
      update_weights(rule, begin_row(rule, step, rate, rows[run], g, d, s0), d, g, row,
                     kStates > 0 ? s0 + at : nullptr, kStates > 1 ? s1 + at : nullptr);
      if constexpr (kRounded) {
        rounded.round(op.rounding.numbers.ptr<std::uint32_t>()[run], row, d, weights + at);
      }
    }
  }
}

float unscale_of(const TensorRef& unscale) {
  return unscale.empty() ? 1.0f : *unscale.ptr<float>();
}

void embedding_update_kernel(const OpContext& context, const EmbeddingUpdate& op) {
  const Step step{*op.lr.ptr<float>(), unscale_of(op.unscale), *op.step.ptr<std::int64_t>(),
                  op.last_step.empty() ? nullptr : op.last_step.ptr<std::int64_t>()};
  if (step.unscale == 0.0f) return;  // a skipped step
  const auto runs = static_cast<std::size_t>(*op.run_count.ptr<std::int64_t>());
  with_row_rule(op.params, [&](const auto& rule) {
    const bool rounded = op.weights.dtype == TensorScalarType::BFloat16;
    parallel_for(*context.pool, runs, kUpdateGrain, [&](std::size_t begin, std::size_t end) {
      rounded ? update_rows<BFloat16>(op, rule, step, begin, end, runs)
              : update_rows<float>(op, rule, step, begin, end, runs);
    });
  });
}

/// The rule with no gradient on a row that is kept in bfloat16.
template <class Rule>
void sweep_rounded_rows(const EmbeddingSweep& op, const Rule& rule, float rate, std::size_t begin,
                        std::size_t end) {
  constexpr std::size_t kStates = kStateCount<Rule>;
  const std::size_t d = op.weights.shape[1];
  const RoundedStep rounded(op.rounding, *op.step.ptr<std::int64_t>());
  std::vector<float> wide(d);
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t at = row * d;
    BFloat16* const weights = op.weights.ptr<BFloat16>() + at;
    widen_row(weights, d, wide.data());
    update_weights(rule, rate, d, nullptr, wide.data(),
                   kStates > 0 ? state(op.states, 0) + at : nullptr,
                   kStates > 1 ? state(op.states, 1) + at : nullptr);
    rounded.round(row, wide.data(), d, weights);
  }
}

template <class Rule>
void sweep_rows(const OpContext& context, const EmbeddingSweep& op, const Rule& rule) {
  constexpr std::size_t kStates = kStateCount<Rule>;
  static_assert(!RowWise<Rule> && !KeepsLastStep<Rule>);
  const std::uint32_t* touched = op.unique_rows.ptr<std::uint32_t>();
  const std::uint32_t* touched_end = touched + *op.run_count.ptr<std::int64_t>();
  const std::size_t d = op.weights.shape[1];
  const bool rounded = op.weights.dtype == TensorScalarType::BFloat16;
  float* weights = rounded ? nullptr : op.weights.ptr<float>();
  float* s0 = state(op.states, 0);
  float* s1 = state(op.states, 1);
  const float rate = rate_of(rule, *op.lr.ptr<float>(), *op.step.ptr<std::int64_t>());
  parallel_for(*context.pool, op.weights.rows(), 2048, [&](std::size_t begin, std::size_t end) {
    const std::uint32_t* next = std::lower_bound(touched, touched_end, begin);
    // The rows between two touched ones lie one after the other: one loop over all of them.
    for (std::size_t row = begin; row < end;) {
      const std::size_t stop = next < touched_end ? std::min<std::size_t>(*next, end) : end;
      if (rounded) {
        sweep_rounded_rows(op, rule, rate, row, stop);
      } else if (stop > row) {
        const std::size_t at = row * d;
        update_weights(rule, rate, (stop - row) * d, nullptr, weights + at,
                       kStates > 0 ? s0 + at : nullptr, kStates > 1 ? s1 + at : nullptr);
      }
      row = stop + 1;
      ++next;
    }
  });
}

void embedding_sweep_kernel(const OpContext& context, const EmbeddingSweep& op) {
  if (unscale_of(op.unscale) == 0.0f) return;  // a skipped step
  with_row_rule(op.params, [&]<class Rule>(const Rule& rule) {
    if constexpr (Rule::kMovesUntouchedRows) sweep_rows(context, op, rule);
  });
}

const OpRegistration<EmbeddingUpdate> embedding_update_cpu{DeviceType::Cpu,
                                                           &embedding_update_kernel};
const SeveralRegistration<EmbeddingUpdate> several_embedding_update_cpu{DeviceType::Cpu};
const OpRegistration<EmbeddingSweep> embedding_sweep_cpu{DeviceType::Cpu, &embedding_sweep_kernel};
const SeveralRegistration<EmbeddingSweep> several_embedding_sweep_cpu{DeviceType::Cpu};

template <class Op>
void check_table(const Op& op) {
  const std::vector<std::size_t> widths = state_widths(op.params, op.weights.shape[1]);
  HCTR_CHECK(op.states.size() == widths.size(), Op::kName, ": ", op.states.size(),
             " states for an optimizer that has ", widths.size());
  for (std::size_t s = 0; s < widths.size(); ++s) {
    check_array(Op::kName, "a state", op.states[s], TensorScalarType::Float32,
                op.weights.shape[0] * widths[s]);
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
  rounding.visit(v);
  v.tensor("lr", Access::In, lr);
  v.tensor("step", Access::In, step);
  v.optional("unscale", Access::In, unscale);
  visit_opt_params(v, params);
  v.attribute("longest_run", longest_run);
}

void EmbeddingUpdate::check() const {
  rounding.check(kName, weights, unique_rows.size());
  check_table(*this);
  check_real(kName, "gradient", gradient);
  HCTR_CHECK(gradient.shape.size() == 3 && gradient.shape[2] == weights.shape[1] &&
                 gradient.shape[2] <= kMaxRunVecSize,
             kName, ": gradient has shape ", to_string(gradient.shape),
             ", must be (samples, slots, ", weights.shape[1], ")");
  HCTR_CHECK(
      !keeps_last_step(params) ||
          (last_step.dtype == TensorScalarType::Int64 && last_step.size() >= weights.shape[0]),
      kName, ": last_step must hold one int64 a row: the rule makes up for what a row sat out");
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
  rounding.visit(v);
  visit_opt_params(v, params);
}

void EmbeddingSweep::check() const {
  rounding.check(kName, weights, 0);
  check_table(*this);
  if (weights.dtype == TensorScalarType::BFloat16) {
    check_array_at_least(kName, "row_keys", rounding.row_keys, rounding.row_keys.dtype,
                         weights.shape[0]);
  }
  HCTR_CHECK(sweeps_untouched_rows(params), kName, ": these settings leave untouched rows alone");
}

}  // namespace hugectr
