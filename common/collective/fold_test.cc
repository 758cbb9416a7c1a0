#include "common/collective/fold.h"

#include <cstring>
#include <random>

namespace cohort {
namespace {

// Cuts the bytes of `values` into pieces of random sizes, also within elements.
template <typename T>
std::vector<std::vector<uint8_t>> RandomPieces(const std::vector<T>& values, std::mt19937* random) {
  std::vector<std::vector<uint8_t>> pieces;
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  for (size_t at = 0; at < values.size() * sizeof(T);) {
    const size_t size = std::min<size_t>((*random)() % 3000, values.size() * sizeof(T) - at);
    pieces.emplace_back(bytes + at, bytes + at + size);
    at += size;
  }
  return pieces;
}

std::vector<PieceFolder::Bytes> Spans(const std::vector<std::vector<uint8_t>>& pieces) {
  return {pieces.begin(), pieces.end()};
}

template <typename T>
std::vector<T> RandomValues(size_t count, std::mt19937* random) {
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>((*random)()) / static_cast<T>(1 << 20) - 1;
  return values;
}

TEMPLATE_TEST_CASE("a fold has the bits of a loop in the same order", "", float, double) {
  using T = TestType;
  std::mt19937 random(7);
  PieceFolder folder;
  for (const size_t count : {1, 2, 3, 17, 1000, 4099}) {
    for (size_t terms = 1; terms <= 5; ++terms) {
      std::vector<std::vector<T>> sources;
      for (size_t k = 0; k < terms; ++k) sources.push_back(RandomValues<T>(count, &random));
      std::vector<T> expected = sources[0];
      for (size_t k = 1; k < terms; ++k) {
        for (size_t i = 0; i < count; ++i) expected[i] += sources[k][i];
      }
      // The last source is the output too, and the others lie in pieces.
      std::vector<std::vector<std::vector<uint8_t>>> pieces;
      std::vector<std::vector<PieceFolder::Bytes>> spans;
      for (size_t k = 0; k + 1 < terms; ++k) pieces.push_back(RandomPieces(sources[k], &random));
      for (const auto& cut : pieces) spans.push_back(Spans(cut));
      std::vector<T> out = sources.back();
      folder.Begin();
      for (const auto& cut : spans) folder.Add(cut);
      folder.Add(reinterpret_cast<const uint8_t*>(out.data()));
      folder.Fold(DTypeOf<T>(), reinterpret_cast<uint8_t*>(out.data()), count);
      CHECK((count == 0 || std::memcmp(out.data(), expected.data(), count * sizeof(T)) == 0));
    }
  }
}

TEST_CASE("pieces are copied one after another") {
  std::mt19937 random(3);
  const std::vector<double> values = RandomValues<double>(5000, &random);
  const auto pieces = RandomPieces(values, &random);
  std::vector<double> out(values.size());
  CopyPieces(Spans(pieces), reinterpret_cast<uint8_t*>(out.data()));
  CHECK(out == values);
}

}  // namespace
}  // namespace cohort
