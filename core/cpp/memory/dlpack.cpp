// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/dlpack.hpp"

#include <utility>
#include <vector>

#include "core/cpp/memory/row_strides.hpp"

namespace hugectr::dlpack {
namespace {

DLDataType type_of(TensorScalarType type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  switch (type) {
    case TensorScalarType::Float16:
    case TensorScalarType::Float32:
    case TensorScalarType::Float64:
      return {kDLFloat, bits, 1};
    case TensorScalarType::BFloat16:
      return {kDLBfloat, bits, 1};
    case TensorScalarType::Int32:
    case TensorScalarType::Int64:
      return {kDLInt, bits, 1};
    case TensorScalarType::UInt8:
    case TensorScalarType::UInt32:
    case TensorScalarType::UInt64:
      return {kDLUInt, bits, 1};
    default:
      throw InvalidArgument(concat("a tensor of ", to_string(type), " has no DLPack type"));
  }
}

TensorScalarType type_of(DLDataType type) {
  for (const TensorScalarType known :
       {TensorScalarType::Float32, TensorScalarType::Float16, TensorScalarType::BFloat16,
        TensorScalarType::Float64, TensorScalarType::Int64, TensorScalarType::UInt64,
        TensorScalarType::Int32, TensorScalarType::UInt32, TensorScalarType::UInt8}) {
    const DLDataType its = type_of(known);
    if (its.code == type.code && its.bits == type.bits && type.lanes == 1) return known;
  }
  throw InvalidArgument(concat("DLPack tensor: type code ", int{type.code}, " with ",
                               int{type.bits}, " bits and ", type.lanes,
                               " lanes is not supported; use float16, bfloat16, float32, float64, "
                               "int32, int64, uint8, uint32 or uint64"));
}

/// What an exported tensor points into; `Managed` is one of the two public structs.
template <class Managed>
struct Exported {
  Managed managed{};
  std::vector<std::int64_t> shape, strides;
  std::shared_ptr<const void> owner;
};

template <class Managed>
Managed* make(const TensorRef& ref, std::shared_ptr<const void> owner) {
  HCTR_CHECK(!ref.empty(), "an empty tensor can not be handed out");
  auto exported = std::make_unique<Exported<Managed>>();
  exported->shape.assign(ref.shape.begin(), ref.shape.end());
  exported->strides = element_strides(ref);
  exported->owner = std::move(owner);
  DLTensor& tensor = exported->managed.dl_tensor;
  tensor.data = ref.size() > 0 ? ref.data : nullptr;
  tensor.device = device_of(ref);
  tensor.ndim = static_cast<std::int32_t>(ref.shape.size());
  tensor.dtype = type_of(ref.dtype);
  tensor.shape = exported->shape.data();
  tensor.strides = exported->strides.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  return &exported.release()->managed;
}

template <class Managed>
std::shared_ptr<const void> take_any(Managed* tensor) {
  return {static_cast<const void*>(tensor), [tensor](const void*) {
            if (tensor->deleter != nullptr) tensor->deleter(tensor);
          }};
}

DeviceId device_of(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return DeviceId::host();
    case kDLCUDA:
    case kDLCUDAManaged:
      return {DeviceType::Cuda, device.device_id};
    default:
      throw InvalidArgument(concat("DLPack tensor: device type ", device.device_type,
                                   " is not supported; it must lie in CPU or CUDA memory"));
  }
}

}  // namespace

DLDevice device_of(const TensorRef& ref) {
  if (ref.device.type == DeviceType::Cpu) return {kDLCPU, 0};
  return {kDLCUDA, ref.device.index};
}

DLManagedTensor* export_tensor(const TensorRef& ref, std::shared_ptr<const void> owner) {
  return make<DLManagedTensor>(ref, std::move(owner));
}

DLManagedTensorVersioned* export_versioned(const TensorRef& ref, std::shared_ptr<const void> owner,
                                           std::uint64_t flags) {
  DLManagedTensorVersioned* const result = make<DLManagedTensorVersioned>(ref, std::move(owner));
  result->version = {kMajorVersion, kMinorVersion};
  result->flags = flags;
  return result;
}

TensorRef import_tensor(const DLTensor& tensor) {
  TensorRef ref;
  ref.dtype = type_of(tensor.dtype);
  ref.device = device_of(tensor.device);
  HCTR_CHECK(tensor.ndim >= 0, "DLPack tensor: ", tensor.ndim, " dimensions");
  for (std::int32_t i = 0; i < tensor.ndim; ++i) {
    HCTR_CHECK(tensor.shape[i] >= 0, "DLPack tensor: dimension ", i, " is ", tensor.shape[i]);
    ref.shape.push_back(static_cast<std::size_t>(tensor.shape[i]));
  }
  std::vector<std::int64_t> strides;
  if (tensor.strides != nullptr) strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  ref.row_stride = row_stride_of(ref.shape, strides, "DLPack tensor");
  ref.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  HCTR_CHECK(ref.size() == 0 || tensor.data != nullptr, "DLPack tensor: it has no memory");
  return ref;
}

std::shared_ptr<const void> take(DLManagedTensor* tensor) { return take_any(tensor); }
std::shared_ptr<const void> take(DLManagedTensorVersioned* tensor) { return take_any(tensor); }

}  // namespace hugectr::dlpack
