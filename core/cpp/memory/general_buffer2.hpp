// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/allocators.hpp"
#include "core/cpp/memory/flat_buffer.hpp"
#include "core/cpp/memory/tensor2.hpp"

namespace hugectr {

/// One line of a memory report: who holds how many bytes.
struct MemoryReportEntry {
  std::string owner;  ///< name given to create()
  std::string name;   ///< name given to reserve()
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// One arena: reserve() many times, allocate() once. Every reservation starts on an aligned offset.
///
/// Tensors keep the arena alive, so it goes when the last of them does.
template <class Allocator>
class GeneralBuffer2 : public std::enable_shared_from_this<GeneralBuffer2<Allocator>> {
 public:
  static constexpr std::size_t kAlignment = MemoryResource::kAlignment;

  static std::shared_ptr<GeneralBuffer2> create(std::string owner, Allocator allocator) {
    return std::shared_ptr<GeneralBuffer2>(
        new GeneralBuffer2(std::move(owner), std::move(allocator)));
  }
  ~GeneralBuffer2() {
    if (data_) allocator_.deallocate(data_, bytes_);
  }
  GeneralBuffer2(const GeneralBuffer2&) = delete;
  GeneralBuffer2& operator=(const GeneralBuffer2&) = delete;

  /// Sets `tensor` to a piece of this arena; its pointer is valid after allocate().
  template <class T>
  void reserve(const Shape& dimensions, Tensor2<T>* tensor, std::string name) {
    *tensor = Tensor2<T>(dimensions, piece(num_elements(dimensions) * sizeof(T), std::move(name)));
  }
  TensorBag2 reserve(const Shape& dimensions, TensorScalarType type, std::string name) {
    return {dimensions, type, piece(num_elements(dimensions) * size_of(type), std::move(name))};
  }

  /// Sets `flat` to `count` elements of this arena when that is allocated; until then it is what
  /// it was, and stays where it is.
  void reserve(std::size_t count, TensorScalarType type, FlatBuffer* flat, std::string name) {
    flats_.push_back({flat, count, type, take(count * size_of(type), std::move(name))});
  }

  /// Takes the memory. Throws OutOfMemory with the owner's name; InvalidArgument if called twice.
  void allocate() {
    HCTR_CHECK(!allocated_, "arena '", owner_, "' is already allocated");
    if (bytes_ > 0) data_ = allocator_.allocate(bytes_, owner_);
    allocated_ = true;
    for (const Flat& flat : flats_) {
      void* const data = data_ ? static_cast<char*>(data_) + flat.offset : nullptr;
      *flat.to = FlatBuffer(data, flat.count, flat.type, allocator_.device());
    }
    flats_.clear();
  }

  bool allocated() const { return allocated_; }
  std::size_t size_in_bytes() const { return bytes_; }
  void* data() const { return data_; }
  const std::vector<MemoryReportEntry>& report() const { return report_; }

 private:
  GeneralBuffer2(std::string owner, Allocator allocator)
      : owner_(std::move(owner)), allocator_(std::move(allocator)) {}

  class Piece final : public TensorBuffer2 {
   public:
    Piece(std::shared_ptr<GeneralBuffer2> arena, std::size_t offset)
        : arena_(std::move(arena)), offset_(offset) {}
    bool allocated() const override { return arena_->allocated_; }
    void* get_ptr() override {
      return arena_->data_ ? static_cast<char*>(arena_->data_) + offset_ : nullptr;
    }
    DeviceId device() const override { return arena_->allocator_.device(); }
    void* const* base() const override { return &arena_->data_; }
    std::size_t offset() const override { return offset_; }

   private:
    std::shared_ptr<GeneralBuffer2> arena_;
    std::size_t offset_;
  };

  std::shared_ptr<TensorBuffer2> piece(std::size_t bytes, std::string name) {
    return std::make_shared<Piece>(this->shared_from_this(), take(bytes, std::move(name)));
  }
  /// Returns where they begin.
  std::size_t take(std::size_t bytes, std::string name) {
    HCTR_CHECK(!allocated_, "arena '", owner_, "' is already allocated: can not reserve '", name,
               "'");
    const std::size_t offset = bytes_;
    report_.push_back({owner_, std::move(name), offset, bytes});
    bytes_ = (offset + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }

  /// What allocate() sets.
  struct Flat {
    FlatBuffer* to;
    std::size_t count;
    TensorScalarType type;
    std::size_t offset;
  };

  std::string owner_;
  Allocator allocator_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool allocated_ = false;
  std::vector<MemoryReportEntry> report_;
  std::vector<Flat> flats_;
};

/// The arena of device-free code.
using DeviceBuffer2 = GeneralBuffer2<DeviceAllocator>;

}  // namespace hugectr
