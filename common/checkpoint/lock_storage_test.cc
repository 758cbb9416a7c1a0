// The lock and the journal on storage that has its ways: a server that forgets a file without a
// name, no flock, opens that fail.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <thread>

#include "common/base/exit_code.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/directory_lock.h"
#include "common/checkpoint/journal.h"
#include "common/testing/test_directory.h"
#include "common/testing/test_time.h"

namespace {

std::atomic<int> nameless_error{0};  // of a file that has lost its last name; 0: as on a local disk
std::atomic<bool> has_flock{true};
std::atomic<int> looks_that_fail{0};  // at the lock's file
std::atomic<int> reads{0};
std::atomic<int> touches{0};

bool Nameless(int fd) {
  struct stat info = {};
  return nameless_error != 0 && ::syscall(SYS_newfstatat, fd, "", &info, AT_EMPTY_PATH) == 0 &&
         info.st_nlink == 0;
}

int Fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

// In the place of the library's.
extern "C" int fstat(int fd, struct stat* info) noexcept {
  if (Nameless(fd)) return Fail(nameless_error);
  return static_cast<int>(::syscall(SYS_newfstatat, fd, "", info, AT_EMPTY_PATH));
}
extern "C" ssize_t pread(int fd, void* out, size_t bytes, off_t at) {
  ++reads;
  if (Nameless(fd)) return Fail(nameless_error);
  return ::syscall(SYS_pread64, fd, out, bytes, at);
}
extern "C" int futimens(int fd, const struct timespec times[2]) noexcept {
  ++touches;
  if (Nameless(fd)) return Fail(nameless_error);
  return static_cast<int>(::syscall(SYS_utimensat, fd, nullptr, times, 0));
}
extern "C" int flock(int fd, int how) noexcept {
  return has_flock ? static_cast<int>(::syscall(SYS_flock, fd, how)) : Fail(ENOLCK);
}
extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const bool look =
      (flags & O_ACCMODE) == O_RDONLY && std::string_view(path).ends_with(cohort::kLockName);
  if (look && looks_that_fail > 0 && looks_that_fail-- > 0) return Fail(EIO);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

// Storage as it is, again at the end.
struct Storage {
  ~Storage() {
    nameless_error = 0;
    has_flock = true;
    looks_that_fail = 0;
  }
};

DirectoryLock::Options Of(const TestDirectory& dir, const std::string& host) {
  return {.directory = dir.path(),
          .job = "job-of-" + host,
          .incarnation = static_cast<uint64_t>(host.front()),
          .host_id = host,
          .beat = std::chrono::milliseconds(5),
          .watch = std::chrono::seconds(30)};
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Until what the lock's own thread does has been done `times` more.
void Await(const std::atomic<int>& count, int times) {
  const int target = count + times;
  const auto limit = std::chrono::steady_clock::now() + testing::Scaled(std::chrono::seconds(30));
  while (count < target) {
    REQUIRE(std::chrono::steady_clock::now() < limit);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("one that was fenced finds out although its own file does not answer any more") {
  const Storage storage;
  const TestDirectory dir;
  const auto first = DirectoryLock::Take(Of(dir, "a"));
  REQUIRE(first.ok());
  nameless_error = GENERATE(ESTALE, EIO);
  CHECK((*first)->Check().ok());
  auto options = Of(dir, "b");
  options.takeover = true;
  const auto second = DirectoryLock::Take(options);
  REQUIRE(second.ok());
  const absl::Status fenced = (*first)->Check();
  CHECK(ExitCodeOf(fenced) == ExitCode::kUnavailable);
  CHECK(Contains(Message(fenced), "is fenced"));
  CHECK(Contains(Message(fenced), "job job-of-b"));
  CHECK((*second)->Check().ok());
}

TEST_CASE("a lock's or a journal's file that another has replaced is missed where it is stale") {
  const Storage storage;
  const TestDirectory dir;
  nameless_error = ESTALE;
  const auto lock = DirectoryLock::Take(Of(dir, "a"));
  const auto journal = Journal::Create(dir.path());
  REQUIRE(lock.ok());
  REQUIRE(journal.ok());
  CHECK((*lock)->Check().ok());
  CHECK((*journal)->Check().ok());
  for (const std::string& path : {dir / kLockName, dir / "journal-1"}) {
    std::filesystem::rename(dir.Write("copy", testing::ReadAllBytes(path)), path);
  }
  const absl::Status no_lock = (*lock)->Check();
  CHECK(ExitCodeOf(no_lock) == ExitCode::kIo);
  CHECK(Contains(Message(no_lock), "chief.lock is another file now"));
  const absl::Status no_journal = (*journal)->Check();
  CHECK(ExitCodeOf(no_journal) == ExitCode::kIo);
  CHECK(Contains(Message(no_journal), "journal-1 was replaced by another file"));
}

TEST_CASE("where flock is not there, a holder is seen to live by itself, from its start on") {
  const Storage storage;
  const TestDirectory dir;
  has_flock = false;
  const auto first = DirectoryLock::Take(Of(dir, "a"));
  REQUIRE(first.ok());
  const absl::Status refused = DirectoryLock::Take(Of(dir, "b")).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kUnavailable);
  CHECK(Contains(Message(refused), "job job-of-a"));
  CHECK((*first)->Check().ok());
}

TEST_CASE("one that was taken for dead does not make its successor seem alive") {
  const Storage storage;
  const TestDirectory dir;
  has_flock = false;
  const auto first = DirectoryLock::Take(Of(dir, "a"));
  REQUIRE(first.ok());
  Await(touches, 2);
  dir.Write(kLockName, R"({"host":"host4","host_id":"other","incarnation":"01","pid":8})");
  Await(reads, 2);  // one may have looked before that
  const int before = touches;
  Await(reads, 3);
  CHECK(touches == before);
}

TEST_CASE(
    "a look at the holder's file that storage refuses is no sign of life, and none of death") {
  const Storage storage;
  const TestDirectory dir;
  const std::string holder = R"({"host":"host4","host_id":"other","incarnation":"01","pid":8})";
  dir.Write(kLockName, holder);
  auto options = Of(dir, "a");
  options.watch = std::chrono::milliseconds(1500);
  bool for_good = GENERATE(false, true);
  options.on_wait = [&](const std::string&) { looks_that_fail = for_good ? 1'000'000 : 3; };
  const auto taken = DirectoryLock::Take(options);
  if (for_good) {
    CHECK(absl::IsUnavailable(taken.status()));
    CHECK(Contains(Message(taken.status()), "cannot open " + dir / kLockName));
    CHECK(testing::ReadAllBytes(dir / kLockName) == holder);
  } else {
    CHECK(taken.status() == absl::OkStatus());
    CHECK(looks_that_fail == 0);
  }
}

}  // namespace
}  // namespace cohort
