#ifndef COHORT_COMMON_EXEC_SEGMENT_RUNNER_H_
#define COHORT_COMMON_EXEC_SEGMENT_RUNNER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/program.h"
#include "common/kernels/kernel.h"

namespace cohort {

// The nodes of a program between two cuts (common/graph/segments.h), as a program of their own. It
// keeps nothing from one run to the next: the backward part of a layer gets what it needs of the
// forward part as arguments.
struct Segment {
  Program program;
  std::vector<bool> reads_data;  // by argument: false if only its dims count
};

// Runs a segment where it belongs, again and again. One run at a time.
class SegmentRunner {
 public:
  virtual ~SegmentRunner() = default;
  // Inputs and outputs of the context are those of the segment, in the memory of the host. Errors:
  // those of kernels; those of the device or the worker, which they name.
  virtual absl::Status Run(const KernelContext& context) = 0;
  // Bytes that the last run has copied to another memory and back: to a device, or to another
  // worker.
  virtual int64_t transfer_bytes() const = 0;
};

// The devices that the layers of a program may name, as one process sees them. Thread-safe.
class SegmentDevices {
 public:
  virtual ~SegmentDevices() = default;
  // The device on which nodes run that name this one (Node::device, "" for none), in a form that is
  // the same for the same device. "": on the CPU, with the program itself.
  virtual std::string Resolve(const std::string& device) const = 0;
  // `device`: from Resolve, not "". Errors: NotFound, Unimplemented: there is no such device, and
  // which there are; those of Executable::Compile.
  virtual absl::StatusOr<std::unique_ptr<SegmentRunner>> MakeRunner(const std::string& device,
                                                                    Segment segment) = 0;
};

// The kernel of a node "segment" of a program that was cut. Errors: those of MakeRunner.
absl::StatusOr<std::unique_ptr<Kernel>> CreateSegmentKernel(const Node& node,
                                                            const Program& program,
                                                            SegmentDevices* devices);

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_SEGMENT_RUNNER_H_
