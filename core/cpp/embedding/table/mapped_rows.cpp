// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_store.hpp"

namespace hugectr {
namespace {

class MappedRows final : public RowStore {
 public:
  MappedRows(MemoryResource& memory, DeviceId device, const std::string& owner,
             const RowParts& parts, std::size_t max_rows)
      : on_host_(memory.device() != device),
        serves_cpu_(device.type == DeviceType::Cpu),
        rows_(memory, device, owner, parts, max_rows) {}

  void grow_to(std::size_t rows) override { rows_.grow_to(rows); }
  std::size_t room() const override { return rows_.room(); }

  bool wants_distinct_rows() const override { return false; }
  bool prepare(const OpContext&, std::size_t, const PlanRows&, StagingOps&) override {
    return false;
  }
  StagedRows stage(std::size_t, std::size_t rows, const PlanRows& numbers, StagingOps&) override {
    return {rows_.arrays(rows), numbers.of_keys, numbers.distinct, {}};  // a number is a place
  }
  void release(std::size_t, const std::shared_ptr<Event>&) override {}

  void visit(const OpContext&, std::size_t rows, const std::vector<std::uint32_t>&, RowUse,
             const RowVisit& f) override {
    f({rows_.arrays(rows), nullptr});
  }
  void scan(const OpContext&, std::size_t rows, RowUse, const RowScan& f) override {
    f(rows_.arrays(rows), 0, rows);
  }
  bool visited_on_host() const override { return on_host_ || serves_cpu_; }
  RowArrays whole(std::size_t rows) override { return rows_.arrays(rows); }
  bool in_place() const override { return true; }

  bool overlaps(const void* begin, std::size_t bytes) const override {
    return rows_.overlaps(begin, bytes);
  }
  std::size_t vector_bytes() const override { return on_host_ ? 0 : rows_.vector_bytes(); }
  std::size_t size_in_bytes() const override { return on_host_ ? 0 : rows_.size_in_bytes(); }
  std::size_t host_bytes() const override { return on_host_ ? rows_.size_in_bytes() : 0; }

 private:
  bool on_host_, serves_cpu_;
  GrowableRows rows_;
};

}  // namespace

std::unique_ptr<RowStore> make_mapped_rows(MemoryResource& memory, DeviceId device,
                                           const std::string& owner, const RowParts& parts,
                                           std::size_t max_rows) {
  return std::make_unique<MappedRows>(memory, device, owner, parts, max_rows);
}

}  // namespace hugectr
