// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/disk_backing.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <utility>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/disk_rows.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/move_rows.hpp"

namespace hugectr {
namespace {

static_assert(kNoRow == DiskRows::kPassedOver);

constexpr std::size_t kLeastSegmentBytes = std::size_t{256} << 10;
constexpr std::size_t kMostSegmentBytes = std::size_t{64} << 20;
constexpr std::size_t kLeastGroups = 16;  ///< of a segment

std::vector<RowColumn> columns_of(const RowArrays& arrays) {
  std::vector<RowColumn> columns;
  for (const TensorRef& part : parts_of(arrays)) {
    columns.push_back({static_cast<std::byte*>(part.data), part.row_size() * size_of(part.dtype)});
  }
  return columns;
}

/// Segments of 64 MiB, smaller ones for small budgets: a few are open or being swept.
std::size_t segment_bytes(std::size_t budget, const GroupShape& shape) {
  const std::size_t least =
      std::max(kLeastSegmentBytes, SegmentFile::kHeaderBytes + kLeastGroups * shape.bytes());
  return std::clamp(budget / 32, least, kMostSegmentBytes) / kBlockBytes * kBlockBytes;
}

/// What a file system takes as a name.
std::string name_in_folder(const std::string& table, std::size_t device) {
  std::string name;
  for (const unsigned char c : table)
    name += std::isalnum(c) || c == '_' || c == '-' ? static_cast<char>(c) : '_';
  // Another table's name may have become the same.
  const std::uint32_t sum = crc32(table.data(), table.size());
  return concat(name.substr(0, 100), "-", sum, "-device", device);
}

/// Those of this process.
std::shared_ptr<IoThreads> shared_io_threads() {
  static std::mutex mutex;
  static std::weak_ptr<IoThreads> shared;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<IoThreads> threads = shared.lock();
  if (!threads) shared = threads = std::make_shared<IoThreads>();
  return threads;
}

/// Whether no exponent among `bytes` of floating-point numbers is that of infinities and NaN.
template <class Bits>
bool are_finite(const std::byte* data, std::size_t bytes, Bits exponent) {
  bool finite = true;
  for (std::size_t i = 0; i < bytes; i += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, data + i, sizeof(Bits));
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

/// Of a row's record: vector, states, last step.
bool is_finite(const RowParts& parts, const std::byte* row) {
  const std::size_t vector = parts.vector_bytes();
  const bool finite = parts.vector_type == TensorScalarType::BFloat16
                          ? are_finite<std::uint16_t>(row, vector, 0x7F80)
                          : are_finite<std::uint32_t>(row, vector, 0x7F800000);
  const std::size_t states =
      std::accumulate(parts.states.begin(), parts.states.end(), std::size_t{0});
  return finite && are_finite<std::uint32_t>(row + vector, states * sizeof(float), 0x7F800000);
}

std::unique_ptr<SegmentStore> make_store(GPUResource& gpu, const std::string& table,
                                         const TableDisk& disk, const RowParts& parts,
                                         std::size_t max_rows) {
  StoreSettings settings;
  settings.folder = concat(disk.folder, "/", name_in_folder(table, gpu.get_global_id()));
  settings.table = table;
  settings.row_bytes = parts.row_bytes();
  settings.max_rows = max_rows;
  settings.max_bytes = disk.bytes;
  settings.segment_bytes = segment_bytes(disk.bytes, GroupShape(settings.row_bytes));
  settings.threads = shared_io_threads();
  settings.is_finite = [parts](const std::byte* row) { return is_finite(parts, row); };
  return std::make_unique<SegmentStore>(std::move(settings));
}

class DiskBacking final : public RowBacking {
 public:
  DiskBacking(GPUResource& gpu, const std::string& table, const std::string& owner,
              const TableDisk& disk, const RowParts& parts, std::size_t places,
              std::size_t max_rows)
      : gpu_(gpu),
        table_(table),
        owner_(owner),
        parts_(parts),
        places_(places),
        memory_(gpu.staging_resource()),
        rows_(grown(places, " on the host")),
        disk_(columns_of(rows_.arrays(places)), places, max_rows,
              make_store(gpu, table, disk, parts, max_rows)) {}

  void grow_to(std::size_t) override {}

  void ready(const OpContext& context, const TensorRef& coming, std::size_t count,
             std::size_t fresh_from, std::size_t leaving) override {
    raise_if_broken();
    let_ready_go();
    disk_.reserve(leaving);
    hold_lists(std::max(count, leaving));
    coming_.ask(context, coming, count);
    context.stream->synchronize();
    coming_.list_rows(fresh_from);
    disk_.pin(coming_.rows, DiskRows::Want::Content, coming_.places);
    std::swap(ready_, coming_.places);
    disk_.reserve(leaving);  // what came has taken room
  }

  void move(const OpContext& context, const RowArrays& cache, const RowMoves& moves) override {
    raise_if_broken();
    try {
      hold_lists(moves.count);
      leaving_.ask(context, moves.leaving, moves.count);
      coming_.ask(context, moves.coming, moves.count);
      context.stream->synchronize();
      run(context, MoveRows{.places = moves.places,
                            .leaving = pinned(leaving_, DiskRows::Want::Nothing),
                            .coming = pinned(coming_, DiskRows::Want::Again),
                            .cache = parts_of(cache),
                            .home = parts_of(rows_.arrays(places_)),
                            .count = static_cast<std::int64_t>(moves.count)});
      context.stream->synchronize();
      disk_.unpin(leaving_.places, true);
      disk_.unpin(coming_.places, false);
      let_ready_go();
    } catch (...) {
      broken_ = std::current_exception();
      throw;
    }
  }

  void read(std::span<const std::uint32_t> numbers, const RowArrays& to) override {
    raise_if_broken();
    disk_.read(numbers, columns_of(to));
  }
  void write(std::span<const std::uint32_t> numbers, const RowArrays& from) override {
    raise_if_broken();
    disk_.write(numbers, columns_of(from));
  }
  void forget(std::span<const std::uint32_t> numbers) override {
    if (broken_) return;  // of a move that failed nobody knows which rows are where
    let_ready_go();
    disk_.forget(numbers);
  }
  void clear() override {
    ready_.clear();
    disk_.clear();
    broken_ = nullptr;
  }
  std::optional<StoredRows> stored(const std::vector<std::uint32_t>& numbers) override {
    raise_if_broken();
    return disk_.stored(numbers);
  }
  void check_undamaged() const override {
    disk_.check_undamaged();  // says more
    raise_if_broken();
  }
  RowArrays whole(std::size_t) override {
    throw InvalidArgument(
        concat("embedding '", table_, "' on ", to_string(gpu_.device()),
               " has rows on a disk (Memory(disk=)), which are never all in "
               "memory: predict by the model that trains, or by its checkpoint loaded "
               "elsewhere"));
  }
  bool is_whole() const override { return false; }

  bool overlaps(const void* begin, std::size_t bytes) const override {
    return rows_.overlaps(begin, bytes);
  }
  std::size_t host_bytes() const override {
    return rows_.size_in_bytes() + disk_.bytes_beside_rows() +
           2 * list_size_ * sizeof(std::uint32_t);
  }
  DiskTierCounts disk_counts() const override {
    const DiskRowCounts counts = disk_.counts();
    const StoreCounts& store = counts.store;
    return {.rows = store.rows,
            .bytes = store.segment_bytes,
            .hits = counts.hits,
            .misses = counts.misses,
            .groups_read = store.groups_read,
            .groups_written = store.groups_written,
            .bytes_read = store.bytes_read,
            .bytes_written = store.bytes_written,
            .segments_swept = store.segments_swept,
            .rows_swept = store.rows_moved};
  }

 private:
  /// A list of rows of a move, and their places in host memory; kept from move to move.
  struct MovedRows {
    TensorBag2 numbers;                 ///< as the device has them; then places
    std::size_t count = 0;              ///< of them; 0: there is no list
    std::vector<std::uint32_t> rows;    ///< without those that are none
    std::vector<std::uint32_t> places;  ///< theirs

    std::uint32_t* data() const { return static_cast<std::uint32_t*>(numbers.get_ptr()); }
    /// The copy is there when the stream has been waited for.
    void ask(const OpContext& context, const TensorRef& list, std::size_t n) {
      count = list.empty() ? 0 : n;
      if (count > 0) context.stream->copy(data(), list.data, count * sizeof(std::uint32_t));
    }
    void list_rows(std::size_t below) {
      rows.clear();
      std::copy_if(data(), data() + count, std::back_inserter(rows),
                   [&](std::uint32_t row) { return row < below; });
      places.resize(rows.size());
    }
  };

  GrowableRows grown(std::size_t rows, const std::string& what) const {
    GrowableRows made(*memory_, gpu_.device(), owner_ + what, parts_, rows);
    made.grow_to(rows);
    return made;
  }
  /// Nothing is under way that reads them: every move ends with a wait.
  void hold_lists(std::size_t count) {
    if (count <= list_size_) return;
    const std::size_t size = count + count / 4;
    const auto arena = DeviceBuffer2::create(owner_ + " rows to move", DeviceAllocator(memory_));
    leaving_.numbers = arena->reserve({size}, TensorScalarType::UInt32, "leaving");
    coming_.numbers = arena->reserve({size}, TensorScalarType::UInt32, "coming");
    arena->allocate();
    list_size_ = size;
  }
  /// The places of its rows, which stay there; as ops of the device reach it.
  TensorRef pinned(MovedRows& list, DiskRows::Want want) {
    list.list_rows(kNoRow);
    if (list.count == 0) return {};
    disk_.pin(list.rows, want, list.places);
    std::uint32_t* const to = list.data();
    for (std::size_t i = 0, k = 0; i < list.count; ++i) {
      if (to[i] != kNoRow) to[i] = list.places[k++];
    }
    TensorRef ref = list.numbers.ref();
    ref.shape = {list.count};
    ref.device = gpu_.device();
    return ref;
  }
  void let_ready_go() {
    disk_.unpin(ready_, false);
    ready_.clear();
  }
  void raise_if_broken() const {
    if (broken_) std::rethrow_exception(broken_);
  }

  GPUResource& gpu_;
  const std::string table_, owner_;
  const RowParts parts_;
  const std::size_t places_;
  std::shared_ptr<MemoryResource> memory_;
  GrowableRows rows_;
  DiskRows disk_;
  MovedRows leaving_, coming_;
  std::size_t list_size_ = 0;         ///< that they have memory for
  std::vector<std::uint32_t> ready_;  ///< places of rows that ready() has brought
  std::exception_ptr broken_;
};

}  // namespace

std::size_t rows_of_disk(const TableDisk& disk, std::size_t row_bytes) {
  const GroupShape shape(row_bytes);
  const std::size_t segment = segment_bytes(disk.bytes, shape);
  const std::size_t segments = disk.bytes / segment;
  if (segments < SegmentStore::kLeastSegments) return 0;
  // Beside one that is written to and two that are swept into.
  const std::size_t full = segments - (SegmentStore::kLeastSegments - 1);
  const std::size_t groups = (segment - SegmentFile::kHeaderBytes) / shape.bytes();
  return full * SegmentLedger::rows_kept(groups, shape);
}

std::size_t least_disk(std::size_t row_bytes) {
  return SegmentStore::kLeastSegments * segment_bytes(0, GroupShape(row_bytes));
}

std::unique_ptr<RowBacking> make_disk_rows(GPUResource& gpu, const std::string& table,
                                           const std::string& owner, const TableDisk& disk,
                                           const RowParts& parts, std::size_t places,
                                           std::size_t max_rows) {
  return std::make_unique<DiskBacking>(gpu, table, owner, disk, parts, places, max_rows);
}

}  // namespace hugectr
