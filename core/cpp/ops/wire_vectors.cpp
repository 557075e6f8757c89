// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/wire_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kWireGrain = 1 << 14;  ///< numbers a task

template <class T>
float wide(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <class T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, Float16>) return to_float16(value);
  if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(value);
  if constexpr (std::is_same_v<T, float>) return value;
}

void put(std::uint8_t* to, std::size_t column, int bytes, std::uint32_t bits) {
  if (bytes == 1) {
    to[column] = static_cast<std::uint8_t>(bits);
  } else {
    const auto half = static_cast<std::uint16_t>(bits);
    std::memcpy(to + 2 * column, &half, sizeof half);
  }
}

std::uint32_t taken(const std::uint8_t* from, std::size_t column, int bytes) {
  if (bytes == 1) return from[column];
  std::uint16_t half;
  std::memcpy(&half, from + 2 * column, sizeof half);
  return half;
}

std::size_t vectors_of(const TensorRef& ref) {
  return ref.shape.empty() ? 0 : ref.size() / ref.shape.back();
}

std::size_t grain_of(std::size_t d) { return std::max<std::size_t>(1, kWireGrain / d); }

template <class T>
void pack_vector(const WirePack& op, std::uint64_t key, std::size_t i, std::size_t d) {
  const WireFormat format = wire_format(op.type);
  const T* const x = op.x.ptr<T>() + i * d;
  const std::size_t width = wire_bytes(op.type, d);
  std::uint8_t* to = op.y.ptr<std::uint8_t>() + i * width;
  float inverse = 1.0f;
  if (format.scaled) {
    float most = 0.0f;
    for (std::size_t j = 0; j < d; ++j) {
      const float size = std::fabs(wide(x[j]));
      most = std::isnan(size) || size > most ? size : most;
      if (std::isnan(most)) break;
    }
    const float scale = wire_scale(op.type, most);
    std::memcpy(to, &scale, sizeof scale);
    to += sizeof scale;
    // NaN is in the scale: the numbers may be anything.
    inverse = std::isnan(scale) ? 0.0f : 1.0f / scale;
  }
  std::memset(to + d * static_cast<std::size_t>(format.bytes), 0,
              width - (format.scaled ? 4 : 0) - d * static_cast<std::size_t>(format.bytes));
  const bool nearest = op.step.empty();
  std::uint64_t content = 0;
  for (std::size_t j = 0; !nearest && j < d; ++j) content += wire_content(wide(x[j]), j);
  for (std::size_t j = 0; j < d; j += 4) {
    const Philox4 random = nearest ? Philox4{} : wire_bits(key, content, j / 4);
    for (std::size_t k = j; k < std::min(j + 4, d); ++k) {
      float value = wide(x[k]) * inverse;
      if (format.scaled && inverse == 0.0f) value = 0.0f;
      put(to, k, format.bytes, wire_encode(op.type, value, nearest, random.x[k - j]));
    }
  }
}

template <class T>
void pack_vectors(const OpContext& context, const WirePack& op) {
  const std::size_t d = op.x.shape.back();
  const std::uint64_t key =
      op.step.empty() ? 0 : wire_key(op.seed, op.stream, *op.step.ptr<std::int64_t>());
  parallel_for(*context.pool, vectors_of(op.x), grain_of(d),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) pack_vector<T>(op, key, i, d);
               });
}

template <class T>
void unpack_vectors(const OpContext& context, const WireUnpack& op) {
  const WireFormat format = wire_format(op.type);
  const std::size_t d = op.y.shape.back(), n = vectors_of(op.y);
  const std::size_t width = wire_bytes(op.type, d), head = format.scaled ? 4 : 0;
  const auto* const from = op.x.ptr<std::uint8_t>();
  parallel_for(*context.pool, n, grain_of(d), [&](std::size_t begin, std::size_t end) {
    std::vector<float> sum(d);
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t r = 0; r < static_cast<std::size_t>(op.blocks); ++r) {
        const std::uint8_t* const vector = from + (r * n + i) * width;
        float scale = 1.0f;
        if (format.scaled) std::memcpy(&scale, vector, sizeof scale);
        for (std::size_t j = 0; j < d; ++j) {
          const float value = wire_decode(op.type, taken(vector + head, j, format.bytes)) * scale;
          sum[j] = r == 0 ? value : sum[j] + value;
        }
      }
      T* const y = op.y.ptr<T>() + i * d;
      for (std::size_t j = 0; j < d; ++j) y[j] = rounded<T>(sum[j]);
    }
  });
}

template <class F>
void with_type(TensorScalarType type, const F& f) {
  if (type == TensorScalarType::Float16) return f(Float16{});
  if (type == TensorScalarType::BFloat16) return f(BFloat16{});
  f(float{});
}

void wire_pack_kernel(const OpContext& context, const WirePack& op) {
  with_type(op.x.dtype, [&]<class T>(T) { pack_vectors<T>(context, op); });
}

void wire_unpack_kernel(const OpContext& context, const WireUnpack& op) {
  with_type(op.y.dtype, [&]<class T>(T) { unpack_vectors<T>(context, op); });
}

const OpRegistration<WirePack> wire_pack_cpu{DeviceType::Cpu, &wire_pack_kernel};
const OpRegistration<WireUnpack> wire_unpack_cpu{DeviceType::Cpu, &wire_unpack_kernel};
const SeveralRegistration<WirePack> several_wire_pack_cpu{DeviceType::Cpu};
const SeveralRegistration<WireUnpack> several_wire_unpack_cpu{DeviceType::Cpu};

void check_wire(const char* name, WireType type, const TensorRef& vectors, const TensorRef& bytes,
                std::size_t blocks) {
  HCTR_CHECK(type == WireType::BFloat16 || type == WireType::Float16 || type == WireType::Float8,
             name, ": type ", static_cast<int>(type), " is not bfloat16, float16 or float8");
  HCTR_CHECK(
      vectors.dtype == TensorScalarType::Float32 || vectors.dtype == TensorScalarType::Float16 ||
          vectors.dtype == TensorScalarType::BFloat16,
      name, ": vectors must hold float32, float16 or bfloat16, found ", to_string(vectors.dtype));
  HCTR_CHECK(vectors.shape.size() == 2 && vectors.shape[1] > 0 && vectors.contiguous(), name,
             ": vectors must be (n, d) without gaps, found ", to_string(vectors.shape));
  const Shape wanted{blocks * vectors.shape[0], wire_bytes(type, vectors.shape[1])};
  HCTR_CHECK(bytes.dtype == TensorScalarType::UInt8 && bytes.shape == wanted && bytes.contiguous(),
             name, ": bytes must be uint8 ", to_string(wanted), ", found ", to_string(bytes.dtype),
             " ", to_string(bytes.shape));
}

}  // namespace

void WirePack::check() const {
  check_wire(kName, type, x, y, 1);
  HCTR_CHECK(step.empty() || (step.dtype == TensorScalarType::Int64 && step.size() == 1), kName,
             ": step must be one int64");
}

void WireUnpack::check() const {
  HCTR_CHECK(blocks >= 1, kName, ": ", blocks, " blocks, at least one is needed");
  check_wire(kName, type, y, x, static_cast<std::size_t>(blocks));
}

}  // namespace hugectr
