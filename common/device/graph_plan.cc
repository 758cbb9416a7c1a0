#include "common/device/graph_plan.h"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

bool Overlap(const std::vector<MemoryRange>& some, const std::vector<MemoryRange>& others) {
  return std::ranges::any_of(some, [&](const MemoryRange& a) {
    return std::ranges::any_of(others, [&](const MemoryRange& b) { return a.Overlaps(b); });
  });
}

bool Conflict(const GraphOp& a, const GraphOp& b) {
  return Overlap(a.writes, b.writes) || Overlap(a.writes, b.reads) || Overlap(a.reads, b.writes);
}

}  // namespace

void GraphPlan::Begin(std::string name, std::vector<MemoryRange> reads,
                      std::vector<MemoryRange> writes) {
  name_ = std::move(name);
  reads_ = std::move(reads);
  writes_ = std::move(writes);
}

void GraphPlan::AddCopy(std::string name, GraphCopy copy) {
  if (copy.bytes == 0) return;
  (copy.to_device ? bytes_to_device_ : bytes_to_host_) += static_cast<int64_t>(copy.bytes);
  Begin(std::move(name), {{copy.from, copy.bytes}}, {{copy.to, copy.bytes}});
  AddOp(copy);
}

void GraphPlan::AddOp(std::variant<GridLaunch, GraphCopy, MatrixProduct, HostCall> work) {
  GraphOp op{.name = name_, .work = std::move(work), .reads = reads_, .writes = writes_};
  std::vector<bool> before(ops_.size(), false);
  // From the last: what comes before an op that is already waited for needs no edge of its own.
  for (size_t i = ops_.size(); i-- > 0;) {
    if (before[i] || !Conflict(ops_[i], op)) continue;
    op.after.push_back(static_cast<int>(i));
    before[i] = true;
    for (size_t j = 0; j < i; ++j) {
      if (before_[i][j]) before[j] = true;
    }
  }
  ops_.push_back(std::move(op));
  before_.push_back(std::move(before));
}

}  // namespace cohort
