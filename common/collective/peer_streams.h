#ifndef COHORT_COMMON_COLLECTIVE_PEER_STREAMS_H_
#define COHORT_COMMON_COLLECTIVE_PEER_STREAMS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/collective/accepted_streams.h"
#include "common/collective/collective_options.h"
#include "common/collective/peer_transport.h"
#include "common/collective/shared_cells.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "proto/collective.pb.h"

namespace cohort {

// Between questions whether to stop (CollectiveGroupOptions::should_stop).
inline constexpr Duration kStopPoll = std::chrono::milliseconds(100);

// A frame from another rank.
struct ReceivedFrame {
  int from = 0;
  v1::CollectiveHeader header;
  // A chunk's elements. They lie in the frame or in the sender's segment.
  std::vector<std::span<const uint8_t>> pieces;
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
    // A CHUNK, CREDIT, PROBE or PRESENCE. Give chunks back with Release.
    virtual void OnFrame(std::unique_ptr<ReceivedFrame> frame) = 0;
    // A rank has left the group after it had sent everything.
    virtual void OnLeft(int rank) = 0;
    // A rank is lost. `why` has its FailureInfo, or that of the rank which it blames.
    virtual void OnLost(int rank, const absl::Status& why) = 0;
  };

  // The arguments must outlive the object.
  PeerStreams(const CollectiveGroupOptions& options, PeerService* service, Receiver* receiver,
              CollectiveCounters* counters);
  ~PeerStreams();

  // Connects all ranks. Those that have finished this may send frames already, so the receiver gets
  // events inside. Once. Errors: those of CollectiveGroup::Start.
  absl::Status Connect();

  TimePoint Now() const { return transport_->Now(); }
  // Handles one event. Returns false if the deadline came first.
  bool Poll(TimePoint deadline);

  // A header with group and sender, for one of the calls below. Valid until the next call.
  v1::CollectiveHeader* NewHeader(v1::CollectiveFrameKind kind);
  void Send(int to);
  // Sends the elements with the header to the next rank. They must not change until the loan is
  // idle.
  void SendElements(const uint8_t* elements, uint64_t bytes, PayloadLoan* loan);
  // Copies the elements into a cell for the next rank and sends its position. Returns false if that
  // rank does not read this rank's segment, or no cell is free; then nothing is sent.
  bool SendShared(const uint8_t* elements, uint64_t bytes);

  // True if what was sent gets to the other ranks without another Poll.
  bool sends_without_poll() const {
    return !transport_->WritesInPoll() || SlowestReader().second == 0;
  }
  // The rank for which most bytes are queued, and how many.
  std::pair<int, size_t> SlowestReader() const;

  // Asks the process of a rank whether it is alive (PeerStreamName::asks). A thread that does not
  // compute answers.
  void Ask(int rank);
  // When the newest answer came.
  TimePoint alive_at(int rank) const { return links_[static_cast<size_t>(rank)].alive_at; }

  // Drops a frame, and tells its sender if its cell is free.
  void Release(std::unique_ptr<ReceivedFrame> frame);

  // Ends all streams. The other ranks get `status`, after what is queued; `blamed` (-1: none) gets
  // nothing.
  void Close(const absl::Status& status, int blamed);
  // Ends all streams at once and drops what is queued.
  void Abort();

 private:
  struct Link;
  // Whether the process of a rank is alive.
  struct Question : public StreamHandler {
    void OnFrame(Frame) override {}
    void OnClosed(const absl::Status& status) override;

    Link* link = nullptr;
    std::shared_ptr<Stream> stream;  // null: nothing is asked
    TimePoint again_at{};            // no earlier question
  };
  struct Link : public StreamHandler {
    void OnFrame(Frame frame) override { owner->OnFrame(this, std::move(frame)); }
    void OnClosed(const absl::Status& status) override { owner->OnLinkClosed(this, status); }

    PeerStreams* owner = nullptr;
    int rank = 0;
    std::string address;          // that is dialed
    std::shared_ptr<Stream> in;   // frames from the rank come here; null: not open
    std::shared_ptr<Stream> out;  // opened by the rank; null: not open
    bool hello = false;           // the rank has accepted `in`
    TimePoint alive_at{};
    TimePoint retry_at{};
    Duration retry_delay = std::chrono::milliseconds(10);
    absl::Status last_error;
    std::unique_ptr<SharedSegment> segment;  // the memory of the rank before, mapped here
    bool segment_told = false;               // that rank knows that it is mapped
    bool reads_segment = false;              // the next rank has mapped this rank's segment
    Question question;
  };

  absl::Status AwaitAll();
  // DeadlineExceeded if a rank that is not ready was silent for start_deadline.
  absl::Status CheckSilence() const;
  void ReportWaiting() const;
  PeerStreamName NameFor(int rank) const;
  void Dial(Link* link);
  bool ready(const Link& link) const { return link.hello && link.out != nullptr; }
  void TakeAccepted();
  void Accept(AcceptedStreams::Socket socket);
  void SendHello(Link* link);
  void TellSegment(Link* link);
  void OnFrame(Link* link, Frame frame);
  bool Fits(const Link& link, const v1::CollectiveHeader& header) const;
  void OnHello(Link* link, const v1::CollectiveHeader& header);
  void OnRelease(Link* link, uint64_t begin);
  bool FindElements(Link* link, ReceivedFrame* frame);
  void OnLinkClosed(Link* link, const absl::Status& status);
  Link* link(int rank) { return &links_[static_cast<size_t>(rank)]; }

  const CollectiveGroupOptions& options_;
  PeerService* const service_;
  Receiver* const receiver_;
  CollectiveCounters* const counters_;
  const std::unique_ptr<PeerTransport> transport_;
  std::shared_ptr<AcceptedStreams> accepted_;
  std::unique_ptr<SharedCells> cells_;  // null: the next rank is on another host
  std::vector<Link> links_;             // by rank; the own one is unused
  bool started_ = false;
  absl::Status start_error_;  // a member has left before all were there
  bool closed_ = false;

  v1::CollectiveHeader header_;
  PushPullEncoder encoder_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_PEER_STREAMS_H_
