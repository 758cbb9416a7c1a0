#ifndef COHORT_COMMON_PLACEMENT_MESSAGE_SIZE_H_
#define COHORT_COMMON_PLACEMENT_MESSAGE_SIZE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort::v1 {
class Layout;
}

namespace cohort {

struct Program;

// What one worker and one server exchange in one step is cut into messages of about 2 MiB, in both
// directions (`Exchange`, `ForEachChunk`). So only memory limits its size: a server collects a
// whole request before it applies it (`HeldBytes`).
//
// These are never cut: one row that is read or pushed by its key, and the keys of all rows that
// one request reads. A frame holds them beside its header and at most 2 MiB of other payload
// (`TransportOptions::max_frame_bytes`, 256 MiB).
inline constexpr uint64_t kMaxUncutBytes = uint64_t{248} << 20;

// The most that one worker exchanges with one server in one step of a program. Rows count at the
// capacity of their keys, but a shard has no more rows than it holds.
struct MessageSize {
  struct OfVariable {
    std::string name;
    uint64_t row_bytes = 0;  // 0: no rows are read or pushed by their keys
  };

  uint32_t ps = 0;
  uint64_t push_bytes = 0;      // the request: gradients, keys of sparse gradients, keys of reads
  uint64_t pull_bytes = 0;      // the answer: values
  uint64_t read_key_bytes = 0;  // the part of push_bytes that names the rows to read
  std::vector<OfVariable> variables;  // that have a shard on this server
};

// One entry for each server that has a tablet, by number. `layout` is one that MakeLayout made;
// variables of the program that the layout does not have count as nothing.
std::vector<MessageSize> MessageSizes(const v1::Layout& layout, const Program& program);

// Refuses programs with a part that is never cut and is too large. Errors: InvalidArgument that
// names the server, the program, the variable, the size, the limit, and what to do.
absl::Status CheckMessageSizes(const v1::Layout& layout, std::span<const Program> programs);

// One line for each server: the most that a step of any of the programs pushes and pulls. Ends with
// a newline.
std::string MessageSizeText(const v1::Layout& layout, std::span<const Program> programs);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_MESSAGE_SIZE_H_
