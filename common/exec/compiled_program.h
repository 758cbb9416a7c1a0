#ifndef COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_
#define COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "common/graph/program.h"
#include "common/kernels/device_kernel.h"
#include "common/kernels/kernel.h"

namespace cohort {

class SegmentDevices;

// Bytes of a value at full capacity.
size_t CapacityBytes(const ValueType& type);

// The location of the memory of a value. A view (`reshape`) has the location of its root.
enum class Location : uint8_t {
  kNowhere,   // not needed
  kArena,     // at `offset` of the arena
  kLane,      // at `offset` of the step's lane
  kPushed,    // pushed: at `offset` of the step's push area
  kArgument,  // the tensor bound to argument `index`
  kVariable,  // variable `index` of the program, whole, in the memory of the device
  kConstant,  // the tensor of node `index`
};

struct ValueLocation {
  Location in = Location::kNowhere;
  size_t offset = 0;
  int index = 0;
};

// A node that runs a kernel: on the CPU, or on the device of the program.
struct CompiledStep {
  int node = 0;
  std::unique_ptr<Kernel> kernel;               // null: it runs on the device
  std::unique_ptr<DeviceKernel> device_kernel;  // null: it runs on the CPU
  size_t scratch_offset = 0;                    // in the arena

  const KernelTraits& traits() const {
    return kernel != nullptr ? static_cast<const KernelTraits&>(*kernel) : *device_kernel;
  }
};

// A pushed value that is an argument of the program: copied, so that it outlives the next Bind.
struct PushCopy {
  ValueId value = kNoValue;
  size_t offset = 0;  // in the push area
};

// Which pushed values the host needs. All but kAll are for variables that live on the device.
enum class HostPushes : uint8_t {
  kAll,
  kAllButGradients,  // others sum gradients where they lie, in the memory of the device
  kNone,             // graphs of the program update the variables
};

// A program with its kernels chosen and its memory planned.
//
//   prologue steps | pull | main steps
//
// The prologue computes the keys of row reads. Liveness is counted in these positions: a pulled
// value lives from the pull; a pushed value, an output and a metric live to the end. A value that
// dies in an elementwise step may give its memory to the output of that step.
//
// If the program is planned for several lanes, other steps run between the prologue and the main
// steps. Values that live across the pull then have memory of their own in each lane.
//
// If the main steps run on a device, the prologue still runs on the CPU, and there are two memories
// of this plan: the host's and the device's. What the main steps need of the prologue and of the
// pull lies in lanes, and is copied to the device; what is visible from outside lies in push areas,
// and is copied back. A main step without a kernel for the device runs in the host's memory.
//
// If the variables live on the device, `read` yields their own memory, rows are read into the lane
// there, and pushed values that the host does not need stay in the device's arena.
struct CompiledProgram {
  Program program;
  HostPushes host_pushes = HostPushes::kAll;
  bool variables_on_device() const { return host_pushes != HostPushes::kAll; }
  bool updates_itself() const { return host_pushes == HostPushes::kNone; }
  std::vector<CompiledStep> prologue;
  std::vector<CompiledStep> main;
  std::vector<ValueId> roots;            // by value: itself, or the value of which it is a view
  std::vector<ValueLocation> locations;  // by value; a view has that of its root
  std::vector<int> reads;                // nodes, in order: `read` and `read_rows`
  bool on_cpu = true;                    // the main steps
  std::vector<PushCopy> push_copies;
  size_t arena_bytes = 0;
  size_t lane_bytes = 0;       // each lane has as many; 0 if there is one lane
  size_t push_area_bytes = 0;  // each push area has as many
};

// The same program for this many examples at most, those of one device of several. Its values and
// nodes have the same numbers. Errors: Unimplemented: not every value of examples has them along
// its first axis.
absl::StatusOr<Program> ProgramOfShare(const Program& program, int64_t examples);

// How a program is compiled.
struct ProgramOptions {
  HostPushes host_pushes = HostPushes::kAll;
  // The program is for the CPU and is cut where nodes name devices; null: they name none, or it
  // does not matter.
  SegmentDevices* segment_devices = nullptr;
};

// `device_kind`: "cpu", or that of the device on which the main steps run. Errors: those of
// MakeRunner; InvalidArgument (ValidateProgram), Unimplemented (CreateKernel; an op without a
// kernel for the device that reads a variable there), naming the node.
absl::StatusOr<CompiledProgram> CompileProgram(Program program, std::string_view device_kind,
                                               int lanes = 1, const ProgramOptions& options = {});
// For a program that is known to be valid, or made by ProgramOfShare of one.
absl::StatusOr<CompiledProgram> CompileValidProgram(Program program, std::string_view device_kind,
                                                    int lanes, const ProgramOptions& options = {});

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_
