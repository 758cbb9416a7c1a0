#ifndef COHORT_COMMON_PLACEMENT_SHARD_PLAN_H_
#define COHORT_COMMON_PLACEMENT_SHARD_PLAN_H_

#include <cstdint>
#include <string>

namespace cohort::v1 {
class Layout;
}

namespace cohort {

// Returns a table for people: one line per shard (variable, shard "1/2", rows "[4, 8)", bytes, ps,
// tablet), then one line per server with its sum. Ends with a newline.
std::string ShardPlanText(const v1::Layout& layout);

// Formats a size: "12 B", "3.4 KiB", "1.2 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_SHARD_PLAN_H_
