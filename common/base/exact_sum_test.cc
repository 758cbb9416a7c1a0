#include "common/base/exact_sum.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace cohort {
namespace {

ExactSum SumOf(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.Add(value);
  return sum;
}

TEST_CASE("an exact sum rounds once, to the nearest double") {
  constexpr double kUlp = 0x1p-52;
  CHECK(SumOf({}).ToDouble() == 0);
  CHECK(SumOf({0.1}).ToDouble() == 0.1);
  CHECK(SumOf({1, kUlp / 2}).ToDouble() == 1);                     // a tie, to the even one
  CHECK(SumOf({1, kUlp, kUlp / 2}).ToDouble() == 1 + 2 * kUlp);    // a tie, to the even one
  CHECK(SumOf({1, kUlp / 2, 0x1p-1074}).ToDouble() == 1 + kUlp);   // a last bit far below decides
  CHECK(SumOf(std::vector<double>(1000, 0.1)).ToDouble() == 100);  // 0.1 is above a tenth by 2^-57
  const double most = std::numeric_limits<double>::max();
  const double least = std::numeric_limits<double>::denorm_min();
  CHECK(SumOf({most}).ToDouble() == most);
  CHECK(SumOf({least, least, least}).ToDouble() == 3 * least);
  CHECK(SumOf({0x1p-1022, least}).ToDouble() == 0x1p-1022 + least);
  CHECK(std::isinf(SumOf({most, most}).ToDouble()));
  CHECK(std::isinf(SumOf({1, std::numeric_limits<double>::infinity()}).ToDouble()));
  CHECK(std::isnan(SumOf({1, std::numeric_limits<double>::quiet_NaN()}).ToDouble()));
}

TEST_CASE("an exact sum does not depend on the order or on partial sums") {
  std::mt19937_64 random(7);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i) {
    const int exponent = static_cast<int>(random() % 2040) - 1074;
    values.push_back(std::ldexp(static_cast<double>(random() >> 11), exponent - 53));
  }
  const ExactSum whole = SumOf(values);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    ExactSum merged;
    for (size_t begin = 0; begin < values.size();) {
      const size_t end = std::min<size_t>(values.size(), begin + 1 + random() % 900);
      const auto part = ExactSum::Parse(SumOf({values.begin() + static_cast<long>(begin),
                                               values.begin() + static_cast<long>(end)})
                                            .Serialize());
      REQUIRE(part.ok());
      merged.Add(*part);
      begin = end;
    }
    CHECK(merged.Serialize() == whole.Serialize());
    CHECK(merged.ToDouble() == whole.ToDouble());
  }
}

TEST_CASE("sums beyond the range of double keep their digits") {
  ExactSum sum;
  for (int i = 0; i < 5; ++i) sum.Add(std::numeric_limits<double>::max());
  const auto read = ExactSum::Parse(sum.Serialize());
  REQUIRE(read.ok());
  CHECK(read->Serialize() == sum.Serialize());
  ExactSum twice = sum;
  twice.Add(*read);
  for (int i = 0; i < 5; ++i) sum.Add(std::numeric_limits<double>::max());
  CHECK(twice.Serialize() == sum.Serialize());
}

TEST_CASE("the text of an exact sum is short, and another text is refused") {
  CHECK(SumOf({}).Serialize().size() == 2);
  CHECK(SumOf({1}).Serialize().size() <= 10);
  CHECK(SumOf({std::numeric_limits<double>::infinity()}).Serialize().size() == 1);
  for (const std::string& text :
       {std::string(), std::string(1, 0), std::string(1, 3), std::string(5, 0),
        std::string{0, 67, 1, 0, 0, 0}, std::string{0, 68}, std::string(2 + 4 * 68, 0)}) {
    INFO(text.size());
    CHECK_FALSE(ExactSum::Parse(text).ok());
  }
}

}  // namespace
}  // namespace cohort
