#ifndef COHORT_COMMON_COLLECTIVE_COLLECTIVE_GROUP_H_
#define COHORT_COMMON_COLLECTIVE_COLLECTIVE_GROUP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/collective/collective_options.h"
#include "common/collective/peer_service.h"
#include "common/collective/peer_streams.h"
#include "common/collective/reduce_scatter.h"

namespace cohort {

// A group of ranks in several processes, which form a ring and sum buffers (ReduceScatter). Every
// rank has a stream to every other one (the protocol is in proto/collective.proto): elements travel
// to the next rank only, and all ranks can ask each other whether they take part. Between processes
// of one host elements lie in shared memory, and only control frames take the unix socket.
//
// Begin returns at once, so several buckets may be in flight. Operations make progress inside
// Begin, Poll and Wait; one thread at a time may call them. That thread polls the streams itself,
// so a chunk that arrives is summed on the thread that waits for it. All ranks begin the same
// operations in the same order. They may wait in any order.
//
//   COHORT_RETURN_IF_ERROR(group->Begin({.name = {step, step_try, bucket},
//                                        .buffer = std::span(gradients),
//                                        .part_ends = ends}));
//   ...                                           // the backward pass continues
//   COHORT_RETURN_IF_ERROR(group->Wait({step, step_try, bucket}));
//
// Sums are read straight from the received slices. Chunks are sent as references to the caller's
// buffers, and Wait returns when nobody reads them any more. The rank before may have at most
// early_bytes or window_bytes of an operation under way to this one.
//
// A rank reads what others offer and writes only its own memory: its buffers, and its shared
// segment. So a process that was stopped and wakes cannot write into a new group. Its streams are
// closed, its frames carry an old epoch, and nobody maps its old segment.
//
// A new epoch: destroy the group, and start another one with a greater GroupId. Start returns when
// every member has accepted the streams of all others. A member accepts them only after it has
// closed its old group, so all members have closed their old streams when Start returns.
class CollectiveGroup final : private PeerStreams::Receiver {
 public:
  // Connects all ranks. `service` must serve this process's address. Errors: InvalidArgument,
  // FailedPrecondition (an old epoch; plaintext beyond loopback), DeadlineExceeded with the
  // FailureInfo of the first missing rank (the message names all), Unavailable if a rank has left
  // again.
  static absl::StatusOr<std::unique_ptr<CollectiveGroup>> Start(
      const CollectiveGroupOptions& options, PeerService* service);
  // Gives up what is in flight and leaves the group: sends what is queued, closes all streams, and
  // returns when they have ended.
  ~CollectiveGroup() override;

  int rank() const { return options_.rank; }
  int ranks() const { return options_.count(); }

  // Begins an operation. Errors: InvalidArgument (the call contradicts itself), AlreadyExists (the
  // name is in flight), FailedPrecondition (it has ended), or the error with which the group has
  // failed.
  absl::Status Begin(const ReduceScatterCall& call);
  // Waits for the end of an operation, as long as the other replicas are alive: one that computes
  // for long before it begins the operation is no failure. Its buffer belongs to the caller again,
  // whatever the result. Once for each operation. Errors: DeadlineExceeded if another replica is
  // silent, Unavailable if it is lost. Both have a FailureInfo with role, index and incarnation of
  // the missing replica. The group has then failed: every operation ends with this error, and a new
  // group needs a new epoch.
  absl::Status Wait(const OperationName& name);
  // Makes progress without waiting.
  void Poll();

  const CollectiveCounters& counters() const { return counters_; }

 private:
  // What the other ranks have answered to the newest probe.
  enum class Presence : uint8_t { kSilent, kNotStarted, kStarted };
  // How long the waiting thread has seen no progress.
  struct Watch {
    TimePoint base;         // when the newest progress was seen
    TimePoint last;         // when the thread looked last
    uint64_t progress;      // counters_.bytes_received at `base`
    TimePoint probed{};     // when the other ranks were asked; never: the default
    bool reported = false;  // that another rank is slow
  };

  explicit CollectiveGroup(const CollectiveGroupOptions& options, PeerService* service);

  // PeerStreams::Receiver
  void OnFrame(std::unique_ptr<ReceivedFrame> frame) override;
  void OnLeft(int rank) override;
  void OnLost(int rank, const absl::Status& why) override { Fail(why, rank); }

  absl::Status CheckBegin(const ReduceScatterCall& call) const;
  ReduceScatter* Find(const OperationName& name) const;
  bool IsOver(const OperationName& name) const;
  void OnProbe(int from, const OperationName& name);
  void UseOrDrop(ReduceScatter* operation, std::unique_ptr<ReceivedFrame> frame);
  void KeepEarly(std::unique_ptr<ReceivedFrame> frame);
  void UseEarly(ReduceScatter* operation);
  void Drop(std::unique_ptr<ReceivedFrame> frame);
  void Finish(const ReduceScatter& operation);

  void Look(const ReduceScatter& operation, Watch* watch);
  void Probe(const OperationName& name);
  // The rank that does not take part any more; -1: all are alive, and some are busy.
  std::pair<int, const char*> FindMissing(const ReduceScatter& operation, TimePoint probed) const;
  void ReportSlow(const ReduceScatter& operation) const;
  bool IsAlive(int rank, TimePoint probed) const;
  void FailIfStopped(const OperationName& name);
  void Fail(const absl::Status& status, int blamed);
  void AwaitRelease(const ReduceScatter& operation);
  const CollectiveRank& of(int rank) const { return options_.ranks[static_cast<size_t>(rank)]; }

  const CollectiveGroupOptions options_;
  CollectiveCounters counters_;
  PeerStreams streams_;

  absl::Status failed_;                                  // why; OK: the group works
  std::vector<bool> left_;                               // by rank
  std::vector<std::unique_ptr<ReduceScatter>> running_;  // in the order of their begin
  std::vector<std::unique_ptr<ReduceScatter>> lent_;     // ended too early (test_faults)
  std::vector<std::unique_ptr<ReceivedFrame>> early_;
  std::vector<uint64_t> early_bytes_;  // by rank
  std::deque<OperationName> over_;     // the newest that have ended well
  OperationName probed_;
  std::vector<Presence> presence_;  // by rank
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_COLLECTIVE_GROUP_H_
