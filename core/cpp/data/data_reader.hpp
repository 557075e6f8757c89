// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/bad_data_limit.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Keys and offsets of one sparse input of one batch, on one device: the WHOLE global batch.
struct SparseTensor {
  TensorRef keys;         ///< (nnz) uint32 or int64
  TensorRef row_offsets;  ///< (B * slot_num + 1) uint32
  std::size_t nnz = 0;
};

/// One batch as one device sees it.
struct DeviceBatch {
  TensorRef label;          ///< (b, label_dim) float32: this device's samples
  TensorRef dense;          ///< (b, dense_dim) float32
  TensorRef sample_weight;  ///< (b) float32
  std::vector<SparseTensor> sparse;
  std::unique_ptr<Event> ready;  ///< recorded on the memcpy stream when the copy is done
  std::unique_ptr<Event>
      consumed;  ///< the consumer records it on the stream that read the batch last
};

/// One batch on all local devices.
struct Batch {
  std::size_t sequence = 0;
  std::size_t samples = 0;  ///< real samples of the global batch, skipped ones included
  double weight_sum = 0;    ///< samples that count
  ReadPosition next;        ///< behind the batch: seek() there to go on after it
  std::vector<DeviceBatch> devices;
};

/// Time and depth of the stages since the last call.
struct ReaderMetrics {
  std::uint64_t batches = 0;
  double parse_seconds = 0;    ///< summed over workers
  double credit_seconds = 0;   ///< workers waiting for a free chunk: the consumer is the limit
  double ready_seconds = 0;    ///< collector waiting for a parsed chunk: the readers are the limit
  double acquire_seconds = 0;  ///< the step waiting for a batch
  std::uint64_t bad_samples = 0;   ///< found by this process
  std::uint64_t rows_decoded = 0;  ///< since the reader was made, by this process
  double seconds = 0;              ///< that all of this covers
  // Means of what each queue held whenever a batch was taken out of it, and its room.
  double ready_depth = 0;               ///< parsed chunks that waited for the collector
  double credit_depth = 0;              ///< free chunks that waited for a worker
  double ahead_depth = 0;               ///< batches that waited on the devices for the step
  std::uint64_t chunks = 0, slots = 0;  ///< room of ready and credit together, and of ahead
  std::uint64_t acquired = 0;           ///< batches the step took: what ahead_depth is a mean over
};

/// Stages 1 and 2 of the pipeline: worker threads parse, a collector copies to the devices.
/// Where several processes share the decoding, all of them make the same calls in the same order;
/// set_source(), seek(), close() and the destructor of a reader that has started wait for one
/// another, and an error of one process is thrown by all of them in the same place.
class HCTR_API IDataReader {
 public:
  virtual ~IDataReader() = default;
  /// Starts reading if it has not started and there is something to read.
  virtual void start() = 0;
  /// The next batch in the order of the data, or nullptr at the end of it (epoch mode). Blocks
  /// until there is one. An error of a worker or the collector is thrown in the place of its batch,
  /// after all batches before it, and then again and again until set_source(). At most kSlots
  /// batches may be held at a time.
  virtual Batch* acquire() = 0;
  /// Gives the batch's memory back; it is overwritten after its `consumed` events have passed.
  virtual void release(Batch* batch) = 0;
  /// Drops what was read ahead and starts over ("" = the same source). All batches must have been
  /// released.
  virtual void set_source(const std::string& source) = 0;
  /// Drops what was read ahead and goes on at a place that a Batch of this data ended at
  /// (Batch::next). All batches must have been released.
  virtual void seek(const ReadPosition& position) = 0;
  /// Ends the threads of the reader; acquire() is refused from then on, until set_source() or
  /// seek(). Nobody may be waiting for a batch.
  virtual void close() = 0;
  /// True once acquire() has returned nullptr, until set_source() or seek().
  virtual bool is_eof() const = 0;
  virtual ReaderMetrics metrics() = 0;
  virtual std::size_t batch_size() const = 0;
  /// Adds what its batches take on each local device, as "<name> on <device>"; where the number of
  /// keys varies, before any has made room for more. For any thread.
  virtual void report_memory(const std::string& name,
                             std::vector<MemoryReportEntry>& report) const = 0;

  /// Batches on the devices at once: one training, one planned, one being copied.
  static constexpr std::size_t kSlots = 3;
};

/// The one reader: any source, `num_workers` threads, order independent of their number.
/// `batch_size` is global and a multiple of the device count. Collective when the source is shared
/// by the processes of the job. `max_bad_share`: of the samples that are read, from the start or
/// the last set_source() or seek() on; more of them skipped as bad data is a DataError
/// (BadDataLimit).
HCTR_API std::unique_ptr<IDataReader> make_data_reader(std::unique_ptr<IBatchSource> source,
                                                       const InputLayout& layout,
                                                       std::size_t batch_size,
                                                       std::size_t num_workers,
                                                       std::shared_ptr<ResourceManager> resources,
                                                       double max_bad_share = BadDataLimit::kNone);

}  // namespace hugectr
