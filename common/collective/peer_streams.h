#ifndef COHORT_COMMON_COLLECTIVE_PEER_STREAMS_H_
#define COHORT_COMMON_COLLECTIVE_PEER_STREAMS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/collective/accepted_streams.h"
#include "common/collective/algorithm.h"
#include "common/collective/collective_group.h"
#include "common/collective/peer_transport.h"
#include "common/collective/shared_slots.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "proto/collective.pb.h"

namespace cohort {

// Between questions whether to stop (CollectiveGroupOptions::should_stop).
inline constexpr Duration kStopPoll = std::chrono::milliseconds(100);

// A frame from another rank. A chunk's pieces lie in the frame or in the sender's segment.
struct ReceivedFrame final : Chunk {
  v1::CollectiveHeader header;
  PushPullDecoder decoder{nullptr, /*small=*/true};
};

// The status that names a missing rank.
absl::Status WithRank(absl::Status status, const CollectiveRank& rank);

// The streams between one rank and all others. It stamps frames with group and sender, drops those
// that do not fit, and knows who is connected. It belongs to the thread of the group.
class PeerStreams {
 public:
  // What happens on the streams, inside Poll.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // A CHUNK with `bytes` bytes of elements is arriving. Returns where they belong, or null.
    // They may be written until the chunk is there or DropPlaces is called.
    virtual uint8_t* PlaceOf(int from, const v1::CollectiveHeader& header, uint64_t bytes) = 0;
    // A CHUNK, CREDIT, PROBE or PRESENCE. Give chunks back with Recycle.
    virtual void OnFrame(std::unique_ptr<ReceivedFrame> frame) = 0;
    // A rank has read a chunk in shared memory, which the operation with this ticket had sent.
    virtual void OnSlotFree(int rank, uint64_t ticket) = 0;
    // A rank has left the group after it had sent everything.
    virtual void OnLeft(int rank) = 0;
    // A rank is lost. `why` has its FailureInfo, or that of the rank which it blames.
    virtual void OnLost(int rank, const absl::Status& why) = 0;
  };

  struct Counters {
    uint64_t frames_dropped = 0;
    uint64_t bytes_sent = 0;
    uint64_t bytes_shared = 0;
    uint64_t frames_allocated = 0;
  };

  // The arguments must outlive the object.
  PeerStreams(const CollectiveGroupOptions& options, PeerService* service, Receiver* receiver);
  ~PeerStreams();

  // Connects all ranks. Those that have finished this may send frames already, so the receiver gets
  // events inside. Once. Errors: those of CollectiveGroup::Start.
  absl::Status Connect(uint64_t chunk_bytes);

  TimePoint Now() const { return transport_->Now(); }
  // Handles one event. Returns false if the deadline came first.
  bool Poll(TimePoint deadline);

  // A header with group and sender, for one of the calls below. Valid until the next call.
  v1::CollectiveHeader* NewHeader(v1::CollectiveFrameKind kind);
  void Send(int to);
  // Sends the elements with the header. `loan`: they are not copied, and must not change until it is
  // idle. Null: they are copied.
  void SendElements(int to, const uint8_t* elements, uint64_t bytes, PayloadLoan* loan);
  // Copies the elements into a slot for `to` and sends its position. Returns false if no slot is
  // free; then nothing is sent. `ticket`: of the operation.
  bool SendShared(int to, const uint8_t* elements, uint64_t bytes, uint64_t ticket);
  // True if the other rank has mapped this rank's segment.
  bool SharesMemoryWith(int rank) const { return links_[static_cast<size_t>(rank)].reads_segment; }
  size_t free_slots(int to) const { return slots_->free_slots(to); }

  // True if what was sent gets to the other ranks without another Poll.
  bool sends_without_poll() const {
    return !transport_->WritesInPoll() || SlowestReader().second == 0;
  }
  // The rank for which most bytes are queued, and how many.
  std::pair<int, size_t> SlowestReader() const;

  // Writes no more to what PlaceOf has returned.
  void DropPlaces();

  // Takes a frame back, and tells its sender if its slot is free.
  void Recycle(std::unique_ptr<ReceivedFrame> frame);

  // Ends all streams. The other ranks get `status`, after what is queued; `blamed` (-1: none) gets
  // nothing.
  void Close(const absl::Status& status, int blamed);
  // Ends all streams at once and drops what is queued.
  void Abort();

  const Counters& counters() const { return counters_; }

 private:
  struct Link : public StreamHandler {
    FramePlace PlaceOf(std::span<const uint8_t> begin, size_t frame_bytes) override {
      return owner->PlaceOf(*this, begin, frame_bytes);
    }
    void OnFrame(Frame frame) override { owner->OnFrame(this, std::move(frame)); }
    void OnClosed(const absl::Status& status) override { owner->OnLinkClosed(this, status); }

    PeerStreams* owner = nullptr;
    int rank = 0;
    std::string address;          // that is dialed
    std::shared_ptr<Stream> in;   // frames from the rank come here; null: not open
    std::shared_ptr<Stream> out;  // opened by the rank; null: not open
    bool hello = false;           // the rank has accepted `in`
    TimePoint retry_at{};
    Duration retry_delay = std::chrono::milliseconds(10);
    absl::Status last_error;
    std::unique_ptr<SharedSegment> segment;  // the rank's segment, mapped here
    bool segment_told = false;               // the rank knows that it is mapped
    bool reads_segment = false;              // the rank has mapped this rank's segment
  };

  absl::Status AwaitAll();
  absl::Status MissingRanks() const;
  void Dial(Link* link);
  bool ready(const Link& link) const { return link.hello && link.out != nullptr; }
  void TakeAccepted();
  void Accept(AcceptedStreams::Socket socket);
  void SendHello(Link* link);
  void TellSegment(Link* link);
  FramePlace PlaceOf(const Link& link, std::span<const uint8_t> begin, size_t frame_bytes);
  void OnFrame(Link* link, Frame frame);
  bool Fits(const Link& link, const v1::CollectiveHeader& header) const;
  void OnHello(Link* link, const v1::CollectiveHeader& header);
  bool FindElements(Link* link, ReceivedFrame* frame);
  void OnLinkClosed(Link* link, const absl::Status& status);
  Link* link(int rank) { return &links_[static_cast<size_t>(rank)]; }

  const CollectiveGroupOptions& options_;
  PeerService* const service_;
  Receiver* const receiver_;
  const std::unique_ptr<PeerTransport> transport_;
  std::shared_ptr<AcceptedStreams> accepted_;
  std::unique_ptr<SharedSlots> slots_;  // null: no other rank is on this host
  std::vector<Link> links_;             // by rank; the own one is unused
  bool started_ = false;
  absl::Status start_error_;  // a member has left before all were there
  bool closed_ = false;

  v1::CollectiveHeader header_;
  v1::CollectiveHeader arriving_;
  PushPullEncoder encoder_;
  BufferPool::Handle copies_;
  std::vector<std::unique_ptr<ReceivedFrame>> idle_frames_;
  Counters counters_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_PEER_STREAMS_H_
