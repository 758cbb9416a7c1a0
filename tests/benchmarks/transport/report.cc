#include "tests/benchmarks/transport/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cohort::bench {
namespace {

constexpr size_t kBig = size_t{1} << 20;
constexpr double kOverPlainBig = 1.2;
constexpr double kOverPlainSmall = 1.0;
constexpr double kOverBare = 0.85;

// The values of the rounds in which there was a run.
std::vector<double> Measured(const std::vector<Sample>& samples, double Sample::*what) {
  std::vector<double> values;
  for (const Sample& sample : samples) {
    if (sample.gb_per_second > 0) values.push_back(sample.*what);
  }
  return values;
}

const char* OpName(Op op) { return op == Op::kPull ? "pull" : "push"; }

}  // namespace

Quartiles QuartilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double rank = part * static_cast<double>(values.size() - 1);
    const size_t below = static_cast<size_t>(rank);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (rank - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {.low = at(0.25), .median = at(0.5), .high = at(0.75)};
}

Ratio Case::Over(Way ours, Way other) const {
  std::vector<double> all;
  std::map<int, std::vector<double>> launches;
  for (size_t i = 0; i < samples[ours].size() && i < samples[other].size(); ++i) {
    const Sample &mine = samples[ours][i], &theirs = samples[other][i];
    if (mine.gb_per_second == 0 || theirs.gb_per_second == 0) continue;
    all.push_back(mine.gb_per_second / theirs.gb_per_second);
    launches[mine.launch].push_back(all.back());
  }
  if (all.empty()) return {};
  std::vector<double> medians;
  for (const auto& [launch, ratios] : launches) medians.push_back(QuartilesOf(ratios).median);
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  return {.median = QuartilesOf(std::move(all)).median, .least = *least, .most = *most};
}

std::string SizeName(size_t bytes) {
  return bytes >= kBig ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} KB", bytes >> 10);
}

void PrintHead() {
  fmt::print("{:<5} {:<4} {:>6}", "", "", "");
  for (const char* name : kWayNames) fmt::print(" | {:^29}", name);
  fmt::print(" | {:^35} | ps over\n{:<5} {:<4} {:>6}", "cohort over (launches)", "", "op", "size");
  for (int i = 0; i < kWays; ++i) {
    fmt::print(" | {:>6} {:>6} {:>6} {:>8}", "GB/s", "1/4", "3/4", "cpu s/GB");
  }
  fmt::print(" | {:^18} {:>16} | plain   bare\n", "plain", "bare");
}

void PrintCase(const Case& result) {
  fmt::print("{:<5} {:<4} {:>6}", result.transport, OpName(result.op), SizeName(result.bytes));
  for (const auto& samples : result.samples) {
    const Quartiles rate = QuartilesOf(Measured(samples, &Sample::gb_per_second));
    if (rate.median == 0) {
      fmt::print(" | {:>29}", "-");
      continue;
    }
    fmt::print(" | {:>6.3f} {:>6.3f} {:>6.3f} {:>8.3f}", rate.median, rate.low, rate.high,
               QuartilesOf(Measured(samples, &Sample::cpu_per_gb)).median);
  }
  const Ratio plain = result.Over(kCohort, kPlain), bare = result.Over(kCohort, kBare);
  fmt::print(" | {:>5.2f} ({:>5.2f}-{:>5.2f})  {:.2f} ({:.2f}-{:.2f}) | {:>5.2f}  {:>5.2f}\n",
             plain.median, plain.least, plain.most, bare.median, bare.least, bare.most,
             result.Over(kPs, kPlain).median, result.Over(kPs, kBare).median);
  std::fflush(stdout);
}

namespace {

// Returns true if one case met a goal, or if one of the two ways was not measured.
bool CheckGoal(const Case& result, Way ours, Way other, double wanted) {
  if (result.samples[ours].empty() || result.samples[other].empty()) return true;
  const Ratio ratio = result.Over(ours, other);
  if (ratio.median >= wanted) return true;
  fmt::print("MISSED {} {} {}: {} is {:.2f} ({:.2f}-{:.2f}) x {}, wanted {:.2f}\n",
             result.transport, OpName(result.op), SizeName(result.bytes), kWayNames[ours],
             ratio.median, ratio.least, ratio.most, kWayNames[other], wanted);
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
