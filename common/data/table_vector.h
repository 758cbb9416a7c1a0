#ifndef COHORT_COMMON_DATA_TABLE_VECTOR_H_
#define COHORT_COMMON_DATA_TABLE_VECTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace cohort {

// The bytes of a table in memory. They grow. While all of the process fit into TableMemoryLimit(),
// they are ordinary memory. Others lie in a temporary file without a name, in TMPDIR, that is
// mapped: the system keeps as many of its pages in memory as there is room. So a table may be
// larger than memory, and code that reads it need not know. If no such file can be made, they are
// ordinary memory.
class TableBytes {
 public:
  TableBytes() = default;
  TableBytes(TableBytes&& other) noexcept { *this = std::move(other); }
  TableBytes& operator=(TableBytes&& other) noexcept;
  ~TableBytes() { Free(); }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  bool is_in_file() const { return fd_ >= 0; }

  // Makes room for `bytes` bytes. Those that were there stay; the others are not set.
  void Reserve(size_t bytes);

 private:
  void Free();
  bool MoveToFile(size_t bytes);
  bool GrowFile(size_t bytes);

  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  int fd_ = -1;
};

// A quarter of the memory that the host, or the process's cgroup, has; or what a test has set.
uint64_t TableMemoryLimit();
void SetTableMemoryLimitForTest(uint64_t bytes);

// A list of numbers in TableBytes.
template <typename T>
class TableVector {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  using value_type = T;

  TableVector() = default;
  explicit TableVector(size_t size) { resize(size); }
  TableVector(TableVector&& other) noexcept
      : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
  TableVector& operator=(TableVector&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

  void push_back(T value) {
    if ((size_ + 1) * sizeof(T) > bytes_.capacity()) Grow(size_ + 1);
    data()[size_++] = value;
  }
  // New elements are 0.
  void resize(size_t size) {
    if (size * sizeof(T) > bytes_.capacity()) bytes_.Reserve(size * sizeof(T));
    if (size > size_) std::memset(static_cast<void*>(end()), 0, (size - size_) * sizeof(T));
    size_ = size;
  }
  void assign(const T* from, size_t size) {
    resize(size);
    if (size > 0) std::memcpy(data(), from, size * sizeof(T));
  }

  // The same memory as a list of bytes.
  TableVector<uint8_t> TakeBytes() && {
    TableVector<uint8_t> taken;
    taken.bytes_ = std::move(bytes_);
    taken.size_ = std::exchange(size_, 0) * sizeof(T);
    return taken;
  }

 private:
  template <typename>
  friend class TableVector;

  void Grow(size_t size) {
    constexpr size_t kLeast = 64;
    bytes_.Reserve(std::max({kLeast, size * sizeof(T), bytes_.capacity() / 2 * 3}));
  }

  TableBytes bytes_;
  size_t size_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TABLE_VECTOR_H_
