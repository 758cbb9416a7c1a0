#include "common/collective/add_elements.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

namespace cohort {
namespace {

template <typename T>
std::vector<T> RandomValues(size_t count, std::mt19937* random) {
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>((*random)()) / static_cast<T>(1 << 20) - 1;
  return values;
}

TEMPLATE_TEST_CASE("a sum has the bits of a loop, also from pieces that cut elements", "", float,
                   double) {
  using T = TestType;
  std::mt19937 random(7);
  for (const size_t count : {0, 1, 2, 3, 17, 1000, 4099}) {
    std::vector<T> sum = RandomValues<T>(count, &random);
    const std::vector<T> values = RandomValues<T>(count, &random);
    std::vector<T> expected = sum;
    for (size_t i = 0; i < count; ++i) expected[i] += values[i];
    // Each piece has memory of its own, so that a read beyond it is found.
    std::vector<std::vector<uint8_t>> pieces;
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    for (size_t at = 0; at < count * sizeof(T);) {
      const size_t longest = random() % 4 == 0 ? 6 : 3000;
      const size_t size = std::min<size_t>(random() % longest, count * sizeof(T) - at);
      pieces.emplace_back(bytes + at, bytes + at + size);
      at += size;
    }
    const std::vector<std::span<const uint8_t>> spans(pieces.begin(), pieces.end());
    AddPieces(DTypeOf<T>(), reinterpret_cast<uint8_t*>(sum.data()), spans);
    CHECK((count == 0 || std::memcmp(sum.data(), expected.data(), count * sizeof(T)) == 0));
  }
}

}  // namespace
}  // namespace cohort
