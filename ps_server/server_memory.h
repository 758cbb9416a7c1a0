#ifndef COHORT_PS_SERVER_SERVER_MEMORY_H_
#define COHORT_PS_SERVER_SERVER_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cohort {

class UnsentAnswers;

// The ledger of a server's memory: its limit, and what uses it. What the limit leaves besides
// values and slots is the room, of which each term has a part. Thread-safe.
//
//   room = limit - values and slots
//     1/2  requests that are being received or that wait (HeldBytes), and at least a quarter of the
//          limit; a large one may have all of the room while others hold little
//     1/4  answers of pulls that are not sent (UnsentAnswers)
//     1/8  gradients of a synchronous step that came before their turn (DataPath::EarlyBytes)
//     1/8  older values that only a snapshot keeps, at most an eighth of values and slots
class ServerMemory {
 public:
  // However much the values need, the server must be able to take a request and to answer it.
  static constexpr uint64_t kLeastRoom = uint64_t{256} << 20;
  // What gRPC and the allocator take beside what is counted, at most a quarter: they read ahead on
  // each stream, and keep memory for later. Measured with ten workers on slow links: 100 to 150 MB.
  static constexpr uint64_t kUncounted = uint64_t{192} << 20;
  // The room if no limit is known.
  static constexpr uint64_t kUnknownRoom = uint64_t{16} << 30;

  // `limit`: the memory that this process may use. `pool`: what all servers that share it may use
  // together (SharedMemoryPool). 0: unknown.
  explicit ServerMemory(uint64_t limit, uint64_t pool = 0, uint64_t least_room = kLeastRoom);
  ~ServerMemory();

  // The bytes of values and slots that are served now.
  void SetValues(uint64_t bytes) { values_.store(bytes, std::memory_order_relaxed); }
  uint64_t values() const { return values_.load(std::memory_order_relaxed); }
  // The servers that share the pool.
  void SetServers(uint32_t servers) { servers_.store(std::max<uint32_t>(servers, 1)); }
  // What may be counted here.
  uint64_t limit() const;
  uint64_t room() const;

  // A push must be able to come even if values leave little room.
  uint64_t most_held() const { return std::max(room() / 2, limit() / 4); }
  uint64_t most_held_alone() const { return std::max(room(), most_held()); }
  uint64_t most_answers() const { return room() / 4; }
  uint64_t most_early() const { return room() / 8; }
  uint64_t most_superseded() const;

  // Answers may outlive the server, because gRPC sends them.
  const std::shared_ptr<UnsentAnswers>& answers() const { return answers_; }

  // The server is short of memory: pushes are answered later.
  bool short_of_memory() const { return short_.load(std::memory_order_relaxed); }
  // Takes the bytes that requests, early gradients and older values use now. The server is short of
  // memory from 80 % of the room until less than 70 % are used. Returns true if that has changed.
  bool Note(uint64_t held, uint64_t early, uint64_t superseded);
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  const uint64_t pool_;
  const uint64_t least_room_;
  const std::shared_ptr<UnsentAnswers> answers_;
  std::atomic<uint32_t> servers_{1};
  std::atomic<uint64_t> values_{0};
  std::atomic<uint64_t> used_{0};
  std::atomic<bool> short_{false};
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_SERVER_MEMORY_H_
