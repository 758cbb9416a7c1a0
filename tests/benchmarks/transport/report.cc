#include "tests/benchmarks/transport/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::bench {
namespace {

constexpr size_t kBig = size_t{1} << 20;
constexpr double kOverPlainBig = 1.2;
constexpr double kOverPlainSmall = 1.0;
constexpr double kOverBare = 0.85;

std::vector<double> Rates(const std::vector<Sample>& samples) {
  std::vector<double> rates;
  for (const Sample& sample : samples) rates.push_back(sample.gb_per_second);
  return rates;
}

std::vector<double> Costs(const std::vector<Sample>& samples) {
  std::vector<double> costs;
  for (const Sample& sample : samples) costs.push_back(sample.cpu_per_gb);
  return costs;
}

const char* OpName(Op op) { return op == Op::kPull ? "pull" : "push"; }

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Case::Ratio(Way ours, Way other) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < samples[ours].size() && i < samples[other].size(); ++i) {
    ratios.push_back(samples[ours][i].gb_per_second / samples[other][i].gb_per_second);
  }
  return Median(ratios);
}

std::string SizeName(size_t bytes) {
  return bytes >= kBig ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} KB", bytes >> 10);
}

void PrintHead() {
  fmt::print("{:<5} {:<4} {:>6}", "", "", "");
  for (const char* name : kWayNames) fmt::print(" | {:^30}", name);
  fmt::print(" | cohort over  | ps over\n{:<5} {:<4} {:>6}", "", "op", "size");
  for (int i = 0; i < kWays; ++i) {
    fmt::print(" | {:>7} {:>6} {:>6} {:>8}", "GB/s", "least", "most", "cpu s/GB");
  }
  fmt::print(" | plain   bare | plain   bare\n");
}

void PrintCase(const Case& result) {
  fmt::print("{:<5} {:<4} {:>6}", result.transport, OpName(result.op), SizeName(result.bytes));
  for (const auto& samples : result.samples) {
    const std::vector<double> rates = Rates(samples);
    if (rates.empty()) {
      fmt::print(" | {:>30}", "-");
      continue;
    }
    fmt::print(" | {:>7.3f} {:>6.3f} {:>6.3f} {:>8.3f}", Median(rates),
               *std::min_element(rates.begin(), rates.end()),
               *std::max_element(rates.begin(), rates.end()), Median(Costs(samples)));
  }
  fmt::print(" | {:>5.2f}  {:>5.2f} | {:>5.2f}  {:>5.2f}\n", result.Ratio(kCohort, kPlain),
             result.Ratio(kCohort, kBare), result.Ratio(kPs, kPlain), result.Ratio(kPs, kBare));
  std::fflush(stdout);
}

namespace {

// Whether one case met a goal; where it was not measured it did.
bool CheckGoal(const Case& result, Way ours, Way other, double wanted) {
  const double ratio = result.Ratio(ours, other);
  if (ratio == 0 || ratio >= wanted) return true;
  fmt::print("MISSED {} {} {}: {} is {:.2f} x {}, wanted {:.2f}\n", result.transport,
             OpName(result.op), SizeName(result.bytes), kWayNames[ours], ratio, kWayNames[other],
             wanted);
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
