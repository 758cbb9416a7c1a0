#ifndef COHORT_COMMON_EXCHANGE_PUSH_AREAS_H_
#define COHORT_COMMON_EXCHANGE_PUSH_AREAS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/rpc/push_pull/shared_memory.h"
#include "common/tensor/buffer.h"

namespace cohort {

// The memory into which the programs of one worker write what they push, and from which the servers
// of its host read it. A server may read an area until it has answered every request that names it.
// If an exchange ends without an answer, the area gets other memory at the same address, with the
// same contents: the program may write there, and the server continues to read what was pushed.
// Belongs to the step thread.
class PushAreas {
 public:
  // Smaller areas lie on the heap: copying from them is cheap.
  static constexpr size_t kLeastBytes = size_t{64} << 10;

  // Returns memory for areas; empty if it is small, or there is none.
  BufferRef Allocate(size_t bytes);

  // The memory that holds these bytes; null if none does.
  const SharedMemory* Find(const uint8_t* data) const;
  // A request that names the memory was sent; a whole answer has come.
  void NoteSent(uint64_t sequence, const SharedMemory* memory);
  void NoteAnswered(uint64_t sequence);
  // The exchange has ended. Renews the memory that unanswered requests name, and returns how much
  // of it there was.
  size_t EndExchange();

 private:
  struct Unanswered {
    uint64_t sequence;
    const SharedMemory* memory;
  };
  void DropUnused();

  std::vector<BufferRef> areas_;
  std::vector<Unanswered> unanswered_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_PUSH_AREAS_H_
