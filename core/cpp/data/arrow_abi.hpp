// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

/// The Arrow C data interface (arrow.apache.org/docs/format/CDataInterface.html): a stable ABI that
/// its specification asks implementers to copy. Field names are the specification's.
extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

}  // extern "C"

namespace hugectr {

/// A struct array (a record batch) and its schema, released together.
struct ArrowBatch {
  ArrowSchema schema{};
  ArrowArray array{};

  ArrowBatch() = default;
  ~ArrowBatch() {
    if (array.release) array.release(&array);
    if (schema.release) schema.release(&schema);
  }
  ArrowBatch(const ArrowBatch&) = delete;
  ArrowBatch& operator=(const ArrowBatch&) = delete;
};

}  // namespace hugectr
