#ifndef COHORT_COMMON_EXEC_EXECUTABLE_H_
#define COHORT_COMMON_EXEC_EXECUTABLE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/kernels/random_key.h"
#include "common/tensor/tensor.h"

namespace cohort {

class Device;
class KernelObserver;
class PushObserver;
class ResidentVariables;
class SegmentDevices;
struct DeviceParts;

struct CompileOptions {
  // On which the main steps run; none: the CPU. Several share the examples of each batch.
  std::vector<std::shared_ptr<Device>> devices;
  int intra_op_threads = 1;
  int lanes = 1;  // steps that may be prepared at the same time
  // The variables live on the only device, where Run reads them (see device_parts()). They outlive
  // the executable. Null: they are pulled and pushed.
  const ResidentVariables* variables = nullptr;
  // Others sum the gradients of a step: if its variables live on the device, pushes() has its
  // values, and there is no update. Gradients are in the memory of the device, until the next Run.
  bool sums_elsewhere = false;
  // Where nodes run that name a device: a program with such nodes is cut (common/graph/segments.h),
  // and does not share its batch among `devices`. It outlives the executable. Null: names of
  // devices are ignored, and all nodes run on `devices`.
  SegmentDevices* segment_devices = nullptr;
  // On the CPU: gives the memory of pushed values, which others read there. May be null, or return
  // an empty reference: the heap.
  std::function<BufferRef(size_t bytes)> allocate_push_areas;
};

// A program compiled for one device: shapes inferred, memory planned by liveness in one arena,
// kernels chosen. On a device that is not the CPU all memory that this class shows is still the
// host's; Run copies. A step is
//
//   Bind(batch) -> Prepare() -> exchange.Exchange(..., pulls()) -> Run() -> pushes()
//
// where Prepare runs the part of the graph that row pulls depend on (deduplicating keys), and Run
// the rest. In the steady state none of them allocates or locks (with one intra-op thread). One
// thread at a time.
//
// With several lanes, steps can be bound and prepared, and their values pulled, while others run. A
// lane has the inputs, the keys and the pulled values of one step; all share the arena in which
// Run computes.
//
// If the variables live on the device, no values are exchanged: pulls() and pushes() are empty. The
// owner of the variables applies the update of device_parts() after Run (but see
// CompileOptions::sums_elsewhere).
class Executable {
 public:
  // Errors: InvalidArgument (the program is not valid), Unimplemented (an op, dtype or device kind
  // that this build has no kernel for), ResourceExhausted (no memory for the arena). With variables
  // on the device, also those of ResidentStep::Make.
  static absl::StatusOr<std::unique_ptr<Executable>> Compile(Program program,
                                                             const CompileOptions& options);
  ~Executable();

  const Program& program() const;

  // The functions below apply to the step in this lane, until the next UseLane; at first 0. What a
  // step that has run leaves in the arena (`output`) is lost.
  void UseLane(int lane);

  // Binds argument `i` to `arguments[i]`. Its dims must match the type of the argument; a bounded
  // axis may have any count up to its capacity, the same in all arguments. The lane refers to the
  // tensors until its next Bind. Errors: InvalidArgument that names the argument.
  absl::Status Bind(std::span<const Tensor> arguments);

  absl::Status Prepare(const RandomKey& key);

  // The values of variables that Run needs; destinations point into the arena, or the lane if there
  // are several. Valid from Prepare to the next Bind in this lane. Run reads a dense value where
  // the access has lent it (PullItem::lent), unless the step runs on a device or pushes the value
  // itself.
  std::span<const PullItem> pulls() const;

  // `observer` may be null. On the CPU it learns of a push when its value is final, while the run
  // continues; of those that are copied, and on a device, at the end. Errors: InvalidArgument
  // naming the node whose input values are wrong (an index out of range).
  absl::Status Run(PushObserver* observer = nullptr);
  // Where the next Run will write what it pushes. Keys are not set yet.
  std::span<const PushItem> next_pushes() const;

  // The pushes of the step that ran last, in any lane, and their weight. The values stay valid
  // until a Prepare after the next Run, so that they may be sent while the next steps prepare, pull
  // and run.
  std::span<const PushItem> pushes() const;
  // How steps push and read variables on the device. The update applies the pushes of the step that
  // ran last, in any lane, until the next Run.
  DeviceParts device_parts();
  double weight() const;
  int64_t batch_count() const;  // run-time count of symbol 1; 0 if the program has no symbol

  // Bytes of the arena, the lanes and the push areas together.
  size_t memory_bytes() const;
  // Bytes that a step copies to the device and back, at full capacity; 0 on the CPU. If the program
  // is cut: what the last Run has copied to other devices and workers, and back.
  int64_t transfer_bytes() const;

  // What the last Run adds to the accumulators of all metrics, one after the other, in the order of
  // program().metrics. MetricFold folds them.
  std::span<const double> metric_values() const;

  // A copy of output `i`.
  Tensor output(size_t i) const;
  // Output `i` itself, valid until the next Prepare.
  const void* output_data(size_t i) const;

  // `observer` (may be null) learns of each kernel on the CPU from now on. It outlives this object.
  void SetObserver(KernelObserver* observer);

 private:
  class Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_EXECUTABLE_H_
