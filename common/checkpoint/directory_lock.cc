#include "common/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/exit_code.h"
#include "common/base/identity.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

constexpr size_t kMaxLockBytes = 4096;
constexpr auto kLook = std::chrono::milliseconds(100);

// Device and inode of what has this name; zeros where nothing has.
std::pair<uint64_t, uint64_t> IdentityOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

// A descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

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
  std::string name = "a chief that left no name";  // for people
};

Holder HolderOf(const std::string& text) {
  Holder holder;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return holder;
  const auto word = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "?";
  };
  const auto pid = json.find("pid");
  holder.known = true;
  holder.host_id = word("host_id");
  holder.name = fmt::format("process {} on host {} (job {}, since {})",
                            pid != json.end() && pid->is_number_integer() ? pid->get<int64_t>() : 0,
                            word("host"), word("job"), word("since"));
  return holder;
}

// What stands in an open file; "" where it cannot be read.
std::string TextIn(int fd) {
  std::string text(kMaxLockBytes, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

absl::Status WriteText(int fd, const std::string& path, const std::string& text) {
  const auto size = static_cast<ssize_t>(text.size());
  const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
  if (written != size) return ErrnoStatus("cannot write", path, written < 0 ? errno : ENOSPC);
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

// Whether the holder touches the file within `options.watch`.
absl::StatusOr<bool> Beats(const DirectoryLock::Options& options, const std::string& path,
                           const Holder& holder) {
  const auto touched = [&] {
    struct stat info = {};
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() >= 0) ::fstat(fd.get(), &info);
    return std::pair(info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  };
  const auto first = touched();
  const auto deadline = std::chrono::steady_clock::now() + options.watch;
  if (options.on_wait) {
    options.on_wait(fmt::format("looking for {} s whether {} still uses {}",
                                ToSeconds(options.watch), holder.name, options.directory));
  }
  while (std::chrono::steady_clock::now() < deadline) {
    if (options.interrupt != nullptr && *options.interrupt) return Cancelled("interrupted");
    if (touched() != first) return true;
    std::this_thread::sleep_for(kLook);
  }
  return false;
}

}  // namespace

absl::Status DirectoryGone(const std::string& directory, const std::string& file) {
  return WithExitCode(
      FailedPrecondition(
          "the checkpoint directory {} was deleted, moved or replaced while the job ran: {} is not "
          "there any more. Put the directory back and start the chief again, and the job goes on; "
          "without it the job begins anew",
          directory, file),
      ExitCode::kIo);
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const Options& options) {
  const std::string host_id = options.host_id.empty() ? HostId() : options.host_id;
  const std::string path = JoinPath(options.directory, kLockName);
  const std::string text = TextOf(options, host_id);
  while (true) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (fd.get() < 0) return ErrnoStatus("cannot open", path, errno);
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    const bool refused = !locked && errno == EWOULDBLOCK;
    const Holder holder = HolderOf(TextIn(fd.get()));
    // Its holder may have lost the name to a file that another has put there.
    if (locked && !IsNamed(fd.get(), path)) continue;
    if (options.takeover) {
      if (!locked) return Replace(options, text);
    } else if (refused) {
      return Refused(options.directory, holder);
    } else if (holder.known && (!locked || holder.host_id != host_id)) {
      COHORT_ASSIGN_OR_RETURN(const bool alive, Beats(options, path, holder));
      if (alive) return Refused(options.directory, holder);
    }
    COHORT_RETURN_IF_ERROR(WriteText(fd.get(), path, text));
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(options.directory, text, fd.release()));
  }
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Replace(const Options& options,
                                                                      const std::string& text) {
  const std::string path = JoinPath(options.directory, kLockName);
  const std::string temporary = fmt::format("{}.{:016x}", path, options.incarnation);
  const auto replace = [&]() -> absl::StatusOr<std::unique_ptr<DirectoryLock>> {
    Fd fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd.get() < 0) return ErrnoStatus("cannot open", temporary, errno);
    // Before it has the name. Where flock is not there, the name alone counts.
    [[maybe_unused]] const int locked = ::flock(fd.get(), LOCK_EX | LOCK_NB);
    COHORT_RETURN_IF_ERROR(WriteText(fd.get(), temporary, text));
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      return ErrnoStatus("cannot rename", temporary, errno);
    }
    return std::unique_ptr<DirectoryLock>(new DirectoryLock(options.directory, text, fd.release()));
  };
  auto replaced = replace();
  if (!replaced.ok()) ::unlink(temporary.c_str());
  return replaced;
}

DirectoryLock::DirectoryLock(std::string directory, std::string text, int fd)
    : directory_(std::move(directory)),
      directory_id_(IdentityOf(directory_)),
      text_(std::move(text)),
      fd_(fd) {}

DirectoryLock::~DirectoryLock() {
  // Empty: nobody need watch it.
  if (Check().ok()) [[maybe_unused]]
    const int emptied = ::ftruncate(fd_, 0);
  ::close(fd_);
}

absl::Status DirectoryLock::Check() const {
  const std::string path = JoinPath(directory_, kLockName);
  if (const auto text = ReadFile(path, kMaxLockBytes); text.ok() && *text != text_) {
    absl::Status status =
        Aborted("this chief is fenced: {} has taken over the checkpoint directory {}",
                HolderOf(*text).name, directory_);
    SetFailure(&status, {.role = "chief", .retryable = false});
    return WithExitCode(std::move(status), ExitCode::kUnavailable);
  }
  if (IsNamed(fd_, path)) return absl::OkStatus();
  struct stat info = {};
  const bool removed = ::stat(path.c_str(), &info) != 0 && errno == ENOENT;
  if (!removed || IdentityOf(directory_) != directory_id_) return DirectoryGone(directory_, path);
  return WithExitCode(
      FailedPrecondition("{} was removed while the job ran: without it another chief could take "
                         "the directory. Start the chief again, and the job goes on",
                         path),
      ExitCode::kIo);
}

void DirectoryLock::Beat() const { ::futimens(fd_, nullptr); }

}  // namespace cohort
