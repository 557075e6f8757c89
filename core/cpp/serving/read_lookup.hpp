// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/embedding/lookup/positions.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/model/model_tables.hpp"

namespace hugectr {

/// Vectors of the tables of a model on its only device, for one batch at a time, with memory of its
/// own: any number of them read the same tables at once. Nothing is inserted and no plan is made,
/// because there is nothing that it would be ahead of; the numbers are those of evaluation.
class ReadLookup {
 public:
  /// The tables must outlive this, and must not change while run() reads them.
  ReadLookup(ModelTables& tables, GPUResource& gpu, std::string owner);

  /// Enqueues: output(table) := its vectors (b, S, d) for the keys of its sparse inputs, each of
  /// `inputs` holding b samples. All must be known to be there (Table::make_index).
  void run(const OpContext& context, std::span<const SparseTensor> inputs,
           const ModelTables::VectorsOf& output);
  /// When the stream has been waited for: the first of a table's keys (of its inputs put together)
  /// that is the reserved one, or -1.
  std::int64_t first_reserved(std::size_t table) const { return reserved_.get_ptr()[table]; }

 private:
  /// Of one table.
  struct Part {
    std::shared_ptr<DeviceBuffer2> arena;
    std::size_t keys = 0, buckets = 0;  ///< that there is room for
    TensorBag2 bucket_of_key, row_of_key, scale, report;
    std::string inputs_owner;
    JoinedKeys joined;
    std::optional<PositionStarts> starts;  ///< of a table that does not pool
    PositionBuffer positions;
  };
  void make_room(const OpContext& context, std::size_t table, std::size_t keys,
                 std::size_t buckets);

  ModelTables& tables_;
  std::shared_ptr<MemoryResource> memory_;
  std::string owner_;
  std::vector<Part> parts_;
  Tensor2<std::int64_t> reserved_;  ///< staging, one a table
};

}  // namespace hugectr
