// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/embedding/table/row_backing.hpp"

namespace hugectr {
namespace {

class HostRows final : public RowBacking {
 public:
  HostRows(MemoryResource& host_memory, DeviceId device, const std::string& owner,
           const RowParts& parts, std::size_t max_rows)
      : rows_(host_memory, device, owner + " on the host", parts, max_rows) {}

  void grow_to(std::size_t rows) override {
    rows_.grow_to(rows);
    size_ = std::max(size_, rows);
  }
  bool swaps() const override { return true; }
  void move(const OpContext& context, const RowArrays& cache, const RowMoves& moves) override {
    run(context, *move_op(cache, moves));
  }
  std::optional<MoveRows> move_op(const RowArrays& cache, const RowMoves& moves) override {
    return MoveRows{.places = moves.places,
                    .leaving = moves.leaving,
                    .coming = moves.coming,
                    .cache = parts_of(cache),
                    .home = parts_of(rows_.arrays(size_)),
                    .count = static_cast<std::int64_t>(moves.count)};
  }

  RowArrays whole(std::size_t rows) override { return rows_.arrays(rows); }

  bool overlaps(const void* begin, std::size_t bytes) const override {
    return rows_.overlaps(begin, bytes);
  }
  std::size_t host_bytes() const override { return rows_.size_in_bytes(); }

 private:
  GrowableRows rows_;
  std::size_t size_ = 0;
};

}  // namespace

std::unique_ptr<RowBacking> make_host_rows(MemoryResource& host_memory, DeviceId device,
                                           const std::string& owner, const RowParts& parts,
                                           std::size_t max_rows) {
  return std::make_unique<HostRows>(host_memory, device, owner, parts, max_rows);
}

}  // namespace hugectr
