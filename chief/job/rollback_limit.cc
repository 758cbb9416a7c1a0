#include "chief/job/rollback_limit.h"

#include <cstddef>

#include "common/base/status.h"

namespace cohort {

absl::Status RollbackLimit::Count(const std::string& checkpoint, const absl::Status& error,
                                  const CoreState& state) {
  count_ = checkpoint == checkpoint_ ? count_ + 1 : 1;
  checkpoint_ = checkpoint;
  if (count_ < kMost) return absl::OkStatus();
  const auto index = static_cast<size_t>(GetFailure(error)->index);
  const double gib =
      index < state.server_reports.size()
          ? static_cast<double>(state.server_reports[index].memory_bytes) / (uint64_t{1} << 30)
          : 0;
  absl::Status ended = Unavailable(
      "the job went back to {} {} times and reached no newer checkpoint. The last time {}; its "
      "process used {:.2f} GiB. Its log says how it ended (exit code 137 is SIGKILL, also of a "
      "system without memory: `cohort check` prints what a server needs). A checkpoint more often "
      "(`checkpoint.every_seconds`) saves work",
      checkpoint.empty() ? "its beginning" : checkpoint, count_, std::string(error.message()), gib);
  SetFailure(&ended, {.role = "ps", .index = static_cast<int>(index), .retryable = false});
  return ended;
}

}  // namespace cohort
