#ifndef COHORT_COMMON_KERNELS_KERNEL_H_
#define COHORT_COMMON_KERNELS_KERNEL_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/program.h"
#include "common/kernels/random_key.h"
#include "common/tensor/dtype.h"

namespace cohort {

class ThreadPool;

// A value during a run: memory of the device and the current sizes of its axes. Row-major, dense.
struct ValueView {
  void* data = nullptr;
  DType dtype = DType::kInvalid;
  int rank = 0;
  const int64_t* dims = nullptr;  // `rank` sizes
  int64_t elements = 1;           // their product

  std::span<const int64_t> shape() const { return {dims, static_cast<size_t>(rank)}; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// The inputs and outputs of one run of a kernel. Prepared once; views change in place.
struct KernelContext {
  const ValueView* const* inputs = nullptr;
  const ValueView* const* outputs = nullptr;
  uint8_t* scratch = nullptr;         // Kernel::scratch_bytes(), aligned to 64, not initialized
  ThreadPool* pool = nullptr;         // never null; one thread: only the caller's
  const RandomKey* random = nullptr;  // the key of this step
  int64_t* count = nullptr;           // `unique` writes the run-time count of its symbol here

  const ValueView& in(size_t i) const { return *inputs[i]; }
  const ValueView& out(size_t i = 0) const { return *outputs[i]; }
};

// One node, compiled for a device. Run neither allocates nor locks and works for any counts of the
// bounded axes up to their capacity, zero too. Thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Errors: InvalidArgument if the *values* of the inputs are wrong (an index out of range).
  virtual absl::Status Run(const KernelContext& context) const = 0;

  // Working memory at full capacity.
  virtual size_t scratch_bytes() const { return 0; }
  // Returns true if output 0 may use the memory of input i (if they have the same size in bytes).
  virtual bool in_place(size_t i) const { return false; }
  // Returns true if the kernel reads the data of input i; otherwise it reads only the dims.
  virtual bool reads_data(size_t i) const { return true; }
};

// Chooses the kernel of a node by (op, device kind) and the types of its values. Five ops have no
// kernel, because the executor handles them: `input`, `read`, `read_rows`, `constant`, `reshape`.
// Errors: Unimplemented for a device kind, an op or a dtype that this build has no kernel for.
absl::StatusOr<std::unique_ptr<Kernel>> CreateKernel(const Node& node, const Program& program,
                                                     std::string_view device);

// The ops that a device kind has kernels for, in alphabetical order; empty for an unknown kind.
std::vector<std::string_view> KernelOps(std::string_view device);

// The parts of NumericFingerprint on which the results depend: "avx2", and "onednn 2.6.3, highway
// 1.0.3".
std::string_view CpuInstructionSet();
std::string CpuLibraries();

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_KERNEL_H_
