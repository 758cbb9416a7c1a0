#ifndef COHORT_COMMON_BASE_STATUS_H_
#define COHORT_COMMON_BASE_STATUS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

// The typed payload of a status: which task failed, and whether another attempt may succeed. This
// payload and the code decide how a failure is handled; the text of the message never does:
//
//   payload                       meaning                            action
//   role "worker", retryable      the worker is lost or set aside    run the closure elsewhere
//   role "ps", retryable          a server is lost                   the chief decides (rollback)
//   role "chief", not retryable   a newer chief fenced this one      end
//   none                          the program or its input is wrong  raise once to the user
struct FailureInfo {
  std::string role;  // "worker", "ps", "chief", "" = no particular task
  int index = 0;
  uint64_t incarnation = 0;
  bool retryable = false;
};

// Attaches the payload and replaces an older one. `status` must not be OK.
void SetFailure(absl::Status* status, const FailureInfo& info);
std::optional<FailureInfo> GetFailure(const absl::Status& status);
// True if the status has a payload with `retryable` set.
bool IsRetryable(const absl::Status& status);

// Prefixes the message: "context: message". Keeps code and payloads. OK stays OK.
absl::Status Annotate(absl::Status status, std::string_view context);

// absl::Status takes absl::string_view, which is not std::string_view here; these take fmt formats
// instead.
template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}
#define COHORT_STATUS_MAKER_(Name, Code)                                                           \
  template <typename... Args>                                                                      \
  absl::Status Name(fmt::format_string<Args...> format, Args&&... args) {                          \
    return absl::Status(absl::StatusCode::Code, fmt::format(format, std::forward<Args>(args)...)); \
  }
COHORT_STATUS_MAKER_(InvalidArgument, kInvalidArgument)  // exit 65 or 78: the input is wrong
COHORT_STATUS_MAKER_(NotFound, kNotFound)
COHORT_STATUS_MAKER_(FailedPrecondition, kFailedPrecondition)
COHORT_STATUS_MAKER_(Unavailable, kUnavailable)
COHORT_STATUS_MAKER_(DataLoss, kDataLoss)
COHORT_STATUS_MAKER_(Internal, kInternal)
COHORT_STATUS_MAKER_(Unimplemented, kUnimplemented)
COHORT_STATUS_MAKER_(Aborted, kAborted)
COHORT_STATUS_MAKER_(Cancelled, kCancelled)
COHORT_STATUS_MAKER_(OutOfRange, kOutOfRange)
COHORT_STATUS_MAKER_(AlreadyExists, kAlreadyExists)
COHORT_STATUS_MAKER_(DeadlineExceeded, kDeadlineExceeded)
COHORT_STATUS_MAKER_(ResourceExhausted, kResourceExhausted)
COHORT_STATUS_MAKER_(PermissionDenied, kPermissionDenied)
COHORT_STATUS_MAKER_(Unauthenticated, kUnauthenticated)  // a stream without the secret of the run
#undef COHORT_STATUS_MAKER_

}  // namespace cohort

#define COHORT_CONCAT_INNER_(a, b) a##b
#define COHORT_CONCAT_(a, b) COHORT_CONCAT_INNER_(a, b)

#define COHORT_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    absl::Status cohort_status_ = (expr);            \
    if (!cohort_status_.ok()) return cohort_status_; \
  } while (false)

#define COHORT_ASSIGN_OR_RETURN(lhs, expr) \
  COHORT_ASSIGN_OR_RETURN_IMPL_(COHORT_CONCAT_(cohort_or_, __LINE__), lhs, expr)
#define COHORT_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr) \
  auto var = (expr);                                  \
  if (!var.ok()) return std::move(var).status();      \
  lhs = *std::move(var)

#endif  // COHORT_COMMON_BASE_STATUS_H_
