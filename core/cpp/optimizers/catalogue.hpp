// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

/// What the entries of the catalogue say of themselves, for bindings and documentation.
namespace hugectr {

struct StateDescription {
  std::string name;
  bool per_row = false;  ///< a number a row, else one a weight
};

struct OptimizerDescription : EntryDescription {
  std::vector<StateDescription> states;
  bool moves_untouched_rows = false;  ///< unless the update type is Local
  bool decays = true;                 ///< takes weight_decay
};

/// The entries in the order of the enum.
HCTR_API std::vector<OptimizerDescription> describe_optimizers();
/// The fields that every optimizer takes.
HCTR_API std::vector<FieldDescription> describe_adjustments();
/// Names of the update types in the order of the enum.
HCTR_API std::vector<std::string> update_names();

/// Settings by names: `fields` are those of any optimizer, what is not named has its default.
/// Throws InvalidArgument that says what is allowed.
HCTR_API OptParams make_opt_params(const std::string& optimizer, const std::string& update_type,
                                   bool atomic_update, const std::map<std::string, double>& fields);

}  // namespace hugectr
