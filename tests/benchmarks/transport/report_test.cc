#include "tests/benchmarks/transport/report.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace cohort::bench {
namespace {

TEST_CASE("quartiles") {
  CHECK(QuartilesOf({}).median == 0);
  CHECK(QuartilesOf({7}).low == 7);
  CHECK(QuartilesOf({3, 1, 2}).median == 2);
  CHECK(QuartilesOf({4, 1, 3, 2}).median == Approx(2.5));
  std::vector<double> values(101);
  std::iota(values.rbegin(), values.rend(), 0);
  const Quartiles quartiles = QuartilesOf(values);
  CHECK(quartiles.low == Approx(25));
  CHECK(quartiles.median == Approx(50));
  CHECK(quartiles.high == Approx(75));
}

// One round of a case: the rates of plain, bare and cohort.
void Add(Case* result, int launch, double plain, double bare, double cohort) {
  result->samples[kPlain].push_back({.launch = launch, .gb_per_second = plain});
  result->samples[kBare].push_back({.launch = launch, .gb_per_second = bare});
  result->samples[kCohort].push_back({.launch = launch, .gb_per_second = cohort});
}

TEST_CASE("a ratio is of rates of the same round, and tells how launches differ") {
  Case result;
  // The machine is ten times slower in two of the rounds, which no way has caused.
  Add(&result, 0, 1, 2, 1.8);
  Add(&result, 0, 0.1, 0.2, 0.18);
  Add(&result, 0, 0, 2, 2.2);  // plain sits it out
  Add(&result, 1, 0.1, 0.2, 0.22);
  Add(&result, 1, 1, 2, 2);
  Add(&result, 1, 0, 2, 2.4);
  const Ratio bare = result.Over(kCohort, kBare);
  CHECK(bare.median == Approx(1.05));  // values: .9 .9 1 1.1 1.1 1.2
  CHECK(bare.least == Approx(0.9));
  CHECK(bare.most == Approx(1.1));
  const Ratio plain = result.Over(kCohort, kPlain);
  CHECK(plain.median == Approx(1.9));  // values: 1.8 1.8 2 2.2
  CHECK(result.Over(kPs, kBare).median == 0);
}

TEST_CASE("a goal that is missed is found, in whichever case and beside whichever peer") {
  Case small{.transport = "tcp", .op = Op::kPull, .bytes = 4 << 10, .samples = {}};
  Case big{.transport = "unix", .op = Op::kPush, .bytes = 4 << 20, .samples = {}};
  Add(&small, 0, 1, 1, 1);
  Add(&big, 0, 1, 1.3, 1.25);
  CHECK(PrintGoals({small, big}));
  SECTION("small, beside plain") { small.samples[kPlain][0].gb_per_second = 1.02; }
  SECTION("small, beside bare") { small.samples[kBare][0].gb_per_second = 1.2; }
  SECTION("big, beside plain") { big.samples[kPlain][0].gb_per_second = 1.1; }
  SECTION("big, beside bare") { big.samples[kBare][0].gb_per_second = 1.5; }
  CHECK_FALSE(PrintGoals({small, big}));
}

TEST_CASE("what was to be measured beside a peer and was not misses its goal") {
  Case result{.transport = "tcp", .op = Op::kPull, .bytes = 4 << 10, .samples = {}};
  Add(&result, 0, 0, 1, 1);
  CHECK_FALSE(PrintGoals({result}));
  result.samples[kPlain].clear();  // not wanted at all
  CHECK(PrintGoals({result}));
}

}  // namespace
}  // namespace cohort::bench
