// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/data_reader.hpp"

#include <exception>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/batch_exchange.hpp"
#include "core/cpp/data/batch_slots.hpp"
#include "core/cpp/data/data_collector.hpp"
#include "core/cpp/data/data_reader_worker_group.hpp"
#include "core/cpp/data/heap_ex.hpp"
#include "core/cpp/data/process_agreement.hpp"
#include "core/cpp/data/reader_ledger.hpp"

namespace hugectr {
namespace {

/// Besides one a worker: one more than copies in flight, so that nobody waits for anybody's copy.
constexpr std::size_t kSpareChunks = 2;

std::vector<CSRChunk> make_chunks(const InputLayout& layout, std::size_t batch_size,
                                  std::size_t count, ResourceManager& resources) {
  const auto memory = resources.get_local_gpu(0).staging_resource();
  std::vector<CSRChunk> chunks;
  for (std::size_t i = 0; i < count; ++i) {
    chunks.push_back(make_csr_chunk(layout, batch_size, memory));
  }
  return chunks;
}

/// Puts source, workers, collector and slots together; owns their threads.
class DataReader final : public IDataReader {
 public:
  DataReader(std::unique_ptr<IBatchSource> source, const InputLayout& layout,
             std::size_t batch_size, std::size_t num_workers,
             std::shared_ptr<ResourceManager> resources, double max_bad_share)
      : resources_(std::move(resources)),
        source_(std::move(source)),
        layout_(layout),
        batch_size_(batch_size),
        num_workers_(num_workers),
        max_bad_share_(max_bad_share),
        heap_(make_chunks(layout, batch_size, num_workers + kSpareChunks, *resources_)),
        slots_(layout, batch_size, *resources_) {
    if (source_->sharing_processes() == 1) return;
    const auto& processes = resources_->processes();
    HCTR_CHECK(processes && processes->size() == source_->sharing_processes(),
               "data reader: the source is shared by ", source_->sharing_processes(),
               " processes, the job has ", processes ? processes->size() : 1);
    exchange_ = std::make_unique<BatchExchange>(processes->duplicate("data"), layout_, batch_size_,
                                                *resources_);
  }

  ~DataReader() override { stop(); }

  void start() override {
    if (workers_ || source_error_) return;
    try {
      workers_ = std::make_unique<DataReaderWorkerGroup>(*source_, heap_, ledger_, batch_size_,
                                                         num_workers_);
      collector_ = std::make_unique<DataCollector>(heap_, slots_, ledger_, layout_, batch_size_,
                                                   *resources_, exchange_.get(),
                                                   BadDataLimit(max_bad_share_, first_epoch_));
    } catch (...) {
      // Nothing was claimed: a later start() reads the same.
      stop();
      slots_.reset();
      heap_.reset();
      throw;
    }
    workers_->begin();
  }

  Batch* acquire() override {
    if (source_error_) std::rethrow_exception(source_error_);
    start();
    const ReaderLedger::Timer timer(ledger_, &ReaderMetrics::acquire_seconds);
    const std::size_t ahead = slots_.published();
    Batch* const batch = slots_.acquire();
    if (batch) ledger_.count_acquired(ahead);
    return batch;
  }

  void release(Batch* batch) override { slots_.release(batch); }

  void set_source(const std::string& source) override {
    start_over([&] {
      source_->set_source(source);
      first_epoch_ = 0;
    });
  }

  void seek(const ReadPosition& position) override {
    start_over([&] {
      source_->seek(position);
      first_epoch_ = position.epoch;
    });
  }

  void close() override {
    stop();
    source_error_ = std::make_exception_ptr(
        InvalidArgument("the reader was closed; set a source or seek to read again"));
  }

  bool is_eof() const override { return slots_.at_end(); }
  ReaderMetrics metrics() override {
    ReaderMetrics metrics = ledger_.take(source_->bad_samples());
    metrics.rows_decoded = source_->rows_decoded();
    metrics.chunks = num_workers_ + kSpareChunks;
    metrics.slots = kSlots;
    return metrics;
  }
  std::size_t batch_size() const override { return batch_size_; }
  void report_memory(const std::string& name,
                     std::vector<MemoryReportEntry>& report) const override {
    slots_.report_memory(name, report);
  }

 private:
  /// Drops what was read ahead; `move` changes where the source stands.
  template <class Move>
  void start_over(const Move& move) {
    slots_.check_none_held();
    const bool was_started = workers_ != nullptr;
    stop();
    slots_.reset();
    heap_.reset();
    try {
      together(exchange_ ? &exchange_->processes() : nullptr, move);
      source_error_ = nullptr;
    } catch (...) {
      source_error_ = std::current_exception();  // until a set_source() or seek() that works
      throw;
    }
    if (was_started) start();
  }

  void stop() {
    // Both wait for their threads; stopping the heap first lets them end at the same time.
    heap_.stop();
    collector_.reset();
    workers_.reset();
  }

  std::shared_ptr<ResourceManager> resources_;
  std::unique_ptr<IBatchSource> source_;
  InputLayout layout_;
  std::size_t batch_size_, num_workers_;
  double max_bad_share_;
  std::uint64_t first_epoch_ = 0;  ///< of the pass that start() begins
  std::exception_ptr source_error_;
  ReaderLedger ledger_;
  // Destroyed bottom up: the slots wait for the copies out of the chunks of heap and exchange.
  HeapEx heap_;
  std::unique_ptr<BatchExchange> exchange_;  ///< null when the source's batches are whole
  BatchSlots slots_;
  std::unique_ptr<DataReaderWorkerGroup> workers_;
  std::unique_ptr<DataCollector> collector_;
};

}  // namespace

std::unique_ptr<IDataReader> make_data_reader(std::unique_ptr<IBatchSource> source,
                                              const InputLayout& layout, std::size_t batch_size,
                                              std::size_t num_workers,
                                              std::shared_ptr<ResourceManager> resources,
                                              double max_bad_share) {
  HCTR_CHECK(source != nullptr, "data reader: no source");
  HCTR_CHECK(num_workers > 0, "data reader: num_workers is 0, allowed is 1 or more");
  const std::size_t devices = resources->get_global_gpu_count();
  HCTR_CHECK(batch_size > 0 && batch_size % devices == 0, "data reader: batch size ", batch_size,
             " is not a multiple of the ", devices, " devices");
  layout.check();
  for (const SparseInput& input : layout.sparse) {
    HCTR_CHECK(batch_size * input.slot_num < 0xffffffffull, "sparse input '", input.top_name,
               "': batch size * slot_num exceeds 32 bits");
  }
  return std::make_unique<DataReader>(std::move(source), layout, batch_size, num_workers,
                                      std::move(resources), max_bad_share);
}

}  // namespace hugectr
