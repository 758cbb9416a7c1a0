#include "common/data/convert.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/data/release_if_large.h"

namespace cohort {
namespace {

TEST_CASE("an integer that does not fit becomes the nearest one") {
  CHECK(ConvertNumber<uint8_t>(int64_t{300}, 1, 0) == 255);
  CHECK(ConvertNumber<uint8_t>(int32_t{-1}, 1, 0) == 0);
  CHECK(ConvertNumber<uint8_t>(int32_t{200}, 1, 0) == 200);
  CHECK(ConvertNumber<int32_t>(int64_t{1} << 40, 1, 0) == std::numeric_limits<int32_t>::max());
  CHECK(ConvertNumber<int32_t>(-(int64_t{1} << 40), 1, 0) == std::numeric_limits<int32_t>::min());
  CHECK(ConvertNumber<int32_t>(true, 1, 0) == 1);
  // 2^62 + 1 has no double.
  CHECK(ConvertNumber<int64_t>((int64_t{1} << 62) + 1, 1, 0) == (int64_t{1} << 62) + 1);
  const std::vector<int64_t> in = {-5, 7, 256};
  std::vector<uint8_t> out(3);
  ConvertNumbers(DType::kInt64, in.data(), DType::kUint8, out.data(), 3);
  CHECK(out == std::vector<uint8_t>{0, 7, 255});
}

TEST_CASE("floats that are no integer are cut off, limited, or 0") {
  CHECK(ConvertNumber<int32_t>(-2.75F, 1, 0) == -2);
  CHECK(ConvertNumber<uint8_t>(INFINITY, 1, 0) == 255);
  CHECK(ConvertNumber<int64_t>(-1e300, 1, 0) == std::numeric_limits<int64_t>::min());
  CHECK(ConvertNumber<int32_t>(NAN, 1, 0) == 0);
  CHECK(ConvertNumber<uint8_t>(std::nan(""), 2, 5) == 0);
}

TEST_CASE("a reused buffer keeps its memory unless it is large") {
  std::vector<float> buffer(10);
  { const ReleaseIfLarge release(&buffer); }
  CHECK(buffer.capacity() >= 10);
  buffer.reserve(ReleaseIfLarge<std::vector<float>>::kMaxKeptBytes / sizeof(float) + 1);
  { const ReleaseIfLarge release(&buffer); }
  CHECK(buffer.capacity() == 0);
}

}  // namespace
}  // namespace cohort
