#include "chief/job/rollback_limit.h"

#include <cstddef>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

// What the lost process used. Another one may have taken its place.
std::string MemoryText(const std::vector<TaskReport>& servers, size_t index) {
  const uint64_t bytes = index < servers.size() ? servers[index].lost_memory_bytes : 0;
  if (bytes == 0) return "had not reported its memory";
  if (bytes < uint64_t{1} << 30) {
    return fmt::format("used {:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return fmt::format("used {:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

absl::Status RollbackLimit::Count(const std::string& checkpoint, const absl::Status& error,
                                  const CoreState& state) {
  count_ = checkpoint == checkpoint_ ? count_ + 1 : 1;
  checkpoint_ = checkpoint;
  if (count_ < kMost) return absl::OkStatus();
  const auto index = static_cast<size_t>(GetFailure(error)->index);
  absl::Status ended = Unavailable(
      "the job went back to {} {} times and reached no newer checkpoint. The last time {}; its "
      "process {}. Its log says how it ended (exit code 137 is SIGKILL, also of a "
      "system without memory: `cohort check` prints what a server needs). A checkpoint more often "
      "(`checkpoint.every_seconds`) saves work",
      checkpoint.empty() ? "its beginning" : checkpoint, count_, std::string(error.message()),
      MemoryText(state.server_reports, index));
  SetFailure(&ended, {.role = "ps", .index = static_cast<int>(index), .retryable = false});
  return ended;
}

}  // namespace cohort
