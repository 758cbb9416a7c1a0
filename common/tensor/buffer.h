#ifndef COHORT_COMMON_TENSOR_BUFFER_H_
#define COHORT_COMMON_TENSOR_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace cohort {

class BufferPool;

// Memory of a special kind that a buffer lies in. It is destroyed with the buffer.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;

  // Set by the buffer's owner: the buffer holds an older version of what the owner now has
  // elsewhere.
  std::atomic<bool> superseded{false};
};

// A reference-counted block of bytes, aligned to 64.
//
// The rule that makes sharing safe: the holder of the only reference may write. A shared buffer is
// immutable until it is unique again. Pulled variables go to the wire as references.
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  // The buffer that this one is a part of; itself if it is no part.
  Buffer* whole() { return whole_ != nullptr ? whole_ : this; }
  // The special memory that the whole lies in; null: it is ordinary.
  BufferMemory* memory() const { return (whole_ != nullptr ? whole_ : this)->memory_.get(); }

 private:
  friend class BufferRef;
  friend class BufferPool;
  Buffer(size_t size, size_t capacity, uint8_t* data)
      : size_(size), capacity_(capacity), data_(data) {}

  void Release();

  std::atomic<int32_t> references_{1};
  size_t size_;
  size_t capacity_;
  uint8_t* data_;
  BufferPool* pool_ = nullptr;  // takes the bytes back after the last reference
  // Where the bytes lie, if they are not this buffer's own.
  Buffer* whole_ = nullptr;  // an owned reference
  std::unique_ptr<BufferMemory> memory_;
};

// One reference to a Buffer, or none.
class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
    if (buffer_ != nullptr) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() {
    if (buffer_ != nullptr) buffer_->Release();
  }

  // `size` bytes on the heap, not initialized.
  static BufferRef Allocate(size_t size);
  // `size` bytes at `data`, which `memory` owns.
  static BufferRef Within(std::unique_ptr<BufferMemory> memory, uint8_t* data, size_t size);
  // A buffer of its own references for bytes [offset, offset + size) of `whole`, which stays alive
  // with it.
  static BufferRef PartOf(const BufferRef& whole, size_t offset, size_t size);

  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* get() const { return buffer_; }
  Buffer* operator->() const { return buffer_; }
  // True if this is the only reference, so that the buffer may be written.
  bool unique() const { return buffer_->references_.load(std::memory_order_acquire) == 1; }

  // Releases the reference to plain C code. Adopt takes it back.
  Buffer* Detach() { return std::exchange(buffer_, nullptr); }
  static BufferRef Adopt(Buffer* buffer) { return BufferRef(buffer); }

 private:
  friend class BufferPool;
  explicit BufferRef(Buffer* buffer) : buffer_(buffer) {}
  Buffer* buffer_ = nullptr;
};

// Recycles buffers, so that a steady state allocates nothing. Thread-safe. Buffers may outlive the
// handle: the pool lives until the last of them is returned.
class BufferPool {
 public:
  struct Deleter {
    void operator()(BufferPool* pool) const { pool->Close(); }
  };
  using Handle = std::unique_ptr<BufferPool, Deleter>;

  // Keeps at most `max_idle_bytes` of idle buffers.
  static Handle Create(size_t max_idle_bytes);

  // A unique buffer of `size` bytes, not initialized.
  BufferRef Allocate(size_t size);

  // Frees the idle buffers: more were in use than will be needed soon.
  void Trim();

  // The number of buffers allocated on the heap because no idle one fitted.
  int64_t heap_allocations() const;

 private:
  friend class Buffer;
  class Impl;
  explicit BufferPool(std::unique_ptr<Impl> impl);
  ~BufferPool();
  void Return(Buffer* buffer);
  void Close();
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_BUFFER_H_
