// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/model/model_tables.hpp"
#include "core/cpp/model/network.hpp"
#include "core/cpp/model/spec.hpp"

/// From specs that were checked to the parts of a model. Each function makes one part of what it is
/// given, so that a model may go without the others.
namespace hugectr {

bool has_loss(const ModelSpec& model);
/// Whether something of the model is trained: it is to be, and has a loss to train by.
bool trains(const ModelSpec& model);
bool has_eval_data(const ReaderSpec& reader);
/// Whether a damaged batch of training data, or of what a model that does not train reads, is known
/// to all processes of the job in the same place.
bool reads_together(const ReaderSpec& reader, const ModelSpec& model,
                    const ResourceManager& resources);

std::shared_ptr<ResourceManager> make_devices(const SolverSpec& solver,
                                              std::shared_ptr<IProcessGroup> processes);
/// The dense network: its training schedule if the model trains, and one for evaluation.
std::shared_ptr<const NetworkGraph> make_graph(const SolverSpec& solver, const ModelSpec& model,
                                               const ResourceManager& resources, bool with_eval);
/// The same before there are devices: for so many in the whole job.
std::shared_ptr<const NetworkGraph> make_graph(const SolverSpec& solver, const ModelSpec& model,
                                               std::size_t devices, std::uint64_t seed,
                                               bool with_eval);
/// What its tables are, in their order. Their vectors travel in the type that the network takes
/// them in. Tables of a model that does not train hold no optimizer states.
std::vector<SparseEmbeddingHashParams> table_params(const SolverSpec& solver,
                                                    const ModelSpec& model,
                                                    const NetworkGraph& graph);
/// Which sparse inputs each table reads.
std::vector<TableInput> table_inputs(const ModelSpec& model);
std::unique_ptr<ModelTables> make_tables(const SolverSpec& solver, const ModelSpec& model,
                                         const NetworkGraph& graph,
                                         const std::shared_ptr<ResourceManager>& resources);
/// One a local device, with the first weights.
std::vector<std::unique_ptr<Network>> make_networks(
    const SolverSpec& solver, const std::shared_ptr<const NetworkGraph>& graph,
    ResourceManager& resources);

/// What a reader must know of the Input; the labels a loss takes are the graph's to add.
InputLayout input_layout(const SolverSpec& solver, const InputSpec& input);
/// The same with what the model's tables ask of the keys.
InputLayout input_layout(const SolverSpec& solver, const ModelSpec& model);
std::unique_ptr<IDataReader> make_train_reader(const SolverSpec& solver, const ReaderSpec& reader,
                                               const InputLayout& layout,
                                               const std::shared_ptr<ResourceManager>& resources);
std::unique_ptr<IDataReader> make_eval_reader(const SolverSpec& solver, const ReaderSpec& reader,
                                              const InputLayout& layout,
                                              const std::shared_ptr<ResourceManager>& resources);

}  // namespace hugectr
