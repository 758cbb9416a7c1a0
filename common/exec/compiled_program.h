#ifndef COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_
#define COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "common/graph/program.h"
#include "common/kernels/kernel.h"

namespace cohort {

// The location of the memory of a value. A view (`reshape`) has the location of its root.
enum class Place : uint8_t {
  kNowhere,   // not needed
  kArena,     // at `offset` of the arena
  kDoubled,   // pushed: at `offset` of the two push areas, in turn
  kArgument,  // the tensor bound to argument `index`
  kConstant,  // the tensor of node `index`
};

struct ValuePlace {
  Place place = Place::kNowhere;
  size_t offset = 0;
  int index = 0;
};

// A node that runs a kernel.
struct CompiledStep {
  int node = 0;
  std::unique_ptr<Kernel> kernel;
  size_t scratch_offset = 0;  // in the arena
};

// A pushed value that is an argument of the program: copied, so that it outlives the next Bind.
struct PushCopy {
  ValueId value = kNoValue;
  size_t offset = 0;  // in the push area
};

// A program with its kernels chosen and its memory planned.
//
//   prologue steps | pull | main steps
//
// The prologue computes the keys of row reads. Liveness is counted in these positions: a pulled
// value lives from the pull; a pushed value, an output and a metric live to the end. A value that
// dies in an elementwise step may give its memory to the output of that step.
struct CompiledProgram {
  Program program;
  std::vector<CompiledStep> prologue;
  std::vector<CompiledStep> main;
  std::vector<ValueId> roots;      // by value: itself, or the value of which it is a view
  std::vector<ValuePlace> places;  // by value; a view has the place of its root
  std::vector<int> reads;          // nodes, in order: `read` and `read_rows`
  std::vector<PushCopy> push_copies;
  size_t arena_bytes = 0;
  size_t push_area_bytes = 0;  // for one of the two areas
};

// Errors: InvalidArgument (ValidateProgram), Unimplemented (CreateKernel), naming the node.
absl::StatusOr<CompiledProgram> CompileProgram(Program program, std::string_view device);

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_
