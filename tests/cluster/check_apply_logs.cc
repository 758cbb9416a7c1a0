// check_apply_logs FILE...: checks the apply logs of the servers of a job that has ended
// (apply_log.h), in the order of their indices. Exits with 1 and the violations if there are some.
#include <fmt/format.h>

#include "tests/cluster/apply_log.h"

int main(int argc, char** argv) {
  using namespace cohort;
  const auto events = ReadApplyLogs({argv + 1, argv + argc});
  if (!events.ok()) {
    fmt::print(stderr, "{}\n", events.status().ToString());
    return 1;
  }
  const ApplyReport report = CheckApplyEvents(*events, /*finished=*/true);
  for (const std::string& violation : report.violations) fmt::print("{}\n", violation);
  return report.violations.empty() ? 0 : 1;
}
