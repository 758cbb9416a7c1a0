#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_REPORT_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {

// One run of one way; zeros where it sat the round out.
struct Sample {
  double gb_per_second = 0;  // 1e9 bytes of payload
  double cpu_per_gb = 0;     // processor seconds of both ends
};

// kCohort is the data path with nothing behind it, kPs a real parameter server.
enum Way { kPlain, kBare, kCohort, kPs, kWays };
inline constexpr const char* kWayNames[kWays] = {"plain", "bare", "cohort", "ps"};

// The middle of several values, zeros where there are none.
struct Spread {
  double median = 0;
  double low = 0, high = 0;               // quartiles
  double surely_from = 0, surely_to = 0;  // where the median is, at 95 %, were rounds independent
};
Spread SpreadOf(std::vector<double> values);

// What the interleaved runs of one case gave; samples[way][round].
struct Case {
  std::string transport;
  Op op = Op::kPull;
  size_t bytes = 0;
  std::vector<Sample> samples[kWays];

  // One's rate over the other's in the same round.
  Spread Ratio(Way ours, Way other) const;
};

std::string SizeName(size_t bytes);
void PrintHead();
void PrintCase(const Case& result);
// Prints the goals and whether each case met them; false when one did not.
bool PrintGoals(const std::vector<Case>& results);

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_REPORT_H_
