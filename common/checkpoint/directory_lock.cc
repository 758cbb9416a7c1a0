#include "common/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/os/identity.h"

namespace cohort {
namespace {

constexpr size_t kMaxLockBytes = 4096;

// The text of the lock's file for this chief.
std::string HolderText(const DirectoryLock::Options& options) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char since[32];
  std::strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", &parts);
  nlohmann::json json = {{"host", HostName()},
                         {"host_id", HostId()},
                         {"pid", ::getpid()},
                         {"job", options.job},
                         {"renews", true},
                         {"since", since},
                         {"incarnation", fmt::format("{:016x}", options.incarnation)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The same of a holder that has noted that the job was stopped.
std::string StoppedText(std::string text) {
  return text.replace(text.rfind('}'), 1, ",\"stopped\":true}");
}

struct ParsedHolder {
  bool is_chief = false;                    // the text was written by a chief
  std::string name = "one without a name";  // for people
  bool renews = false;
  bool stopped = false;
};

// Reads the first line of a lock's file. The rest of a longer, older line may follow it for a
// moment.
ParsedHolder ParseHolder(std::string_view text) {
  const auto parsed = ParseJsonText(text.substr(0, text.find('\n')));
  if (!parsed.ok()) return {};
  const nlohmann::json& json = *parsed;
  const auto word = [&](const char* key) {
    const auto* const found = FindMember(json, key);
    return found != nullptr && found->is_string() ? found->get<std::string>() : "?";
  };
  if (!json.is_object() || !json.contains("host_id") || !json.contains("incarnation")) return {};
  const auto pid = json.find("pid");
  return {
      .is_chief = true,
      .name = fmt::format("process {} on host {} (job {}, since {})",
                          pid != json.end() && pid->is_number_integer() ? pid->get<int64_t>() : 0,
                          word("host"), word("job"), word("since")),
      .renews = json.value("renews", false),
      .stopped = json.value("stopped", false)};
}

absl::Status Occupied(const std::string& path, std::string_view by) {
  return WithExitCode(
      FailedPrecondition("cannot create the lock {}: {} has this name. Remove it, or give another "
                         "directory",
                         path, by),
      ExitCode::kCantCreate);
}

absl::Status Refused(const std::string& directory, const ParsedHolder& holder) {
  return Unavailable(
      "the checkpoint directory {} belongs to another chief, {}: end that one, give "
      "this job another directory, or start it with --takeover (cohort-chief and cohort "
      "run) to end the other",
      directory, holder.name);
}

absl::Status NoFlock(const std::string& path, int error) {
  return WithExitCode(
      FailedPrecondition("cannot lock {}: {}. The checkpoint directory needs a file system with "
                         "working flock(2)",
                         path, std::strerror(error)),
      ExitCode::kCantCreate);
}

absl::Status Fenced(const std::string& directory, const std::string& by) {
  absl::Status status =
      Aborted("this chief is fenced: {} has taken over the checkpoint directory {}", by, directory);
  SetFailure(&status, {.role = "chief", .retryable = false});
  return WithExitCode(std::move(status), ExitCode::kUnavailable);
}

absl::Status Lost(const std::string& directory) {
  return WithExitCode(
      FailedPrecondition("the checkpoint directory {} was deleted, moved or replaced while the job "
                         "ran, or its {} was. Put back what is missing and start the chief again: "
                         "the job continues",
                         directory, kLockName),
      ExitCode::kIo);
}

// Opens the lock's file, and creates it if it does not exist.
absl::StatusOr<UniqueFd> OpenLock(const std::string& path) {
  OpenedFile opened = OpenIfRegular(path, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (opened.fd.ok()) return std::move(opened.fd);
  if (opened.error == 0) return Occupied(path, FileTypeName(opened.mode));
  return ErrnoStatus("cannot open", path, opened.error);
}

bool SameFile(int a, int b) {
  struct stat info_a = {};
  struct stat info_b = {};
  return ::fstat(a, &info_a) == 0 && ::fstat(b, &info_b) == 0 && info_a.st_dev == info_b.st_dev &&
         info_a.st_ino == info_b.st_ino;
}

// The file that has the lock's name now. Opens it, because NFS asks its server only then.
OpenedFile OpenNamed(const std::string& path) { return OpenIfRegular(path, O_RDONLY | O_NOFOLLOW); }

// Reads the start of an open file; nullopt if it cannot be read.
std::optional<std::string> ReadText(int fd) {
  std::string text(kMaxLockBytes, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  if (n < 0) return std::nullopt;
  text.resize(static_cast<size_t>(n));
  return text;
}

absl::Status WriteText(int fd, const std::string& path, const std::string& text) {
  const auto size = static_cast<ssize_t>(text.size());
  const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
  if (written != size) {
    absl::Status status = ErrnoStatus("cannot write", path, written < 0 ? errno : ENOSPC);
    // The next chief would refuse a file that holds half a text.
    [[maybe_unused]] const int emptied = ::ftruncate(fd, 0);
    return status;
  }
  if (::ftruncate(fd, size) != 0) return ErrnoStatus("cannot truncate", path, errno);
  if (::fsync(fd) != 0) return ErrnoStatus("cannot fsync", path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const Options& options) {
  const std::string path = JoinPath(options.directory, kLockName);
  const std::string text = HolderText(options);
  while (true) {
    COHORT_ASSIGN_OR_RETURN(UniqueFd fd, OpenLock(path));
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK) return NoFlock(path, errno);
    const auto there = ReadText(fd.get());
    if (!there.has_value()) return ErrnoStatus("cannot read", path, EIO);
    const ParsedHolder holder = ParseHolder(*there);
    if (!locked && !options.takeover) return Refused(options.directory, holder);
    if (!there->empty() && !holder.is_chief) {
      return Occupied(path, "a file that no chief has written");
    }
    if (!locked) return Replace(options, text);
    // Another chief may have taken over between open and flock.
    const OpenedFile named = OpenNamed(path);
    if (named.fd.ok() && !SameFile(named.fd.get(), fd.get())) continue;
    COHORT_RETURN_IF_ERROR(WriteText(fd.get(), path, text));
    std::unique_ptr<DirectoryLock> lock(new DirectoryLock(options, text, std::move(fd)));
    lock->former_stopped_ = holder.stopped;
    return lock;
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
    // Before the file has the lock's name: a third chief must never find it unlocked.
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return NoFlock(temporary, errno);
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
    : directory_(options.directory), text_(std::move(text)), fd_(std::move(fd)) {}

absl::Status DirectoryLock::Check() const {
  const OpenedFile named = OpenNamed(JoinPath(directory_, kLockName));
  if (!named.fd.ok()) {
    const bool gone = named.mode != 0 || named.error == ENOENT || named.error == ENOTDIR ||
                      named.error == ESTALE || named.error == ELOOP;
    return gone ? Lost(directory_) : absl::OkStatus();
  }
  const auto text = ReadText(named.fd.get());
  if (!text.has_value()) return absl::OkStatus();
  if (*text != text_ && *text != StoppedText(text_)) {
    const ParsedHolder holder = ParseHolder(*text);
    return holder.is_chief ? Fenced(directory_, holder.name) : Lost(directory_);
  }
  return SameFile(named.fd.get(), fd_.get()) ? absl::OkStatus() : Lost(directory_);
}

void DirectoryLock::Renew() const { ::futimens(fd_.get(), nullptr); }

void DirectoryLock::NoteStopped() const {
  if (!Check().ok()) return;
  // A next holder that does not see it continues the job.
  WriteText(fd_.get(), JoinPath(directory_, kLockName), StoppedText(text_)).IgnoreError();
}

std::optional<DirectoryLock::Holder> DirectoryLock::HolderOf(const std::string& directory) {
  const OpenedFile named = OpenNamed(JoinPath(directory, kLockName));
  if (!named.fd.ok()) return std::nullopt;
  struct stat info = {};
  const auto text = ReadText(named.fd.get());
  if (!text.has_value() || ::fstat(named.fd.get(), &info) != 0) return std::nullopt;
  ParsedHolder holder = ParseHolder(*text);
  return Holder{.name = std::move(holder.name),
                .renews = holder.renews,
                .inode = static_cast<uint64_t>(info.st_ino),
                .marked_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace cohort
