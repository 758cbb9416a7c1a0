#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_REPORT_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {

// One run of one way; zeros if it was not run in this round.
struct Sample {
  int launch = 0;
  double gb_per_second = 0;  // 1e9 bytes of payload
  double cpu_per_gb = 0;     // processor seconds of both ends
};

// kCohort is the data path with nothing behind it, kPs a real parameter server.
enum Way { kPlain, kBare, kCohort, kPs, kWays };
inline constexpr const char* kWayNames[kWays] = {"plain", "bare", "cohort", "ps"};

// Zeros if there are no values.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles QuartilesOf(std::vector<double> values);

// The ratio of two ways' rates in the same round: the median of all rounds, and the least and the
// most of the medians of the launches. A process stays faster or slower than another of its kind
// until it ends, so rounds of one launch say less than as many launches would. Zeros if one of the
// two ways was not run.
struct Ratio {
  double median = 0;
  double least = 0, most = 0;
};

// What the interleaved runs of one case gave; samples[way][round], of all launches.
struct Case {
  std::string transport;
  Op op = Op::kPull;
  size_t bytes = 0;
  std::vector<Sample> samples[kWays];

  Ratio Over(Way ours, Way other) const;
};

std::string SizeName(size_t bytes);
void PrintHead();
void PrintCase(const Case& result);
// Prints the goals and whether each case met them; false when one did not.
bool PrintGoals(const std::vector<Case>& results);

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_REPORT_H_
