// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/tensor_map.hpp"

#include "core/cuda/driver/driver.hpp"

namespace hugectr::cuda {

bool maps_as_tensor(const Matrix& matrix) {
  return size_of(matrix.dtype) == 2 && matrix.stride % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0;
}

CUtensorMap tensor_map(const Matrix& matrix, std::uint32_t box_rows) {
  const cuuint64_t sizes[] = {matrix.columns, matrix.rows};
  const cuuint64_t strides[] = {matrix.stride * size_of(matrix.dtype)};
  const cuuint32_t box[] = {kBoxColumns, box_rows};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map;
  const CUresult status = driver().tensor_map_encode_tiled(
      &map,
      matrix.dtype == TensorScalarType::BFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2, matrix.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError(concat("cuTensorMapEncodeTiled failed with ", static_cast<int>(status),
                             " for a matrix of ", matrix.rows, " x ", matrix.columns, " with rows ",
                             matrix.stride, " elements apart"));
  }
  return map;
}

}  // namespace hugectr::cuda
