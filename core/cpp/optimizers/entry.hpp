// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/optimizers/fields.hpp"

/// What an optimizer of the catalogue says of itself, and how loops over weights ask it. An entry
/// is a small struct that derives from its Fields<...> and has
///
///   static constexpr const char* kName, *kDoc;       // name users know, formula
///   static constexpr std::array<State, n> kStates;   // what is kept beside the weights, n <= 2
///   static constexpr bool kMovesUntouchedRows;       // under update type Global
///   HCTR_HD void element(row, float& w, float& s0, float& s1, float g) const;
///
/// element() is the rule of one weight; `g` is the gradient with the loss scale already divided
/// out, s0 and s1 are its states, nothing where there are fewer. `row` is what is known once for
/// all weights of a row: the learning rate, unless the entry has one of
///
///   HCTR_HD float rate(float lr, std::int64_t step) const;                  // once a step
///   HCTR_HD T row(float lr, std::int64_t last, std::int64_t step) const;    // KeepsLastStep
///   HCTR_HD T row(float lr, float& state, float mean_square) const;         // RowWise
///
/// An entry whose weights are what its states say keeps no decay of a weight, and says so:
///
///   static constexpr bool kWeightsOfStates = true;
///
/// Update type Local applies a rule to the rows a batch touches; Global applies it to all rows,
/// with g = 0 where the batch has none; LazyGlobal makes up for it when a row is next touched. An
/// entry whose LazyGlobal is another rule names it `Lazy`; without one LazyGlobal is Global. In the
/// dense network every weight is touched in every step, and is a row of its own.
namespace hugectr {

enum class Update { Local, Global, LazyGlobal };

enum class StateWidth {
  Element,  ///< a number for every weight of a row
  Row       ///< a number for the whole row
};

/// An array of state.
struct State {
  const char* name;
  StateWidth width = StateWidth::Element;
  const char* start = nullptr;  ///< field that rows begin with; none: 0
};

/// The learning rate of a step is worked out of the solver's.
template <class Rule>
concept HasRate = requires(const Rule rule) {
  { rule.rate(0.0f, std::int64_t{1}) } -> std::same_as<float>;
};

/// A rule that must know how many steps a row sat out.
template <class Rule>
concept KeepsLastStep =
    requires(const Rule rule) { rule.row(0.0f, std::int64_t{1}, std::int64_t{1}); };

/// A rule with one state, a number a row, that learns the mean of g^2 over the row.
template <class Rule>
concept RowWise = requires(const Rule rule, float state) {
  rule.row(0.0f, state, 0.0f);
  requires Rule::kStates.size() == 1 && Rule::kStates[0].width == StateWidth::Row;
};

/// A rule whose weights are what its states say, whatever they were before.
template <class Rule>
concept WeightsOfStates = requires { requires Rule::kWeightsOfStates; };

/// Number of states as a constant of the rule.
template <class Rule>
inline constexpr std::size_t kStateCount = Rule::kStates.size();

template <class Rule>
HCTR_HD inline float rate_of(const Rule& rule, float lr, std::int64_t step) {
  if constexpr (HasRate<Rule>) {
    return rule.rate(lr, step);
  } else {
    return lr;
  }
}

/// The rule of a weight that is a row of its own. `rate` is rate_of() the step.
template <class Rule>
HCTR_HD inline void single_step(const Rule& rule, float rate, float& w, float& s0, float& s1,
                                float g) {
  if constexpr (RowWise<Rule>) {
    rule.element(rule.row(rate, s0, g * g), w, s0, s1, g);
  } else {
    rule.element(rate, w, s0, s1, g);
  }
}

}  // namespace hugectr
