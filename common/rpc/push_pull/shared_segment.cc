#include "common/rpc/push_pull/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/os/identity.h"

namespace cohort {
namespace {

constexpr char kName[] = "cohort-payload";
constexpr int kSealFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE, which old headers lack

// The target of a symbolic link in /proc; "" if it cannot be read.
std::string LinkTarget(const std::string& link) {
  char target[256];
  const ssize_t length = readlink(link.c_str(), target, sizeof(target));
  return length < 0 ? std::string() : std::string(target, static_cast<size_t>(length));
}

// Returns null and sets errno if it cannot be mapped. `populate` allocates the pages now instead of
// during a step.
uint8_t* Map(int fd, size_t bytes, int protection, bool populate) {
  void* memory = mmap(nullptr, bytes, protection, MAP_SHARED | (populate ? MAP_POPULATE : 0), fd,
                      /*offset=*/0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(size_t bytes, Use others) {
  UniqueFd fd(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto failed = [&] {
    return ResourceExhausted("cannot allocate {} bytes of shared memory: {}", bytes,
                             std::strerror(errno));
  };
  // If memory is short, this fails, while the first write to a page would be a signal.
  if (!fd.ok() || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fallocate(fd.get(), /*mode=*/0, /*offset=*/0, static_cast<off_t>(bytes)) != 0) {
    return failed();
  }
  uint8_t* const data = Map(fd.get(), bytes, PROT_READ | PROT_WRITE, /*populate=*/true);
  if (data == nullptr) return failed();
  const uint64_t id = RandomIncarnation();
  std::memcpy(data, &id, sizeof(id));
  std::unique_ptr<SharedSegment> segment(new SharedSegment(std::move(fd), data, bytes, id));
  // Kernels before 5.1 lack this seal.
  if (others == Use::kRead) fcntl(segment->fd(), F_ADD_SEALS, kSealFutureWrite);
  if (fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed();
  }
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(uint32_t pid, uint32_t fd,
                                                                   uint64_t id, uint64_t bytes,
                                                                   Use use) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  // A number from the wire may name any file, and opening a device or a pipe has effects. So only a
  // file that O_PATH, which has no effects, shows to be a segment is opened.
  const UniqueFd found(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.ok()) return Unavailable("{}: {}", path, std::strerror(errno));
  const std::string link = fmt::format("/proc/self/fd/{}", found.get());
  if (LinkTarget(link) != fmt::format("/memfd:{} (deleted)", kName)) {
    return InvalidArgument("{} is not a shared segment", path);
  }
  const bool reads = use == Use::kRead;
  UniqueFd file(open(link.c_str(), (reads ? O_RDONLY : O_RDWR) | O_CLOEXEC));
  if (!file.ok()) return Unavailable("{}: {}", path, std::strerror(errno));
  struct stat info = {};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file.get(), &info) != 0 ||
      bytes < kAlignment || static_cast<uint64_t>(info.st_size) != bytes) {
    return InvalidArgument("{} is not a sealed segment of {} bytes", path, bytes);
  }
  // The creator has allocated the pages. A thread that serves others must not wait until all of
  // them are mapped.
  uint8_t* const data =
      Map(file.get(), bytes, PROT_READ | (reads ? 0 : PROT_WRITE), /*populate=*/reads);
  if (data == nullptr) return Unavailable("{} cannot be mapped: {}", path, std::strerror(errno));
  if (reads) file = UniqueFd();
  std::unique_ptr<SharedSegment> segment(new SharedSegment(std::move(file), data, bytes, id));
  if (std::memcmp(data, &id, sizeof(id)) != 0 || id == 0) {
    return InvalidArgument("{} is another segment", path);
  }
  return segment;
}

// The seal of the new memory lets nobody map it for writing any more, so its mapping is moved. A
// private mapping of the old memory has the same contents, and copies a page when it is written.
void SharedSegment::Renew() {
  const auto renewed = Create(size_, Use::kRead);
  if (renewed.ok()) {
    SharedSegment* const other = renewed->get();
    std::memcpy(other->data_ + kAlignment, data_ + kAlignment, size_ - kAlignment);
    if (mremap(other->data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) != MAP_FAILED) {
      other->data_ = nullptr;
      fd_ = std::move(other->fd_);
      id_ = other->id_;
      return;
    }
  }
  id_ = 0;
  if (mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get(),
           /*offset=*/0) == MAP_FAILED) {
    std::abort();  // to continue would change what a server may apply
  }
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace cohort
