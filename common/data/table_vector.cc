#include "common/data/table_vector.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>

#include "common/data/files/temporary_file.h"

namespace cohort {
namespace {

// Smaller lists stay in memory: a file would take a page and a descriptor.
constexpr size_t kLeastFileBytes = 256 << 10;

std::atomic<uint64_t> g_in_memory{0};
std::atomic<uint64_t> g_limit{0};  // 0: not known yet

// The number in a file of the cgroup; 0: there is none, or no limit.
uint64_t NumberIn(const char* path) {
  std::ifstream in(path);
  uint64_t number = 0;
  return in >> number ? number : 0;
}

uint64_t FindLimit() {
  uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                    static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const uint64_t limit = NumberIn(path); limit > 0) memory = std::min(memory, limit);
  }
  return memory / 4;
}

}  // namespace

uint64_t TableMemoryLimit() {
  uint64_t limit = g_limit.load(std::memory_order_relaxed);
  if (limit > 0) return limit;
  limit = FindLimit();
  g_limit.store(limit, std::memory_order_relaxed);
  return limit;
}

void SetTableMemoryLimitForTest(uint64_t bytes) { g_limit.store(bytes, std::memory_order_relaxed); }

TableBytes& TableBytes::operator=(TableBytes&& other) noexcept {
  if (this == &other) return *this;
  Free();
  data_ = std::exchange(other.data_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

void TableBytes::Free() {
  if (is_in_file()) {
    ::munmap(data_, capacity_);
    ::close(fd_);
  } else {
    std::free(data_);
    g_in_memory -= capacity_;
  }
  data_ = nullptr;
  capacity_ = 0;
  fd_ = -1;
}

// The file has its blocks before it is written: a full disk would end the process later.
bool TableBytes::GrowFile(size_t bytes) {
  if (::posix_fallocate(fd_, 0, static_cast<off_t>(bytes)) != 0) return false;
  void* const grown = ::mremap(data_, capacity_, bytes, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(grown);
  capacity_ = bytes;
  return true;
}

bool TableBytes::MoveToFile(size_t bytes) {
  const int fd = OpenTemporaryFile().fd.Release();
  if (fd < 0) return false;
  void* mapped = MAP_FAILED;
  if (::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0) {
    mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (mapped == MAP_FAILED) {
    ::close(fd);
    return false;
  }
  if (capacity_ > 0) std::memcpy(mapped, data_, capacity_);
  Free();
  data_ = static_cast<std::byte*>(mapped);
  capacity_ = bytes;
  fd_ = fd;
  return true;
}

void TableBytes::Reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  if (is_in_file()) {
    if (GrowFile(bytes)) return;
    // The disk is full, or has no room for more: the rest of the way is memory.
    TableBytes memory;
    memory.data_ = static_cast<std::byte*>(std::malloc(bytes));
    if (memory.data_ == nullptr) throw std::bad_alloc();
    memory.capacity_ = bytes;
    g_in_memory += bytes;
    std::memcpy(memory.data_, data_, capacity_);
    *this = std::move(memory);
    return;
  }
  const bool fits = g_in_memory + (bytes - capacity_) <= TableMemoryLimit();
  if (!fits && bytes >= kLeastFileBytes && MoveToFile(bytes)) return;
  void* const grown = std::realloc(data_, bytes);
  if (grown == nullptr) throw std::bad_alloc();
  g_in_memory += bytes - capacity_;
  data_ = static_cast<std::byte*>(grown);
  capacity_ = bytes;
}

}  // namespace cohort
