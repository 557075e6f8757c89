// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "core/cpp/data/make_source.hpp"
#include "core/cpp/model/spec.hpp"

/// Whether specs say something that can be built; every contradiction is an InvalidArgument that
/// names the argument, what was found and what is allowed.
namespace hugectr {

void check_solver(const SolverSpec& solver);
void check_model(const ModelSpec& model);
/// Whether what the model lacks (a reader, a loss, training) is not what something else needs.
void check_parts(const SolverSpec& solver, const std::optional<ReaderSpec>& reader,
                 const ModelSpec& model);

}  // namespace hugectr
