// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op_on_host_tensors.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/device_backend.hpp"

namespace hugectr {
namespace {

/// Bytes from the first to the last element of a view, the gaps between its rows included.
std::size_t extent_in_bytes(const TensorRef& ref) {
  if (ref.size() == 0) return 0;
  return ((ref.rows() - 1) * ref.row_stride + ref.row_size()) * size_of(ref.dtype);
}

/// Of the gap behind the last row what a kernel may use where rows are padded (ops/linear.hpp): up
/// to a multiple of 8 elements.
std::size_t gap_in_bytes(const TensorRef& ref) {
  const std::size_t used = ref.row_size();
  const std::size_t padded = std::min((used + 7) / 8 * 8, ref.row_stride);
  return padded > used ? (padded - used) * size_of(ref.dtype) : 0;
}

/// A range of host memory and its twin on the device.
struct Region {
  char* begin = nullptr;
  char* end = nullptr;
  bool written = false;
  std::size_t gap = 0;  ///< bytes behind the end that the twin has, zeros
  char* twin = nullptr;

  std::size_t bytes() const { return end - begin; }
};

/// The host memory of all tensors, each byte in one region, sorted by address.
std::vector<Region> regions_of(AnyOp& op) {
  std::vector<Region> ranges;
  op.for_each_tensor([&](const char*, Access access, TensorRef& ref) {
    const std::size_t bytes = extent_in_bytes(ref);
    if (bytes == 0) return;
    auto* const begin = static_cast<char*>(ref.data);
    ranges.push_back({begin, begin + bytes, access != Access::In, gap_in_bytes(ref)});
  });
  std::sort(ranges.begin(), ranges.end(),
            [](const Region& a, const Region& b) { return a.begin < b.begin; });
  std::vector<Region> regions;
  for (const Region& range : ranges) {
    if (!regions.empty() && range.begin < regions.back().end) {
      char* const reach = std::max(regions.back().end + regions.back().gap, range.end + range.gap);
      regions.back().end = std::max(regions.back().end, range.end);
      regions.back().gap = static_cast<std::size_t>(reach - regions.back().end);
      regions.back().written |= range.written;
    } else {
      regions.push_back(range);
    }
  }
  return regions;
}

/// Device memory of the regions; goes with the object.
class Twins {
 public:
  Twins(std::shared_ptr<MemoryResource> memory, const char* op, std::vector<Region>& regions)
      : memory_(std::move(memory)), regions_(regions) {
    try {
      for (Region& region : regions_) {
        region.twin =
            static_cast<char*>(memory_->allocate(region.bytes() + region.gap, concat("op ", op)));
      }
    } catch (...) {
      free();
      throw;
    }
  }
  ~Twins() { free(); }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  /// Points a view at the device's memory.
  void move(TensorRef& ref, DeviceId device) const {
    ref.device = device;
    if (extent_in_bytes(ref) == 0) return;
    auto* const data = static_cast<char*>(ref.data);
    for (const Region& region : regions_) {
      if (data >= region.begin && data < region.end) ref.data = region.twin + (data - region.begin);
    }
  }

 private:
  void free() noexcept {
    for (Region& region : regions_) {
      if (region.twin != nullptr) memory_->deallocate(region.twin, region.bytes() + region.gap);
      region.twin = nullptr;
    }
  }

  std::shared_ptr<MemoryResource> memory_;
  std::vector<Region>& regions_;
};

}  // namespace

void run_on_host_tensors(const AnyOp& op, DeviceId device, ThreadPool& pool) {
  if (device.type == DeviceType::Cpu) {  // reaches host memory as it is
    op.run({.pool = &pool, .device = device});
    return;
  }
  DeviceBackend& backend = DeviceBackend::get(device.type);
  backend.check_device(device.index);
  AnyOp moved = op;
  auto regions = regions_of(moved);
  const Twins twins(backend.memory_resource(device), op.name(), regions);
  // After the twins: the stream waits for its work when it goes, whatever is thrown.
  const auto stream = backend.create_stream(device, "op");
  for (const Region& region : regions) {
    stream->copy(region.twin, region.begin, region.bytes());
    if (region.gap > 0) stream->fill_zero(region.twin + region.bytes(), region.gap);
  }
  moved.for_each_tensor([&](const char*, Access, TensorRef& ref) { twins.move(ref, device); });
  moved.run({.stream = stream.get(), .pool = &pool, .device = device});
  stream->synchronize();
  for (const Region& region : regions) {
    if (region.written) stream->copy(region.begin, region.twin, region.bytes());
  }
  stream->synchronize();
}

}  // namespace hugectr
