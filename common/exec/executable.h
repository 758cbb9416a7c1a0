#ifndef COHORT_COMMON_EXEC_EXECUTABLE_H_
#define COHORT_COMMON_EXEC_EXECUTABLE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/kernels/random_key.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct CompileOptions {
  std::string device = "cpu";  // a device kind of the kernel registry
  int intra_op_threads = 1;
};

// A program compiled for one device: shapes inferred, memory planned by liveness in one arena,
// kernels chosen. A step is
//
//   Bind(batch) -> Prepare() -> exchange.Exchange(..., pulls()) -> Run() -> pushes()
//
// where Prepare runs the part of the graph that row pulls depend on (deduplicating keys), and Run
// the rest. In the steady state none of them allocates or locks (with one intra-op thread). One
// thread at a time.
class Executable {
 public:
  // Errors: InvalidArgument (the program is not valid), Unimplemented (an op, dtype or device kind
  // that this build has no kernel for), ResourceExhausted (no memory for the arena).
  static absl::StatusOr<std::unique_ptr<Executable>> Compile(Program program,
                                                             const CompileOptions& options);
  ~Executable();

  const Program& program() const;

  // Binds argument `i` to `arguments[i]`. Its dims must match the type of the argument; a bounded
  // axis may have any count up to its capacity, the same in all arguments. The executable refers to
  // the tensors until the next Bind. Errors: InvalidArgument that names the argument.
  absl::Status Bind(std::span<const Tensor> arguments);

  absl::Status Prepare(const RandomKey& key);

  // The values of variables that Run needs; destinations point into the arena. Valid from Prepare
  // to the next Bind.
  std::span<const PullItem> pulls() const;

  // Errors: InvalidArgument naming the node whose input values are wrong (an index out of range).
  absl::Status Run();

  // The values point into the arena and stay valid until the *second* Prepare after this, so that
  // the push of a step may still be sent while the next step prepares (pushes are double-buffered).
  std::span<const PushItem> pushes() const;
  double weight() const;
  int64_t batch_count() const;  // run-time count of symbol 1; 0 if the program has no symbol

  // Bytes of the arena and the two push areas together.
  size_t memory_bytes() const;

  // What the last Run adds to the accumulators of all metrics, one after the other, in the order of
  // program().metrics. MetricFold folds them.
  std::span<const double> metric_values() const;

  // A copy of output `i`.
  Tensor output(size_t i) const;

 private:
  class Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_EXECUTABLE_H_
