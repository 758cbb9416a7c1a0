#ifndef COHORT_PS_SERVER_PINS_H_
#define COHORT_PS_SERVER_PINS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/tensor/buffer.h"

namespace cohort {

// The blocks of weights that clients read where the server has them. A pinned block is shared, so
// an apply does not write to it (ShardBlocks). A pin belongs to the process of a client and to one
// of its requests. It ends when a later request says that the client has finished reading, or when
// the process ends. The end of a stream does not end it, because the process may still read.
// Thread-safe.
//
//            Pin                      Release, without the sequence in `reading`
//   lent ───────────► pinned ───────────────────────────────────────────────────► free
//                       └─ no stream is left, and the process has ended ──────────►
class Pins {
 public:
  // `most_superseded`: if the versions that are pinned, and that are not the newest ones, take more
  // bytes, nothing more is pinned.
  explicit Pins(size_t most_superseded) : most_superseded_(most_superseded) {}

  // One process of a client. Streams and requests hold it as long as they are there.
  class Client {
   public:
    // Ends the pins of requests before `sequence` that are not in `reading`.
    void Release(uint64_t sequence, std::span<const uint64_t> reading);
    // Pins blocks for the request with this sequence. Returns false if too much is pinned: then the
    // blocks must be copied.
    bool Pin(uint64_t sequence, std::vector<BufferRef> blocks);

   private:
    friend class Pins;
    struct OfRequest {
      uint64_t sequence;
      std::vector<BufferRef> blocks;
    };
    Client(Pins* pins, UniqueFd process) : pins_(pins), process_(std::move(process)) {}
    bool HasEnded() const;

    Pins* const pins_;
    const UniqueFd process_;           // readable when the process has ended
    std::vector<OfRequest> requests_;  // guarded by pins_->mu_
  };

  // The client of this id, whose process is `pid`; null if its end could not be noticed. The caller
  // knows that the pid is right, because it has mapped memory of that process.
  std::shared_ptr<Client> Find(uint64_t client, uint32_t pid);

  // Bytes of pinned versions that are not the newest ones. Ends the pins of processes that have
  // ended.
  size_t superseded_bytes();

 private:
  void DropEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  size_t SupersededBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t most_superseded_;
  Mutex mu_;
  std::map<uint64_t, std::shared_ptr<Client>> clients_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PINS_H_
