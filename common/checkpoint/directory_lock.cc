#include "common/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/os/identity.h"

namespace cohort {
namespace {

constexpr size_t kMaxLockBytes = 4096;
constexpr auto kLook = std::chrono::milliseconds(100);

std::string TextOf(const DirectoryLock::Options& options, const std::string& host_id) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char since[32];
  std::strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &parts);
  nlohmann::json json = {
      {"host", HostName()}, {"host_id", host_id},
      {"pid", ::getpid()},  {"job", options.job},
      {"since", since},     {"incarnation", fmt::format("{:016x}", options.incarnation)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

struct Holder {
  bool known = false;
  std::string host_id;
  std::string name = "one that left no name";  // for people
};

// Of the first line: what is left of a longer one may stand behind it for a moment.
Holder HolderOf(std::string_view text) {
  Holder holder;
  const auto json = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr,
                                          /*allow_exceptions=*/false);
  const auto word = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "?";
  };
  const bool by_chief =
      json.is_object() && json.contains("host_id") && json.contains("incarnation");
  if (!by_chief) return holder;
  const auto pid = json.find("pid");
  holder.known = true;
  holder.host_id = word("host_id");
  holder.name = fmt::format("process {} on host {} (job {}, since {})",
                            pid != json.end() && pid->is_number_integer() ? pid->get<int64_t>() : 0,
                            word("host"), word("job"), word("since"));
  return holder;
}

absl::Status Occupied(const std::string& path, std::string_view by) {
  return WithExitCode(
      FailedPrecondition("cannot create the lock {}: {} stands there. Remove it, or give another "
                         "directory",
                         path, by),
      ExitCode::kCantCreate);
}

// The lock's file, made where it is not there. Errors: exit 73 where something else has its name.
absl::StatusOr<UniqueFd> OpenLock(const std::string& path) {
  OpenedFile opened = OpenIfRegular(path, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (opened.fd.ok()) return std::move(opened.fd);
  if (opened.error == 0) return Occupied(path, FileTypeName(opened.mode));
  return ErrnoStatus("cannot open", path, opened.error);
}

// Whether an open lock's file may be written in place. What others keep under another name too is
// left as it is, and its name taken.
bool HasOneName(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && info.st_nlink == 1;
}

absl::Status Fenced(const std::string& directory, const std::string& by) {
  absl::Status status =
      Aborted("this chief is fenced: {} has taken over the checkpoint directory {}", by, directory);
  SetFailure(&status, {.role = "chief", .retryable = false});
  return WithExitCode(std::move(status), ExitCode::kUnavailable);
}

absl::Status Lost(const std::string& what, bool something_stands_there) {
  return WithExitCode(
      FailedPrecondition("{} while the job ran: another chief could take the "
                         "directory. {} the chief again, and the job goes on",
                         what,
                         something_stands_there
                             ? "If what stands there now is no chief's, remove it; then start"
                             : "Start"),
      ExitCode::kIo);
}

absl::Status WriteText(int fd, const std::string& path, const std::string& text) {
  const auto size = static_cast<ssize_t>(text.size());
  const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
  if (written != size) {
    absl::Status status = ErrnoStatus("cannot write", path, written < 0 ? errno : ENOSPC);
    // Half a name would be taken for a file that no chief has written.
    [[maybe_unused]] const int emptied = ::ftruncate(fd, 0);
    return status;
  }
  if (::ftruncate(fd, size) != 0) return ErrnoStatus("cannot truncate", path, errno);
  if (::fsync(fd) != 0) return ErrnoStatus("cannot fsync", path, errno);
  return absl::OkStatus();
}

absl::Status Refused(const std::string& directory, const Holder& holder) {
  return WithExitCode(
      Unavailable("the checkpoint directory {} belongs to another chief, {}: end that one, give "
                  "this job another directory, or start it with --takeover if the other is dead or "
                  "shall end",
                  directory, holder.name),
      ExitCode::kUnavailable);
}

// When the file was last touched. Opened anew: a network file system asks its server then. Errors:
// NotFound; ErrnoStatus's others.
absl::StatusOr<std::pair<int64_t, int64_t>> LastTouched(const std::string& path) {
  const OpenedFile opened = OpenIfRegular(path, O_RDONLY | O_NOFOLLOW);
  struct stat info = {};
  if (opened.mode != 0) return NotFound("{} is {}", path, FileTypeName(opened.mode));
  if (!opened.fd.ok()) return ErrnoStatus("cannot open", path, opened.error);
  if (::fstat(opened.fd.get(), &info) != 0) return ErrnoStatus("cannot look at", path, errno);
  return std::pair<int64_t, int64_t>(info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

// Whether the holder touches the file within `options.watch`. Errors: storage has not answered.
absl::StatusOr<bool> Beats(const DirectoryLock::Options& options, const std::string& path,
                           const Holder& holder) {
  auto look = LastTouched(path);
  auto first = look;
  const auto deadline = std::chrono::steady_clock::now() + options.watch;
  if (options.on_wait) {
    options.on_wait(fmt::format("looking for {} s whether {} still uses {}",
                                ToSeconds(options.watch), holder.name, options.directory));
  }
  while (std::chrono::steady_clock::now() < deadline) {
    if (options.interrupt != nullptr && *options.interrupt) return Cancelled("interrupted");
    std::this_thread::sleep_for(kLook);
    look = LastTouched(path);
    if (!first.ok()) first = look;
    if (look.ok() && *look != *first) return true;
  }
  if (look.ok() || absl::IsNotFound(look.status())) return false;
  return look.status();
}

// The file has lost its name with its directory, to what `now` says.
absl::Status DirectoryGone(const std::string& directory, const std::string& file, Named now) {
  return WithExitCode(
      FailedPrecondition(
          "the checkpoint directory {} was deleted, moved or replaced while the job ran: {} is {}. "
          "Put the directory back and start the chief again, and the job goes on; "
          "without it the job begins anew",
          directory, file,
          now == Named::kNothing ? "not there any more"
          : now == Named::kOther ? "another file now"
                                 : "no regular file any more"),
      ExitCode::kIo);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const Options& options) {
  const std::string host_id = options.host_id.empty() ? HostId() : options.host_id;
  const std::string path = JoinPath(options.directory, kLockName);
  const std::string text = TextOf(options, host_id);
  while (true) {
    COHORT_ASSIGN_OR_RETURN(UniqueFd fd, OpenLock(path));
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    const bool refused = !locked && errno == EWOULDBLOCK;
    const auto there = ReadStart(fd.get(), kMaxLockBytes);
    if (!there.has_value()) return ErrnoStatus("cannot read", path, EIO);
    const Holder holder = HolderOf(*there);
    // Its holder may have lost the name to a file that another has put there.
    const auto lost_name = [&] {
      const Named named = WhatIsNamed(fd.get(), path);
      return named != Named::kIt && named != Named::kNoAnswer;
    };
    if (!refused && lost_name()) continue;
    if (refused && !options.takeover) return Refused(options.directory, holder);
    if (!there->empty() && !holder.known) return Occupied(path, "a file that no chief has written");
    if (options.takeover) {
      if (!locked) return Replace(options, text);
    } else if (holder.known && (!locked || holder.host_id != host_id)) {
      COHORT_ASSIGN_OR_RETURN(const bool alive, Beats(options, path, holder));
      if (alive) return Refused(options.directory, holder);
      if (lost_name()) continue;
    }
    if (!HasOneName(fd.get())) return Replace(options, text);
    COHORT_RETURN_IF_ERROR(WriteText(fd.get(), path, text));
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(options, text, std::move(fd)));
  }
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Replace(const Options& options,
                                                                      const std::string& text) {
  const std::string path = JoinPath(options.directory, kLockName);
  const std::string temporary = fmt::format("{}.{:016x}", path, options.incarnation);
  const auto replace = [&]() -> absl::StatusOr<std::unique_ptr<DirectoryLock>> {
    UniqueFd fd(
        ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.ok()) return ErrnoStatus("cannot open", temporary, errno);
    // Before it has the name. Where flock is not there, the name alone counts.
    [[maybe_unused]] const int locked = ::flock(fd.get(), LOCK_EX | LOCK_NB);
    COHORT_RETURN_IF_ERROR(WriteText(fd.get(), temporary, text));
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      return ErrnoStatus("cannot rename", temporary, errno);
    }
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(options, text, std::move(fd)));
  };
  auto replaced = replace();
  if (!replaced.ok()) ::unlink(temporary.c_str());
  return replaced;
}

DirectoryLock::DirectoryLock(const Options& options, std::string text, UniqueFd fd)
    : directory_(options.directory),
      directory_id_(IdentityOf(directory_)),
      text_(std::move(text)),
      beat_(options.beat),
      fd_(std::move(fd)),
      beating_([this] { Beat(); }) {}

DirectoryLock::~DirectoryLock() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.Signal();
  }
  beating_.join();
  // Empty: nobody need watch it.
  if (Check().ok()) [[maybe_unused]]
    const int emptied = ::ftruncate(fd_.get(), 0);
}

absl::Status DirectoryLock::Check() const {
  const std::string path = JoinPath(directory_, kLockName);
  const auto [named, text] = ReadNamed(fd_.get(), path, kMaxLockBytes);
  if (text.has_value() && *text != text_) {
    const Holder holder = HolderOf(*text);
    if (holder.known) return Fenced(directory_, holder.name);
  }
  if (named == Named::kNoAnswer) return absl::OkStatus();
  if (named == Named::kIt) {
    if (!text.has_value() || *text == text_) return absl::OkStatus();
    // Its own lock proves nothing where flock is the host's own: another may have had it, and let
    // go.
    return Lost(fmt::format("{} is damaged: its content was removed or overwritten", path),
                /*something_stands_there=*/true);
  }
  if (IdentityOf(directory_) != directory_id_) return DirectoryGone(directory_, path, named);
  if (named == Named::kNothing) return Lost(fmt::format("{} was removed", path), false);
  if (named == Named::kOther)
    return Lost(fmt::format("{} is another file now: it was replaced", path), true);
  return WithExitCode(
      FailedPrecondition(
          "{} is no regular file any more: it was replaced while the job ran. Remove "
          "what stands there and start the chief again, and the job goes on",
          path),
      ExitCode::kIo);
}

void DirectoryLock::Beat() {
  MutexLock lock(&mu_);
  auto next = std::chrono::steady_clock::now();
  while (!ending_) {
    mu_.Unlock();
    // Never the file of another: that one would seem to live as long as this chief.
    if (Check().ok()) ::futimens(fd_.get(), nullptr);
    mu_.Lock();
    next = std::max(next + beat_, std::chrono::steady_clock::now());
    while (!ending_ && changed_.WaitUntil(&mu_, next)) {
    }
  }
}

}  // namespace cohort
