// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/comm/process_group.hpp"
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

/// Samples from the reader's settings for training (or evaluation). Collective over the processes
/// of the job (null: there is one); throws on all of them when one can not make its source.
std::unique_ptr<IBatchSource> make_source(const ReaderSpec& reader, const InputLayout& layout,
                                          bool repeat, bool train,
                                          const std::shared_ptr<IProcessGroup>& processes);

}  // namespace hugectr
