#include "common/tablet/apply_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

std::string_view VerdictWord(int verdict) {
  switch (verdict) {
    case v1::APPLIED:
      return "applied";
    case v1::DUPLICATE:
      return "duplicate";
    case v1::SETTLED:
      return "settled";
    case v1::FENCED:
      return "fenced";
    case v1::MOVED:
      return "moved";
    case v1::STAGED:
      return "staged";
    case v1::DROPPED:
      return "dropped";
    case ApplyLog::kReplayed:
      return "replayed";
    case ApplyLog::kHeld:
      return "held";
    default:
      return "invalid";
  }
}

class ApplyLogFile : public ApplyLog {
 public:
  ApplyLogFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Write(std::string* lines) override;

 private:
  const std::string path_;
  const UniqueFd fd_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ApplyLog>> ApplyLog::Open(const std::string& path,
                                                         uint64_t incarnation) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.ok()) {
    return WithExitCode(FailedPrecondition("--apply_log: {}: {}", path, std::strerror(errno)),
                        ExitCode::kCantCreate);
  }
  auto log = std::make_unique<ApplyLogFile>(path, std::move(fd));
  std::string first = fmt::format("# cohort apply log 1 {}\n", incarnation);
  COHORT_RETURN_IF_ERROR(log->Write(&first));
  return log;
}

void ApplyLog::AddLine(const PushHeaderView& push, uint64_t generation, uint32_t tablet,
                       int verdict, std::string* lines) {
  fmt::format_to(std::back_inserter(*lines), "{} {} {} {} {} {} {} {}\n", push.id.closure,
                 push.id.ordinal, push.attempt, push.place, push.timeline, generation, tablet,
                 VerdictWord(verdict));
}

absl::Status ApplyLogFile::Write(std::string* lines) {
  // One write with O_APPEND: lines of two threads do not mix.
  const char* from = lines->data();
  size_t left = lines->size();
  while (left > 0) {
    const ssize_t written = ::write(fd_.get(), from, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      lines->clear();
      return WithExitCode(Unavailable("--apply_log: {}: {}", path_, std::strerror(errno)),
                          ExitCode::kIo);
    }
    from += written;
    left -= static_cast<size_t>(written);
  }
  lines->clear();
  return absl::OkStatus();
}

}  // namespace cohort
