// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/optimizers/ada_grad.hpp"
#include "core/cpp/optimizers/adam.hpp"
#include "core/cpp/optimizers/adjustment.hpp"
#include "core/cpp/optimizers/ftrl.hpp"
#include "core/cpp/optimizers/momentum_sgd.hpp"
#include "core/cpp/optimizers/nesterov.hpp"
#include "core/cpp/optimizers/rms_prop.hpp"
#include "core/cpp/optimizers/row_wise_ada_grad.hpp"
#include "core/cpp/optimizers/sgd.hpp"

/// The catalogue of optimizers: the one list that kernels are made from and that Python is told. A
/// new entry is added at the end of the three lists here.
namespace hugectr {

enum class Optimizer { Adam, AdaGrad, MomentumSGD, Nesterov, SGD, Ftrl, RowWiseAdaGrad, RMSProp };

/// The entries in the order of the enum.
using Optimizers =
    std::tuple<Adam, AdaGrad, MomentumSGD, Nesterov, SGD, Ftrl, RowWiseAdaGrad, RMSProp>;
static_assert(std::tuple_size_v<Optimizers> == static_cast<std::size_t>(Optimizer::RMSProp) + 1);

/// The fields of all entries, and those that each of them takes.
using OptimizerFields = Fields<BetaFields, EpsilonField, AccumulatorField, MomentumField,
                               FtrlFields, RhoField, AdjustmentFields>;

/// Optimizer settings, the same for tables and for the dense network. Fields that the optimizer
/// does not have are without effect.
struct OptParams : OptimizerFields {
  Optimizer optimizer = Optimizer::Adam;
  Update update_type = Update::Global;
  bool atomic_update = true;  ///< accepted; updates stay deterministic
};

/// Calls f(entry) with the chosen entry and its settings: what every weight of the dense network is
/// updated by.
template <class F>
void with_optimizer(const OptParams& params, const F& f) {
  const auto chosen = static_cast<std::size_t>(params.optimizer);
  const auto call = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    if (I != chosen) return false;
    std::tuple_element_t<I, Optimizers> entry;
    entry.take(params);
    f(entry);
    return true;
  };
  const bool found = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (call(std::integral_constant<std::size_t, I>{}) || ...);
  }(std::make_index_sequence<std::tuple_size_v<Optimizers>>{});
  if (!found) throw InvalidArgument(concat("optimizer ", chosen, " is unknown"));
}

/// The same with the rule that rows of tables are updated by: of LazyGlobal it may be another one.
template <class F>
void with_row_rule(const OptParams& params, const F& f) {
  with_optimizer(params, [&]<class Entry>(const Entry& entry) {
    if constexpr (requires { typename Entry::Lazy; }) {
      if (params.update_type == Update::LazyGlobal) {
        typename Entry::Lazy lazy;
        lazy.take(params);
        return f(lazy);
      }
    }
    f(entry);
  });
}

/// What is done before the rule.
inline Adjustment adjustment_of(const OptParams& params) {
  Adjustment adjustment;
  adjustment.take(params);
  return adjustment;
}

/// State arrays of the optimizer, in the order they are saved.
HCTR_API std::size_t num_states(const OptParams& params);
/// Numbers of each state array for a row of `vec_size` weights: as many, or one.
HCTR_API std::vector<std::size_t> state_widths(const OptParams& params, std::size_t vec_size);
/// What each state array begins with.
HCTR_API std::vector<float> state_starts(const OptParams& params);
/// Whether rows of tables keep the step they were last brought up to.
HCTR_API bool keeps_last_step(const OptParams& params);
/// Whether rows that a batch does not touch change all the same.
HCTR_API bool sweeps_untouched_rows(const OptParams& params);

}  // namespace hugectr
