// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/json.hpp"
#include "core/cpp/model/spec.hpp"

namespace hugectr {

/// A model for prediction, as Session takes it.
struct DescribedModel {
  SolverSpec solver;
  ModelSpec model;
};

/// The model that a manifest's description is of, for one device. `batch_size` rows are evaluated
/// at once. Throws DataError naming what this version does not have.
DescribedModel described_model(const Json& description, DeviceType device, std::size_t batch_size);

}  // namespace hugectr
