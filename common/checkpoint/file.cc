#include "common/checkpoint/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "common/base/status.h"

namespace cohort {
namespace {

// One write or read call of the kernel moves at most 2 GiB.
constexpr size_t kMaxCall = size_t{1} << 30;

// How much is written to the disk at once. The slowest disks need a few seconds for it.
constexpr uint64_t kRange = uint64_t{32} << 20;

std::atomic<int64_t> fsyncs{0};

int CountedFsync(int fd) {
  fsyncs.fetch_add(1, std::memory_order_relaxed);
  return ::fsync(fd);
}

// sync_file_range, where the file system has it: it makes nothing durable, but what it has waited
// for costs fsync nothing.
absl::Status SyncRange(int fd, uint64_t begin, uint64_t bytes, unsigned flags,
                       const std::string& path) {
  if (::sync_file_range(fd, static_cast<off64_t>(begin), static_cast<off64_t>(bytes), flags) == 0 ||
      errno == EINVAL || errno == ENOSYS || errno == ESPIPE || errno == EOPNOTSUPP) {
    return absl::OkStatus();
  }
  return ErrnoStatus("cannot write", path, errno);
}

}  // namespace

uint32_t Crc32(uint32_t crc, const void* data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(const std::string& path,
                                                                 Mode mode) {
  if (mode == Mode::kReplace) COHORT_RETURN_IF_ERROR(RemoveFile(path));
  constexpr int kNewFile = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kNewFile, 0644));
  if (!fd.ok()) return ErrnoStatus("cannot create", path, errno);
  return std::unique_ptr<DurableFile>(new DurableFile(path, std::move(fd)));
}

absl::Status DurableFile::Append(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_.get(), at, std::min(bytes, kMaxCall));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoStatus("cannot write", path_, n < 0 ? errno : ENOSPC);
    at += n;
    bytes -= static_cast<size_t>(n);
    bytes_ += static_cast<uint64_t>(n);
  }
  if (bytes_ - begun_ < kRange) return absl::OkStatus();
  const uint64_t begin = std::exchange(begun_, bytes_);
  return SyncRange(fd_.get(), begin, bytes_ - begin, SYNC_FILE_RANGE_WRITE, path_);
}

absl::Status DurableFile::Sync(const std::function<void(uint64_t bytes)>& progress) {
  constexpr unsigned kWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (uint64_t begin = 0; progress && begin < bytes_; begin += kRange) {
    const uint64_t end = std::min(begin + kRange, bytes_);
    COHORT_RETURN_IF_ERROR(SyncRange(fd_.get(), begin, end - begin, kWait, path_));
    progress(end);
  }
  if (CountedFsync(fd_.get()) != 0) return ErrnoStatus("cannot fsync", path_, errno);
  return absl::OkStatus();
}

absl::Status DurableFile::Truncate(uint64_t bytes) {
  const auto end = static_cast<off_t>(bytes);
  if (::ftruncate(fd_.get(), end) != 0 || ::lseek(fd_.get(), end, SEEK_SET) != end) {
    return ErrnoStatus("cannot truncate", path_, errno);
  }
  bytes_ = bytes;
  begun_ = std::min(begun_, bytes);
  return absl::OkStatus();
}

absl::Status DurableFile::RenameTo(const std::string& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) {
    return ErrnoStatus("cannot rename a file to", path, errno);
  }
  path_ = path;
  return absl::OkStatus();
}

absl::Status DurableFile::Close() {
  if (fd_.Close() != 0) return ErrnoStatus("cannot close", path_, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RandomFile>> RandomFile::Open(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("cannot look at", path, errno);
  return std::unique_ptr<RandomFile>(
      new RandomFile(path, std::move(fd), static_cast<uint64_t>(info.st_size)));
}

absl::Status RandomFile::Read(uint64_t offset, void* out, size_t bytes) const {
  auto* at = static_cast<uint8_t*>(out);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_.get(), at, std::min(bytes, kMaxCall), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot read", path_, errno);
    if (n == 0) {
      return DataLoss("{}: ends at byte {}, {} more bytes were expected", path_, offset, bytes);
    }
    at += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> absl::Status {
    COHORT_ASSIGN_OR_RETURN(auto file, DurableFile::Create(temporary, DurableFile::Mode::kReplace));
    COHORT_RETURN_IF_ERROR(file->Append(contents.data(), contents.size()));
    COHORT_RETURN_IF_ERROR(file->Sync());
    COHORT_RETURN_IF_ERROR(file->Close());
    return file->RenameTo(path);
  };
  if (const absl::Status status = write(); !status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  const size_t slash = path.rfind('/');
  return SyncDirectory(slash == std::string::npos ? "."
                                                  : path.substr(0, std::max<size_t>(slash, 1)));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  COHORT_ASSIGN_OR_RETURN(auto file, RandomFile::Open(path));
  if (file->size() > max_bytes) {
    return DataLoss("{}: has {} bytes, at most {} make sense here", path, file->size(), max_bytes);
  }
  std::string contents(file->size(), '\0');
  COHORT_RETURN_IF_ERROR(file->Read(0, contents.data(), contents.size()));
  return contents;
}

int64_t FsyncCount() { return fsyncs.load(std::memory_order_relaxed); }

absl::Status SyncDirectory(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("cannot open", directory, errno);
  // Some network file systems cannot sync a directory and keep its entries durable by themselves.
  if (CountedFsync(fd.get()) != 0 && errno != EINVAL) {
    return ErrnoStatus("cannot fsync", directory, errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) {
    if (errno == ENOENT) return names;
    return ErrnoStatus("cannot list", path, errno);
  }
  errno = 0;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(dir);
  if (error != 0) return ErrnoStatus("cannot list", path, error);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus("cannot remove", path, errno);
  }
  return absl::OkStatus();
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  if (directory.back() == '/') return fmt::format("{}{}", directory, name);
  return fmt::format("{}/{}", directory, name);
}

}  // namespace cohort
