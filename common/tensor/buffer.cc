#include "common/tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallestClass = 256;

size_t RoundUp(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// Buffers of this size and above lie in huge pages, if the system has them: random rows of a table
// then cost few misses of the TLB (apply_bench measures it).
constexpr size_t kHugePage = size_t{2} << 20;

std::align_val_t AlignmentOf(size_t capacity) {
  return std::align_val_t{capacity >= kHugePage ? kHugePage : kAlignment};
}

uint8_t* AllocateBytes(size_t capacity) {
  void* const data = ::operator new(std::max(capacity, kAlignment), AlignmentOf(capacity));
  if (capacity >= kHugePage) madvise(data, capacity / kHugePage * kHugePage, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(data);
}

void FreeBytes(uint8_t* data, size_t capacity) { ::operator delete(data, AlignmentOf(capacity)); }

// Smaller buffers are left to the allocator.
constexpr size_t kDiscardedBytes = size_t{256} << 10;

// Frees the bytes of a pool's buffer. The allocator may keep the addresses for later, and the
// memory behind many of them would be missing elsewhere. So their pages go back to the system.
void FreePooledBytes(uint8_t* data, size_t capacity) {
  if (capacity >= kDiscardedBytes) {
    static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(data) + capacity) / page * page;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  FreeBytes(data, capacity);
}

// Buffers of one class differ by less than a quarter in size: sizes are rounded up to a multiple of
// a quarter of their power of two.
size_t ClassSize(size_t size) {
  if (size <= kSmallestClass) return kSmallestClass;
  const size_t quarter = std::bit_floor(size - 1) / 4;
  return (size + quarter - 1) / quarter * quarter;
}

}  // namespace

class BufferPool::Impl {
 public:
  explicit Impl(size_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}

  Mutex mu_;
  const size_t max_idle_bytes_;
  std::vector<Buffer*> idle_ ABSL_GUARDED_BY(mu_);  // few classes are in use: a scan is cheap
  size_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t live_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int64_t> heap_allocations_{0};
};

BufferRef BufferRef::Allocate(size_t size) {
  const size_t capacity = RoundUp(size);
  return BufferRef(new Buffer(size, capacity, AllocateBytes(capacity)));
}

BufferRef BufferRef::Within(std::unique_ptr<BufferMemory> memory, uint8_t* data, size_t size) {
  BufferRef buffer(new Buffer(size, size, data));
  buffer->memory_ = std::move(memory);
  return buffer;
}

BufferRef BufferRef::PartOf(const BufferRef& whole, size_t offset, size_t size) {
  BufferRef part(new Buffer(size, size, whole->data() + offset));
  part->whole_ = BufferRef(whole).Detach();
  return part;
}

void Buffer::Release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (whole_ != nullptr) {
    Buffer* const whole = whole_;
    delete this;
    return whole->Release();
  }
  if (memory_ != nullptr) {
    delete this;
    return;
  }
  if (pool_ != nullptr) {
    pool_->Return(this);
    return;
  }
  FreeBytes(data_, capacity_);
  delete this;
}

BufferPool::BufferPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BufferPool::~BufferPool() = default;

BufferPool::Handle BufferPool::Create(size_t max_idle_bytes) {
  return Handle(new BufferPool(std::make_unique<Impl>(max_idle_bytes)));
}

BufferRef BufferPool::Allocate(size_t size) {
  const size_t capacity = ClassSize(size);
  {
    MutexLock lock(&impl_->mu_);
    ++impl_->live_;
    auto& idle = impl_->idle_;
    for (size_t i = idle.size(); i-- > 0;) {
      if (idle[i]->capacity_ != capacity) continue;
      Buffer* buffer = idle[i];
      idle[i] = idle.back();
      idle.pop_back();
      impl_->idle_bytes_ -= capacity;
      buffer->size_ = size;
      buffer->references_.store(1, std::memory_order_relaxed);
      return BufferRef(buffer);
    }
  }
  impl_->heap_allocations_.fetch_add(1, std::memory_order_relaxed);
  auto* buffer = new Buffer(size, capacity, AllocateBytes(capacity));
  buffer->pool_ = this;
  return BufferRef(buffer);
}

int64_t BufferPool::heap_allocations() const {
  return impl_->heap_allocations_.load(std::memory_order_relaxed);
}

void BufferPool::Return(Buffer* buffer) {
  bool last = false;
  {
    MutexLock lock(&impl_->mu_);
    --impl_->live_;
    if (!impl_->closed_ && impl_->idle_bytes_ + buffer->capacity_ <= impl_->max_idle_bytes_) {
      impl_->idle_bytes_ += buffer->capacity_;
      impl_->idle_.push_back(buffer);
      return;
    }
    last = impl_->closed_ && impl_->live_ == 0;
  }
  FreePooledBytes(buffer->data_, buffer->capacity_);
  delete buffer;
  if (last) delete this;
}

void BufferPool::Trim() {
  std::vector<Buffer*> idle;
  {
    MutexLock lock(&impl_->mu_);
    idle.swap(impl_->idle_);
    impl_->idle_bytes_ = 0;
  }
  for (Buffer* buffer : idle) {
    FreePooledBytes(buffer->data_, buffer->capacity_);
    delete buffer;
  }
}

void BufferPool::Close() {
  bool last = false;
  std::vector<Buffer*> idle;
  {
    MutexLock lock(&impl_->mu_);
    impl_->closed_ = true;
    idle.swap(impl_->idle_);
    last = impl_->live_ == 0;
  }
  for (Buffer* buffer : idle) {
    FreePooledBytes(buffer->data_, buffer->capacity_);
    delete buffer;
  }
  if (last) delete this;
}

}  // namespace cohort
