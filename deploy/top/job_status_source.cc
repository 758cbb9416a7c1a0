#include "deploy/top/job_status_source.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/rpc/admin/admin_client.h"

namespace cohort {
namespace {

constexpr Duration kAnswerTime = std::chrono::seconds(3);

// True for "host:port"; false for a path, even one with a colon.
bool IsAddress(const std::string& target) {
  std::error_code error;
  return target.find('/') == std::string::npos && !std::filesystem::exists(target, error) &&
         ParseAddress(target).ok();
}

}  // namespace

absl::StatusOr<std::string> JobStatusSource::ReadText() const {
  if (IsAddress(target_)) {
    COHORT_ASSIGN_OR_RETURN(const Address address, ParseAddress(target_));
    const auto page = GetAdminPage(address, "/status.json", kAnswerTime);
    if (!absl::IsNotFound(page.status())) return page;
    return NotFound("{} is not the admin port of a chief: give the --admin_port of cohort-chief",
                    target_);
  }
  COHORT_ASSIGN_OR_RETURN(const std::string socket, FindControlSocket(target_));
  return CallControl(socket, "status", "", kAnswerTime);
}

absl::StatusOr<nlohmann::json> JobStatusSource::Read() const {
  COHORT_ASSIGN_OR_RETURN(const std::string text, ReadText());
  nlohmann::json status = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!status.is_object()) return DataLoss("{}: the answer is not the status of a job", target_);
  return status;
}

}  // namespace cohort
