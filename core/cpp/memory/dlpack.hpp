// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Tensors across libraries without a copy: the C interface of DLPack 1.0 and its unversioned
/// predecessor (https://dmlc.github.io/dlpack/latest/c_api.html).
///
/// Names, order and sizes of the structs and the numbers of the enums are those of the public
/// specification, DLPack, Copyright (c) 2017-2024 DLPack contributors, Apache License 2.0. They are
/// written down here, in a namespace of their own, so that a build needs no other header.
namespace hugectr::dlpack {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint32_t kMinorVersion = 0;

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

enum DLDataTypeCode : std::uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4 };

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: packed, row-major
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

inline constexpr std::uint64_t kFlagReadOnly = 1;
inline constexpr std::uint64_t kFlagIsCopied = 2;

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

/// Where a tensor lies, as DLPack says it. All virtual CPU devices are the one CPU.
HCTR_API DLDevice device_of(const TensorRef& ref);

/// The tensor as a DLPack object that shares `owner` until its deleter is called, which may be by
/// any thread and holds no lock. InvalidArgument for an empty ref.
HCTR_API DLManagedTensor* export_tensor(const TensorRef& ref, std::shared_ptr<const void> owner);
HCTR_API DLManagedTensorVersioned* export_versioned(const TensorRef& ref,
                                                    std::shared_ptr<const void> owner,
                                                    std::uint64_t flags);

/// The view that a foreign tensor gives. InvalidArgument names what is not supported: another kind
/// of device, dtype or lanes, or strides that are not those of packed rows some elements apart.
HCTR_API TensorRef import_tensor(const DLTensor& tensor);

/// Owners that call the deleter of what was imported when the last of them goes.
HCTR_API std::shared_ptr<const void> take(DLManagedTensor* tensor);
HCTR_API std::shared_ptr<const void> take(DLManagedTensorVersioned* tensor);

}  // namespace hugectr::dlpack
