#include "common/data/file_bytes.h"

#include <absl/strings/ascii.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/data/files/remote_file.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

// What SampledCrc32 reads of either end.
constexpr uint64_t kSampleBytes = 64 << 10;

absl::StatusOr<uint64_t> SizeOfFile(const UniqueFd& fd, const std::string& path) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus("cannot read the size of", path, errno);
  return static_cast<uint64_t>(status.st_size);
}

absl::Status CheckUnchanged(const UniqueFd& fd, const std::string& path, const FileRange& range) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus("cannot read the size of", path, errno);
  return CheckSame({static_cast<uint64_t>(status.st_size), NanosecondsOf(status.st_mtim)},
                   {range.bytes, range.modified_ns}, path);
}

absl::Status ReadAt(const UniqueFd& fd, const std::string& path, uint64_t offset,
                    std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return WithExitCode(ErrnoStatus("cannot read the data file", path, errno),
                          ExitCode::kNoInput);
    }
    if (n == 0) return DataLoss("{}: ends at byte {}, too early", path, offset);
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status CheckDigest(const UniqueFd& fd, const std::string& path, const InputFile& file) {
  COHORT_ASSIGN_OR_RETURN(const std::string actual, Sha256OfFile(fd.get(), path));
  if (actual == absl::AsciiStrToLower(file.sha256)) return absl::OkStatus();
  return DataLoss(
      "{}: has sha256 {}, the job says {}; {}{}", path, actual, file.sha256,
      file.url.empty() ? "use the intended file, or correct `sha256`" : "get it again from ",
      file.url);
}

}  // namespace

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

absl::Status CheckSame(const FileState& now, const FileState& then, const std::string& path) {
  if (now == then) return absl::OkStatus();
  return WithExitCode(
      FailedPrecondition(
          "{}: has changed since the stream took it: it had {} bytes and has {}. A file of a "
          "stream must be complete when it appears: write it under a name that begins with `.` or "
          "ends with `.tmp`, and rename it; give more data a new name",
          path, then.bytes, now.bytes),
      ExitCode::kNoInput);
}

absl::StatusOr<FileBytes> FileBytes::Open(const InputFile& file, const DataOptions& options) {
  if (file.path.empty()) return InvalidArgument("a data source names no file");
  std::string path = options.PathOf(file.path);
  if (IsRemote(file.path)) {
    COHORT_ASSIGN_OR_RETURN(path, FetchFile(file.path, file.sha256, {.log = options.log}));
  }
  auto fd = OpenRegularFile(path);
  if (absl::IsNotFound(fd.status())) return MissingFile(file, path, options);
  if (absl::IsDataLoss(fd.status())) return Annotate(fd.status(), "the data file");
  if (!fd.ok()) return WithExitCode(Annotate(fd.status(), "the data file"), ExitCode::kNoInput);
  COHORT_ASSIGN_OR_RETURN(const uint64_t size, SizeOfFile(*fd, path));
  // FetchFile has checked that of an address.
  if (!file.sha256.empty() && !IsRemote(file.path)) {
    COHORT_RETURN_IF_ERROR(CheckDigest(*fd, path, file));
  }
  if (!options.range.has_value() || options.range->path != file.path) {
    return FileBytes(PublicPath(file.path), *std::move(fd), size);
  }
  const FileRange& range = *options.range;
  COHORT_RETURN_IF_ERROR(CheckUnchanged(*fd, path, range));
  FileBytes part(PublicPath(file.path), *std::move(fd), range.head + (range.end - range.begin));
  part.head_ = range.head;
  part.begin_ = range.begin;
  return part;
}

absl::Status FileBytes::Read(uint64_t offset, std::span<std::byte> out) const {
  if (offset < head_) {
    const auto head = static_cast<size_t>(std::min<uint64_t>(out.size(), head_ - offset));
    COHORT_RETURN_IF_ERROR(ReadAt(fd_, path_, offset, out.first(head)));
    offset += head;
    out = out.subspan(head);
  }
  return ReadAt(fd_, path_, offset - head_ + begin_, out);
}

absl::StatusOr<uint32_t> FileBytes::SampledCrc32() const {
  std::vector<std::byte> sample(std::min(size_, 2 * kSampleBytes));
  const size_t half = sample.size() / 2;
  const std::span<std::byte> bytes(sample);
  COHORT_RETURN_IF_ERROR(Read(0, bytes.first(half)));
  COHORT_RETURN_IF_ERROR(Read(size_ - (sample.size() - half), bytes.subspan(half)));
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(sample.data()), sample.size()));
}

absl::Status ReadWholeFile(const std::string& path, uint64_t most, std::string* bytes) {
  COHORT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  COHORT_ASSIGN_OR_RETURN(const uint64_t size, SizeOfFile(fd, path));
  if (size > most) return DataLoss("{}: has {} bytes, at most {} are read", path, size, most);
  bytes->resize(size);
  return ReadAt(fd, path, 0, std::as_writable_bytes(std::span<char>(*bytes)));
}

}  // namespace cohort
