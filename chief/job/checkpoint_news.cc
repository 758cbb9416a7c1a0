#include "chief/job/checkpoint_news.h"

#include <bit>

#include "common/base/status.h"

namespace cohort {

void CheckpointNews::Note(const std::string& directory, const absl::Status& status) {
  if (status.ok()) {
    const uint64_t failed = std::exchange(failed_, 0);
    if (failed == 0) return;
    console_->Print(fmt::format("checkpoints are written again, after {} that failed", failed));
    return;
  }
  if (absl::IsAborted(status) || GetFailure(status).has_value()) return;
  if (!std::has_single_bit(++failed_)) return;
  const std::string what = failed_ == 1
                               ? "a checkpoint failed"
                               : fmt::format("{} checkpoints in a row have failed", failed_);
  const std::string advice =
      absl::IsResourceExhausted(status)
          ? fmt::format("make space in {}", directory)
          : "docs/operations.md, CohortCheckpointFailed, says what to look at";
  console_->Print(fmt::format("warning: {}: {}; the next one tries again: {}", what,
                              std::string(status.message()), advice));
}

}  // namespace cohort
