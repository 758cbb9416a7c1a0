#include "tests/benchmarks/transport/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::bench {
namespace {

constexpr size_t kBig = size_t{1} << 20;
constexpr double kOverPlainBig = 1.2;
constexpr double kOverPlainSmall = 1.0;
constexpr double kOverBare = 0.85;

// Of the rounds in which there was a run.
std::vector<double> Measured(const std::vector<Sample>& samples, double Sample::*what) {
  std::vector<double> values;
  for (const Sample& sample : samples) {
    if (sample.gb_per_second > 0) values.push_back(sample.*what);
  }
  return values;
}

const char* OpName(Op op) { return op == Op::kPull ? "pull" : "push"; }

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  const auto at = [&](double rank) {
    return values[static_cast<size_t>(std::lround(std::clamp(rank, 0.0, last)))];
  };
  // The number of values below the true median is binomial: its deviation is half a root of n.
  const double sure = 1.96 * 0.5 * std::sqrt(last + 1);
  return {.median = at(last / 2),
          .low = at(last / 4),
          .high = at(3 * last / 4),
          .surely_from = at(last / 2 - sure),
          .surely_to = at(last / 2 + sure)};
}

Spread Case::Ratio(Way ours, Way other) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < samples[ours].size() && i < samples[other].size(); ++i) {
    const double mine = samples[ours][i].gb_per_second, theirs = samples[other][i].gb_per_second;
    if (mine > 0 && theirs > 0) ratios.push_back(mine / theirs);
  }
  return SpreadOf(std::move(ratios));
}

std::string SizeName(size_t bytes) {
  return bytes >= kBig ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} KB", bytes >> 10);
}

void PrintHead() {
  fmt::print("{:<5} {:<4} {:>6}", "", "", "");
  for (const char* name : kWayNames) fmt::print(" | {:^29}", name);
  fmt::print(" | {:^35} | ps over\n{:<5} {:<4} {:>6}", "cohort over (95 % of the medians)", "",
             "op", "size");
  for (int i = 0; i < kWays; ++i) {
    fmt::print(" | {:>6} {:>6} {:>6} {:>8}", "GB/s", "1/4", "3/4", "cpu s/GB");
  }
  fmt::print(" | {:^18} {:>16} | plain   bare\n", "plain", "bare");
}

void PrintCase(const Case& result) {
  fmt::print("{:<5} {:<4} {:>6}", result.transport, OpName(result.op), SizeName(result.bytes));
  for (const auto& samples : result.samples) {
    const Spread rate = SpreadOf(Measured(samples, &Sample::gb_per_second));
    if (rate.median == 0) {
      fmt::print(" | {:>29}", "-");
      continue;
    }
    fmt::print(" | {:>6.3f} {:>6.3f} {:>6.3f} {:>8.3f}", rate.median, rate.low, rate.high,
               SpreadOf(Measured(samples, &Sample::cpu_per_gb)).median);
  }
  const Spread plain = result.Ratio(kCohort, kPlain), bare = result.Ratio(kCohort, kBare);
  fmt::print(" | {:>5.2f} ({:>5.2f}-{:>5.2f})  {:.2f} ({:.2f}-{:.2f}) | {:>5.2f}  {:>5.2f}\n",
             plain.median, plain.surely_from, plain.surely_to, bare.median, bare.surely_from,
             bare.surely_to, result.Ratio(kPs, kPlain).median, result.Ratio(kPs, kBare).median);
  std::fflush(stdout);
}

namespace {

// Whether one case met a goal; where it was not measured it did.
bool CheckGoal(const Case& result, Way ours, Way other, double wanted) {
  const Spread ratio = result.Ratio(ours, other);
  if (ratio.median == 0 || ratio.median >= wanted) return true;
  fmt::print("MISSED {} {} {}: {} is {:.2f} ({:.2f}-{:.2f}) x {}, wanted {:.2f}\n",
             result.transport, OpName(result.op), SizeName(result.bytes), kWayNames[ours],
             ratio.median, ratio.surely_from, ratio.surely_to, kWayNames[other], wanted);
  return false;
}

}  // namespace

bool PrintGoals(const std::vector<Case>& results) {
  bool all = true;
  for (const Case& result : results) {
    const double over_plain = result.bytes >= kBig ? kOverPlainBig : kOverPlainSmall;
    all &= CheckGoal(result, kCohort, kPlain, over_plain);
    all &= CheckGoal(result, kCohort, kBare, kOverBare);
  }
  fmt::print(
      "goals of the data path: at least {} x plain gRPC from 1 MB, {} x below, {} x the bare path: "
      "{}\n"
      "(ps, a server that looks up, applies and answers, is beside them for comparison)\n",
      kOverPlainBig, kOverPlainSmall, kOverBare, all ? "met" : "missed");
  return all;
}

}  // namespace cohort::bench
