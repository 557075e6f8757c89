// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/model/spec.hpp"
#include "core/cpp/schedule/op_work.hpp"

namespace hugectr {

/// Bytes of one part of a model on one device.
struct FootprintEntry {
  std::size_t process = 0;  ///< of the job, whose device it is
  std::string device;       ///< as there: "cuda:0"; "host": in the process's host memory
  std::string owner;        ///< a table's name, "network" or "batches"
  std::string part;         ///< "index", "vectors", "dense weights", ...
  std::size_t bytes = 0;
};

/// The rows of one table that a footprint counts.
struct TableFootprint {
  std::string name;
  std::size_t rows = 0;       ///< counted, all devices
  std::size_t max_rows = 0;   ///< that it may have, all devices; 0: no bound
  std::size_t row_bytes = 0;  ///< a row's key, vector and optimizer states, without the index
};

/// Memory of a model on all devices of its job.
struct Footprint {
  std::vector<FootprintEntry> entries;
  std::vector<TableFootprint> tables;
  /// In words, with numbers and the way out: rows that were asked for and may not be, and places
  /// that may be too few for two batches. Tables of which there is none train as they are.
  std::vector<std::string> lacking;
  std::vector<OpWork> work;  ///< of a device in a training step, without the tables; may be empty
};

/// What a Session of these specs takes for itself on its devices after some steps, counted by the
/// code that takes it and without taking it: no device need be there. `rows`: rows of each table,
/// all devices together; std::nullopt for all that it may have, or none yet where it has no bound.
/// Not counted: what drivers and libraries take for themselves, and what saving or marks need.
/// Batches are counted with the most keys that the reader's description allows; without a reader a
/// model that does not train plans none, and each thread of a Predictor takes activations of its
/// own besides. Throws as the
/// Session does for specs that can not be.
HCTR_API Footprint footprint(const SolverSpec& solver, const std::optional<ReaderSpec>& reader,
                             const ModelSpec& model,
                             const std::vector<std::optional<std::size_t>>& rows = {});

}  // namespace hugectr
