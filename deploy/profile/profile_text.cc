#include "deploy/profile/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace cohort {
namespace {

double KernelSeconds(const std::vector<StepProfile::Row>& rows) {
  double sum = 0;
  for (const StepProfile::Row& row : rows) sum += row.seconds;
  return sum;
}

std::string TableOf(std::string_view title, const std::vector<StepProfile::Row>& rows,
                    uint64_t steps) {
  size_t width = title.size();
  for (const StepProfile::Row& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("\n{:<{}}  {:>6}  {:>9}  {:>6}  {:>9}  {:>8}  {:>7}\n", title,
                                 width, "runs", "ms/step", "%", "MFLOP", "GFLOP/s", "GB/s");
  const double all = KernelSeconds(rows);
  const auto count = static_cast<double>(steps);
  for (const StepProfile::Row& row : rows) {
    const double seconds = std::max(row.seconds, 1e-12);
    fmt::format_to(std::back_inserter(text),
                   "{:<{}}  {:>6}  {:>9.4f}  {:>6.1f}  {:>9.3f}  {:>8.2f}  {:>7.2f}\n",
                   row.name.empty() ? "(none)" : row.name, width, row.runs / steps,
                   row.seconds / count * 1e3, all > 0 ? 100 * row.seconds / all : 0,
                   row.flops / count / 1e6, row.flops / seconds / 1e9, row.bytes / seconds / 1e9);
  }
  return text;
}

}  // namespace

std::string ProfileText(const StepProfile& profile, int64_t batch_size, double update_bytes) {
  if (profile.steps() == 0) return "no step was recorded\n";
  const auto steps = static_cast<double>(profile.steps());
  const double median = profile.MedianStepSeconds();
  std::string text =
      fmt::format("a step takes {:.4f} ms (best {:.4f}): {:.0f} examples/s\n", median * 1e3,
                  profile.BestStepSeconds() * 1e3, static_cast<double>(batch_size) / median);
  const OpCost cost = profile.CostOfStep();
  const double bytes = cost.bytes + update_bytes;
  fmt::format_to(std::back_inserter(text),
                 "  {:.4f} GFLOP and {:.4f} GB of memory: {:.2f} GFLOP/s, {:.2f} GB/s\n",
                 cost.flops / 1e9, bytes / 1e9, cost.flops / median / 1e9, bytes / median / 1e9);
  for (const StepProfile::Phase& phase : profile.Phases()) {
    fmt::format_to(std::back_inserter(text), "  {:<10} {:>9.4f} ms/step\n", phase.name,
                   phase.seconds / steps * 1e3);
  }
  if (profile.ByOp().empty()) return text;
  text += TableOf("layer", profile.ByLayer(), profile.steps());
  text += TableOf("operation", profile.ByOp(), profile.steps());
  return text;
}

}  // namespace cohort
