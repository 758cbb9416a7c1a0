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
struct KernelError;

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
  KernelError* error = nullptr;       // where a kernel of a device reports a wrong value
  int64_t first_example = 0;          // the devices before this one have the others

  const ValueView& in(size_t i) const { return *inputs[i]; }
  const ValueView& out(size_t i = 0) const { return *outputs[i]; }
};

// What the plan of a program must know of the kernel of a node.
class KernelTraits {
 public:
  virtual ~KernelTraits() = default;

  // Working memory at full capacity.
  virtual size_t scratch_bytes() const { return 0; }
  // Returns true if output 0 may use the memory of input i (if they have the same size in bytes).
  virtual bool in_place(size_t i) const { return false; }
  // Returns true if the kernel reads the data of input i; otherwise it reads only the dims.
  virtual bool reads_data(size_t i) const { return true; }
};

// One node, compiled for the CPU. Run neither allocates nor locks and works for any counts of the
// bounded axes up to their capacity, zero too. One run at a time.
class Kernel : public KernelTraits {
 public:
  // Errors: InvalidArgument if the *values* of the inputs are wrong (an index out of range).
  virtual absl::Status Run(const KernelContext& context) const = 0;
  // Bytes that the last run has copied to another memory and back.
  virtual int64_t transfer_bytes() const { return 0; }
};

// Chooses the CPU kernel of a node by its op and the types of its values. Five ops have none,
// because the executor handles them: `input`, `read`, `read_rows`, `constant`, `reshape`. Errors:
// Unimplemented for an op or a dtype that this build has no kernel for.
absl::StatusOr<std::unique_ptr<Kernel>> CreateKernel(const Node& node, const Program& program);

// The ops that have CPU kernels, in alphabetical order.
std::vector<std::string_view> KernelOps();

// The parts of NumericFingerprint on which the results depend: "avx2", and "onednn 2.6.3, highway
// 1.0.3".
std::string_view CpuInstructionSet();
std::string CpuLibraries();

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_KERNEL_H_
