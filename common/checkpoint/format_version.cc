#include "common/checkpoint/format_version.h"

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"

namespace cohort {

absl::Status CheckFormat(std::string_view file, uint32_t format, uint32_t newest_known,
                         std::string_view written_by) {
  if (format <= newest_known) return absl::OkStatus();
  return WithExitCode(
      FailedPrecondition("{} has format version {}; Cohort {} reads versions up to {}: use Cohort "
                         "{} or newer",
                         file, format, CohortVersion(), newest_known,
                         written_by.empty() ? "of the version that wrote it" : written_by),
      ExitCode::kData);
}

bool IsNewerFormat(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && ExitCodeOf(status) == ExitCode::kData;
}

}  // namespace cohort
