// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/data/staging_array.hpp"

namespace hugectr {

/// A batch on all local devices together with its memory there.
struct BatchSlot {
  struct DeviceArrays {
    StagingArray label, dense, weight;
    std::vector<StagingArray> keys, row_offsets;  ///< one a sparse input

    DeviceArrays() = default;
    /// Of a device's part of a global batch; keys of all of it. One key a slot to begin with,
    /// unless more is known; the collector grows them when needed.
    DeviceArrays(const InputLayout& layout, std::size_t batch_size, std::size_t devices,
                 const std::shared_ptr<MemoryResource>& memory);
    std::size_t bytes() const;
  };
  Batch batch;
  std::vector<DeviceArrays> arrays;  ///< one a local device
};

/// The kSlots batches on the devices, going round: free -> filled by the collector -> published ->
/// held by the consumer -> free.
class BatchSlots {
 public:
  BatchSlots(const InputLayout& layout, std::size_t batch_size, ResourceManager& resources);
  /// Waits for the devices to be done with the memory.
  ~BatchSlots();
  BatchSlots(const BatchSlots&) = delete;
  BatchSlots& operator=(const BatchSlots&) = delete;

  /// Blocks; nullptr after stop().
  BatchSlot* wait_free();
  void publish(BatchSlot* slot);
  /// No more batches come: the end of the data, or the error that ended it.
  void finish(std::exception_ptr error);

  /// The contract of IDataReader::acquire and release.
  Batch* acquire();
  void release(Batch* batch);
  /// Batches that acquire() would give at once.
  std::size_t published() const;
  bool at_end() const;
  /// As of IDataReader.
  void report_memory(const std::string& name, std::vector<MemoryReportEntry>& report) const;
  /// Throws InvalidArgument while a batch is held.
  void check_none_held() const;

  /// Wakes and refuses the collector, until reset().
  void stop();
  /// Waits until copies and consumers are done with all slots; then all are free.
  void reset();

 private:
  void make_slot(BatchSlot& slot, const InputLayout& layout, std::size_t batch_size,
                 ResourceManager& resources);
  void synchronize();

  mutable std::mutex mutex_;
  std::condition_variable free_changed_, published_changed_;
  std::vector<BatchSlot> slots_;
  /// To begin with: the collector, in its thread, may make room for more keys.
  std::vector<MemoryReportEntry> held_by_device_;
  // With room for all slots: to hand one on needs no memory.
  std::vector<BatchSlot*> free_, published_, held_;
  std::exception_ptr error_;
  bool finished_ = false, stopped_ = false, end_seen_ = false;
};

}  // namespace hugectr
