// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/optimizers/catalogue.hpp"

#include <algorithm>
#include <string_view>

namespace hugectr {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string joined;
  for (const auto& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

/// Place of a name in a list that an enum has the order of.
std::size_t place_of(const char* what, const std::string& name,
                     const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  HCTR_CHECK(found != names.end(), what, ": found '", name, "', allowed: ", join(names));
  return static_cast<std::size_t>(found - names.begin());
}

void set_field(OptParams& params, const std::string& name, double value) {
  bool found = false;
  std::vector<std::string> names;
  OptParams::visit(params, [&](const Field& field, float& member) {
    names.emplace_back(field.name);
    if (name != field.name) return;
    found = true;
    member = checked_field(concat("opt_params.", name), field, value);
  });
  HCTR_CHECK(found, "opt_params: unknown field '", name, "', allowed: ", join(names));
}

}  // namespace

std::vector<OptimizerDescription> describe_optimizers() {
  std::vector<OptimizerDescription> all;
  for_each_entry<Optimizers>([&]<class Entry>(const Entry& entry) {
    OptimizerDescription one{{Entry::kName, Entry::kDoc, describe_fields(entry)},
                             {},
                             Entry::kMovesUntouchedRows,
                             !WeightsOfStates<Entry>};
    for (const State& state : Entry::kStates) {
      one.states.push_back({state.name, state.width == StateWidth::Row});
    }
    all.push_back(std::move(one));
  });
  return all;
}

std::vector<FieldDescription> describe_adjustments() { return describe_fields(Adjustment{}); }

std::vector<std::string> update_names() { return {"Local", "Global", "LazyGlobal"}; }

OptParams make_opt_params(const std::string& optimizer, const std::string& update_type,
                          bool atomic_update, const std::map<std::string, double>& fields) {
  std::vector<std::string> names;
  for_each_entry<Optimizers>([&]<class Entry>(const Entry&) { names.emplace_back(Entry::kName); });
  OptParams params;
  params.optimizer = static_cast<Optimizer>(place_of("opt_params.optimizer", optimizer, names));
  params.update_type =
      static_cast<Update>(place_of("opt_params.update_type", update_type, update_names()));
  params.atomic_update = atomic_update;
  for (const auto& [name, value] : fields) set_field(params, name, value);
  HCTR_CHECK(params.clip_value == 0.0f || params.clip_norm == 0.0f,
             "opt_params: clip_value and clip_norm are both given, allowed: one of them");
  with_optimizer(params, [&]<class Entry>(const Entry&) {
    HCTR_CHECK(!WeightsOfStates<Entry> || params.weight_decay == 0.0f,
               "opt_params.weight_decay: found ", params.weight_decay, ", allowed: 0 with ",
               Entry::kName,
               ", whose weights are what its states say; it has penalties of its own");
  });
  return params;
}

std::size_t num_states(const OptParams& params) {
  std::size_t count = 0;
  with_optimizer(params, [&]<class Entry>(const Entry&) { count = kStateCount<Entry>; });
  return count;
}

std::vector<std::size_t> state_widths(const OptParams& params, std::size_t vec_size) {
  std::vector<std::size_t> widths;
  with_optimizer(params, [&]<class Entry>(const Entry&) {
    for (const State& state : Entry::kStates) {
      widths.push_back(state.width == StateWidth::Row ? 1 : vec_size);
    }
  });
  return widths;
}

std::vector<float> state_starts(const OptParams& params) {
  std::vector<float> starts;
  with_optimizer(params, [&]<class Entry>(const Entry& entry) {
    for (const State& state : Entry::kStates) {
      starts.push_back(0.0f);
      Entry::visit(entry, [&](const Field& field, float value) {
        if (state.start && std::string_view(state.start) == field.name) starts.back() = value;
      });
    }
  });
  return starts;
}

bool keeps_last_step(const OptParams& params) {
  bool keeps = false;
  with_row_rule(params, [&]<class Rule>(const Rule&) { keeps = KeepsLastStep<Rule>; });
  return keeps;
}

bool sweeps_untouched_rows(const OptParams& params) {
  bool sweeps = false;
  with_row_rule(params, [&]<class Rule>(const Rule&) { sweeps = Rule::kMovesUntouchedRows; });
  return sweeps && params.update_type != Update::Local;
}

}  // namespace hugectr
