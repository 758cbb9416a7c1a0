#include "common/tensor/tensor.h"

#include <catch2/catch.hpp>
#include <thread>

namespace cohort {
namespace {

TEST_CASE("dtype names go both ways") {
  for (int i = 1; i <= 6; ++i) {
    const auto dtype = static_cast<DType>(i);
    REQUIRE(DTypeFromName(DTypeName(dtype)) == dtype);
    REQUIRE(SizeOf(dtype) > 0);
  }
  REQUIRE_FALSE(DTypeFromName("float33").has_value());
}

TEST_CASE("a tensor shares its buffer with its copies") {
  const float values[] = {1, 2, 3, 4, 5, 6};
  Tensor a = Tensor::FromValues<float>({2, 3}, values);
  REQUIRE(a.buffer().unique());
  Tensor b = a;
  REQUIRE_FALSE(a.buffer().unique());
  REQUIRE(b.values<float>()[5] == 6);
  REQUIRE(DimsToString(b.dims()) == "[2, 3]");
  REQUIRE(Tensor::Scalar<double>(2.5).num_elements() == 1);
}

TEST_CASE("a pool reuses memory and allocates no more") {
  auto pool = BufferPool::Create(1 << 20);
  const uint8_t* first = pool->Allocate(1000)->data();
  for (int i = 0; i < 100; ++i) {
    BufferRef again = pool->Allocate(1000);
    REQUIRE(again->data() == first);
    REQUIRE(again->size() == 1000);
    REQUIRE(reinterpret_cast<uintptr_t>(again->data()) % 64 == 0);
  }
  REQUIRE(pool->heap_allocations() == 1);
}

TEST_CASE("a buffer outlives its pool") {
  auto pool = BufferPool::Create(1 << 20);
  BufferRef kept = pool->Allocate(5000);
  pool.reset();
  kept->data()[4999] = 7;
  REQUIRE(kept->data()[4999] == 7);
}

TEST_CASE("a pool is used by several threads") {
  auto pool = BufferPool::Create(1 << 16);
  auto work = [&] {
    for (size_t i = 0; i < 2000; ++i) {
      BufferRef b = pool->Allocate(1 + i % 5000);
      BufferRef c = b;
      b->data()[0] = 1;
    }
  };
  std::thread a(work), b(work);
  a.join();
  b.join();
  REQUIRE(pool->heap_allocations() > 0);
}

}  // namespace
}  // namespace cohort
