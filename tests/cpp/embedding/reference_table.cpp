// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/embedding/reference_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/cpp/base/random.hpp"

namespace hugectr::test {

ReferenceTable::ReferenceTable(SparseEmbeddingHashParams params, std::uint64_t seed)
    : params_(std::move(params)), seed_(seed) {}

ReferenceTable::RowKey ReferenceTable::row_key(std::size_t bucket, std::int64_t key) const {
  const bool slots = params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  return {slots ? bucket % params_.slot_num : 0, key};
}

ReferenceTable::Row ReferenceTable::new_row(const RowKey& key) const {
  const std::size_t d = params_.embedding_vec_size;
  Row row{std::vector<double>(d), std::vector<double>(d), std::vector<double>(d)};
  float bound = 0.05f;
  if (params_.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash &&
      !params_.slot_size_array.empty()) {
    bound = static_cast<float>(
        std::sqrt(1.0 / static_cast<double>(params_.slot_size_array[key.first])));
  }
  for (std::size_t c = 0; c < d; ++c) {
    const Philox4 bits =
        philox4x32(mix_key(seed_, mix_key(params_.table_id, key.first)),
                   static_cast<std::uint64_t>(key.second), static_cast<std::uint64_t>(c / 4));
    row.w[c] = symmetric_float(bits.x[c % 4], bound);
    if (params_.opt_params.optimizer == Optimizer::AdaGrad) {
      row.s0[c] = params_.opt_params.initial_accu_value;
    }
  }
  if (params_.opt_params.optimizer == Optimizer::RowWiseAdaGrad) {
    row.s0 = {params_.opt_params.initial_accu_value};
  }
  return row;
}

void ReferenceTable::insert(const HostBatch& batch) {
  for (std::size_t bucket = 0; bucket + 1 < batch.row_offsets.size(); ++bucket) {
    for (std::uint32_t i = batch.row_offsets[bucket]; i < batch.row_offsets[bucket + 1]; ++i) {
      const RowKey key = row_key(bucket, batch.keys[i]);
      if (!rows_.count(key)) rows_.emplace(key, new_row(key));
    }
  }
}

std::vector<double> ReferenceTable::forward(const HostBatch& batch) const {
  const std::size_t d = params_.embedding_vec_size;
  std::vector<double> output((batch.row_offsets.size() - 1) * d, 0.0);
  for (std::size_t bucket = 0; bucket + 1 < batch.row_offsets.size(); ++bucket) {
    const std::uint32_t first = batch.row_offsets[bucket], last = batch.row_offsets[bucket + 1];
    const double scale = params_.combiner == Combiner::Mean && last > first ? last - first : 1.0;
    for (std::uint32_t i = first; i < last; ++i) {
      const auto found = rows_.find(row_key(bucket, batch.keys[i]));
      if (found == rows_.end()) continue;
      for (std::size_t c = 0; c < d; ++c) output[bucket * d + c] += found->second.w[c] / scale;
    }
  }
  return output;
}

void ReferenceTable::update(const HostBatch& batch, const std::vector<float>& gradient, double lr,
                            std::int64_t step, double unscale) {
  const std::size_t d = params_.embedding_vec_size;
  std::map<RowKey, std::vector<double>> gradients;
  for (std::size_t bucket = 0; bucket + 1 < batch.row_offsets.size(); ++bucket) {
    const std::uint32_t first = batch.row_offsets[bucket], last = batch.row_offsets[bucket + 1];
    const double scale = params_.combiner == Combiner::Mean ? last - first : 1.0;
    for (std::uint32_t i = first; i < last; ++i) {
      auto& g = gradients[row_key(bucket, batch.keys[i])];
      g.resize(d);
      for (std::size_t c = 0; c < d; ++c) g[c] += gradient[bucket * d + c] / scale * unscale;
    }
  }
  const OptParams& p = params_.opt_params;
  const bool momentum = p.optimizer == Optimizer::MomentumSGD || p.optimizer == Optimizer::Nesterov;
  const bool global =
      p.update_type == Update::Global || (momentum && p.update_type == Update::LazyGlobal);
  if (global && (momentum || p.optimizer == Optimizer::Adam)) {
    return global_update(gradients, lr, step);
  }
  for (auto& [key, g] : gradients) {
    adjust(rows_.at(key), g, lr);
    update_touched(rows_.at(key), g, lr, step);
  }
  if (p.optimizer != Optimizer::RMSProp || p.update_type != Update::Global) return;
  for (auto& [key, row] : rows_) {
    if (gradients.count(key)) continue;
    for (double& v : row.s0) v *= p.rho;
  }
}

void ReferenceTable::adjust(Row& row, std::vector<double>& g, double lr) const {
  const OptParams& p = params_.opt_params;
  for (std::size_t c = 0; c < g.size(); ++c) {
    double& w = row.w[c];
    if (p.clip_value > 0) g[c] = std::clamp<double>(g[c], -p.clip_value, p.clip_value);
    g[c] += p.l2 * w + p.l1 * ((w > 0) - (w < 0));
    w -= lr * p.weight_decay * w;
  }
}

void ReferenceTable::update_touched(Row& row, const std::vector<double>& g, double lr,
                                    std::int64_t step) {
  const OptParams& p = params_.opt_params;
  const double b1 = p.beta1, b2 = p.beta2, f = p.momentum_factor, eps = p.epsilon;
  const double rho = p.rho;
  const auto t = static_cast<double>(step), prev = static_cast<double>(row.last_step);
  if (p.optimizer == Optimizer::RowWiseAdaGrad) {
    double squares = 0;
    for (const double x : g) squares += x * x;
    row.s0[0] += squares / static_cast<double>(g.size());
    for (std::size_t c = 0; c < g.size(); ++c) row.w[c] -= lr * g[c] / (std::sqrt(row.s0[0]) + eps);
    return;
  }
  for (std::size_t c = 0; c < g.size(); ++c) {
    double &w = row.w[c], &s0 = row.s0[c], &s1 = row.s1[c];
    switch (p.optimizer) {
      case Optimizer::SGD:
        w -= lr * g[c];
        break;
      case Optimizer::AdaGrad:
        s0 += g[c] * g[c];
        w -= lr * g[c] / (std::sqrt(s0) + eps);
        break;
      case Optimizer::MomentumSGD:
        s0 = f * s0 - lr * g[c];
        w += s0;
        break;
      case Optimizer::Nesterov: {
        const double next = f * s0 - lr * g[c];
        w += -f * s0 + (1 + f) * next;
        s0 = next;
        break;
      }
      case Optimizer::RowWiseAdaGrad:
        break;
      case Optimizer::RMSProp:  // LazyGlobal is Global, of which w sees nothing before a gradient
        s0 = (p.update_type == Update::LazyGlobal ? std::pow(rho, t - prev) : rho) * s0 +
             (1 - rho) * g[c] * g[c];
        w -= lr * g[c] / (std::sqrt(s0) + eps);
        break;
      case Optimizer::Ftrl: {
        const double e = std::pow(2.0, -23.0), n = s0 + g[c] * g[c];
        s1 += g[c] - (std::sqrt(n + e) - std::sqrt(s0 + e)) * w / lr;
        s0 = n;
        const double l1 = p.lambda1, denominator = (std::sqrt(n + e) + p.beta) / lr + p.lambda2;
        w = std::abs(s1) <= l1 ? 0.0 : ((s1 > 0 ? l1 : -l1) - s1) / denominator;
        break;
      }
      case Optimizer::Adam:
        if (p.update_type == Update::LazyGlobal) {
          w -= lr / (1 - b1) * (std::sqrt(1 - std::pow(b2, prev)) / (1 - std::pow(b1, prev))) *
               (1 - std::pow(b1, t - prev)) * s0 / (std::sqrt(s1) + eps);
          s0 = std::pow(b1, t - prev) * s0 + (1 - b1) * g[c];
          s1 = std::pow(b2, t - prev) * s1 + (1 - b2) * g[c] * g[c];
        } else {
          s0 = b1 * s0 + (1 - b1) * g[c];
          s1 = b2 * s1 + (1 - b2) * g[c] * g[c];
          w -= lr * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) * s0 /
               (std::sqrt(s1) + eps);
        }
    }
  }
  row.last_step = step;
}

void ReferenceTable::global_update(const std::map<RowKey, std::vector<double>>& gradients,
                                   double lr, std::int64_t step) {
  const OptParams& p = params_.opt_params;
  const double b1 = p.beta1, b2 = p.beta2, f = p.momentum_factor, eps = p.epsilon;
  const double lr_t = lr * std::sqrt(1 - std::pow(b2, static_cast<double>(step))) /
                      (1 - std::pow(b1, static_cast<double>(step)));
  const auto touched = [&](const auto& change) {
    for (const auto& [key, g] : gradients) {
      Row& row = rows_.at(key);
      for (std::size_t c = 0; c < g.size(); ++c) change(row.w[c], row.s0[c], row.s1[c], g[c]);
    }
  };
  const auto all = [&](const auto& change) {
    for (auto& [key, row] : rows_) {
      for (std::size_t c = 0; c < row.w.size(); ++c) change(row.w[c], row.s0[c], row.s1[c]);
    }
  };
  if (p.optimizer == Optimizer::Adam) {
    touched([&](double&, double& m, double& v, double g) {
      m += (1 - b1) * g / b1;
      v += (1 - b2) * g * g / b2;
    });
    all([&](double& w, double& m, double& v) {
      m *= b1;
      v *= b2;
      w -= lr_t * m / (std::sqrt(v) + eps);
    });
  } else if (p.optimizer == Optimizer::MomentumSGD) {
    touched([&](double&, double& m, double&, double g) { m -= lr * g / f; });
    all([&](double& w, double& m, double&) {
      m *= f;
      w += m;
    });
  } else {
    all([&](double& w, double& m, double&) {
      m *= f;
      w += f * m;
    });
    touched([&](double& w, double& m, double&, double g) {
      m -= lr * g;
      w -= (1 + f) * lr * g;
    });
  }
}

std::vector<std::int64_t> ReferenceTable::keys() const {
  std::vector<std::int64_t> keys;
  for (const auto& [key, row] : rows_) keys.push_back(key.second);
  return keys;
}

std::vector<std::uint64_t> ReferenceTable::slots() const {
  std::vector<std::uint64_t> slots;
  if (params_.type != EmbeddingType::LocalizedSlotSparseEmbeddingHash) return slots;
  for (const auto& [key, row] : rows_) slots.push_back(key.first);
  return slots;
}

std::vector<double> ReferenceTable::vectors() const {
  std::vector<double> all;
  for (const auto& [key, row] : rows_) all.insert(all.end(), row.w.begin(), row.w.end());
  return all;
}

std::vector<double> ReferenceTable::state(std::size_t index) const {
  std::vector<double> all;
  for (const auto& [key, row] : rows_) {
    const auto& state = index == 0 ? row.s0 : row.s1;
    all.insert(all.end(), state.begin(), state.end());
  }
  return all;
}

void expect_rows(const BufferBag& rows, const ReferenceTable& reference) {
  ASSERT_EQ(rows.keys, reference.keys());
  ASSERT_EQ(rows.slot_ids, reference.slots());
  EXPECT_LE(relative_distance(rows.vectors, reference.vectors()), 1e-5);
  for (std::size_t s = 0; s < rows.states.size(); ++s) {
    EXPECT_LE(relative_distance(rows.states[s], reference.state(s)), 1e-5) << "state " << s;
  }
}

}  // namespace hugectr::test
