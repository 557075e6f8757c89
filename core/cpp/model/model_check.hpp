// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/model/session.hpp"

/// From what users wrote to what the parts need; every contradiction is an InvalidArgument that
/// names the argument, what was found and what is allowed.
namespace hugectr {

void check_solver(const SolverSpec& solver);
void check_model(const ModelSpec& model);

InputLayout input_layout(const SolverSpec& solver, const InputSpec& input);

/// Which sparse input an embedding reads (by its bottom's name).
std::size_t sparse_input_of(const SparseEmbeddingSpec& spec, const InputSpec& input);

SparseEmbeddingHashParams embedding_params(const SolverSpec& solver, const ModelSpec& model,
                                           std::size_t index);

}  // namespace hugectr
