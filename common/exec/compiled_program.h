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

// Where the memory of a value is. A view (`reshape`) is where its root is.
enum class Place : uint8_t {
  kNowhere,   // nobody needs it
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
// The prologue is what the keys of row reads depend on. Liveness is counted in these positions: a
// pulled value is born at the pull; what is pushed, output or a metric lives to the end. A value
// that dies in an elementwise step may give its memory to that step's output.
struct CompiledProgram {
  Program program;
  std::vector<CompiledStep> prologue;
  std::vector<CompiledStep> main;
  std::vector<ValueId> roots;      // by value: itself, or what it is a view of
  std::vector<ValuePlace> places;  // by value; views have their root's
  std::vector<int> reads;          // nodes, in order: `read` and `read_rows`
  std::vector<PushCopy> push_copies;
  size_t arena_bytes = 0;
  size_t push_area_bytes = 0;  // of one of the two
};

// Errors: InvalidArgument (ValidateProgram), Unimplemented (CreateKernel), naming the node.
absl::StatusOr<CompiledProgram> CompileProgram(Program program, std::string_view device);

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_COMPILED_PROGRAM_H_
