#include "common/tensor/past_caches.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

namespace cohort {
namespace {

TEST_CASE("a copy past the caches copies these bytes and no others, wherever they lie") {
  std::vector<uint8_t> from(400);
  std::iota(from.begin(), from.end(), uint8_t{1});
  for (size_t begin = 0; begin < 70; ++begin) {
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{200}, size_t{260}}) {
      std::vector<uint8_t> to(400), expected(400);
      std::copy_n(from.begin() + 3, bytes, expected.begin() + static_cast<int64_t>(begin));
      CopyPastCaches(to.data() + begin, from.data() + 3, bytes);
      REQUIRE(to == expected);
    }
  }
}

}  // namespace
}  // namespace cohort
