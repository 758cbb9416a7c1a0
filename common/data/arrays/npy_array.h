#ifndef COHORT_COMMON_DATA_ARRAYS_NPY_ARRAY_H_
#define COHORT_COMMON_DATA_ARRAYS_NPY_ARRAY_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/data/feature_type.h"

namespace cohort {

// What the header of a .npy file says (numpy/lib/format.py): magic, version, size of the rest, and
// a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }.
struct NpyHeader {
  char kind = 'u';        // u: unsigned, i: integer, f: floating, b: bool
  size_t item_bytes = 1;  // one stored number has as many
  bool big_endian = false;
  Dims shape;        // with the rows
  size_t bytes = 0;  // the header has as many
};
// `start` are the first bytes of the file, up to kMaxNpyHeader. Errors: DataLoss; InvalidArgument
// for an array that is not supported (objects, text, Fortran's order). They begin with `name`.
inline constexpr size_t kMaxNpyHeader = 64 << 10;
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view start, std::string_view name);

// The rows (axis 0) of a .npy array, read one by one from a file, or kept in memory. Immutable and
// thread-safe.
class NpyArray {
 public:
  // Reads bytes [offset, offset + out.size()) of the array. Thread-safe.
  using Reader = std::function<absl::Status(uint64_t offset, std::span<std::byte> out)>;
  // `bytes`: the size of the array. `name` is for messages. Errors: those of ParseNpyHeader and
  // `read`; DataLoss if the array has other bytes than its shape says.
  static absl::StatusOr<NpyArray> Open(Reader read, uint64_t bytes, std::string name);
  // An array in memory.
  static absl::StatusOr<NpyArray> Parse(std::string bytes, std::string name);

  uint64_t rows() const { return static_cast<uint64_t>(header_.shape[0]); }
  // The dtype and shape of a row. Integers that no dtype holds become wider; half precision becomes
  // float32.
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  const std::string& name() const { return name_; }

  // `row` < rows(). `out` has the size of a row in dtype().
  absl::Status ReadRow(uint64_t row, std::span<std::byte> out) const;

 private:
  NpyArray() = default;

  std::string name_;
  NpyHeader header_;
  DType dtype_ = DType::kInvalid;
  Dims dims_;
  size_t row_bytes_ = 0;  // stored
  Reader read_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_ARRAYS_NPY_ARRAY_H_
