#include "common/collective/peer_streams.h"

#include <google/protobuf/io/coded_stream.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/socket_stream.h"

namespace cohort {
namespace {

constexpr Duration kLongestRetryDelay = std::chrono::milliseconds(200);
// How long the end of the group waits until other ranks have taken what is queued.
constexpr Duration kCloseGrace = std::chrono::seconds(2);
constexpr Duration kAbortGrace = std::chrono::seconds(30);
// Slots of 512 KB: 8 MB for each reader.
constexpr int kSlotsPerReader = 16;
constexpr size_t kIdleCopies = size_t{8} << 20;
// CollectiveFrame's fields 1 and 2, length-delimited.
constexpr uint32_t kHeaderTag = 0x0a;
constexpr uint32_t kPayloadTag = 0x12;

// The address of a rank's unix socket if both are on one host and the socket exists, else its TCP
// address.
std::string ChooseAddress(const CollectiveRank& rank, const CollectiveRank& own,
                          bool shared_memory) {
  const bool same_host = !own.host_id.empty() && rank.host_id == own.host_id;
  if (!shared_memory || !same_host || rank.unix_socket.empty() ||
      access(rank.unix_socket.c_str(), R_OK | W_OK) != 0) {
    return rank.address;
  }
  return "unix:" + rank.unix_socket;
}

// Reads the header of a frame whose begin is known. Returns where its payload begins; 0: it does not end
// with one.
size_t FindPayload(std::span<const uint8_t> begin, size_t frame_bytes,
                   v1::CollectiveHeader* header) {
  google::protobuf::io::CodedInputStream in(begin.data(), static_cast<int>(begin.size()));
  uint32_t header_bytes = 0;
  uint32_t payload_bytes = 0;
  if (in.ReadTag() != kHeaderTag || !in.ReadVarint32(&header_bytes)) return 0;
  const auto limit = in.PushLimit(static_cast<int>(header_bytes));
  if (!header->ParseFromCodedStream(&in) || !in.ConsumedEntireMessage()) return 0;
  in.PopLimit(limit);
  if (in.ReadTag() != kPayloadTag || !in.ReadVarint32(&payload_bytes)) return 0;
  const size_t at = static_cast<size_t>(in.CurrentPosition());
  return at + payload_bytes == frame_bytes ? at : 0;
}

}  // namespace

absl::Status WithRank(absl::Status status, const CollectiveRank& rank) {
  SetFailure(
      &status,
      {.role = rank.role, .index = rank.index, .incarnation = rank.incarnation, .retryable = true});
  return status;
}

PeerStreams::PeerStreams(const CollectiveGroupOptions& options, PeerService* service,
                         Receiver* receiver)
    : options_(options),
      service_(service),
      receiver_(receiver),
      transport_(options.transport ? options.transport()
                                   : MakePeerTransport(options.security, options.own_core)),
      links_(options.ranks.size()),
      copies_(BufferPool::Create(kIdleCopies)) {}

absl::Status PeerStreams::Connect(uint64_t chunk_bytes) {
  std::vector<uint64_t> incarnations;
  std::vector<int> workers;
  for (const CollectiveRank& rank : options_.ranks) {
    incarnations.push_back(rank.incarnation);
    workers.push_back(rank.index);
  }
  auto accepted =
      std::make_shared<AcceptedStreams>(std::move(incarnations), std::move(workers), options_.rank,
                                        [t = transport_.get()] { t->Wake(); });
  COHORT_RETURN_IF_ERROR(service_->Open(options_.group, accepted));
  accepted_ = std::move(accepted);
  const CollectiveRank& own = options_.ranks[static_cast<size_t>(options_.rank)];
  bool shares = false;
  for (Link& link : links_) {
    link.owner = this;
    link.rank = static_cast<int>(&link - links_.data());
    if (link.rank == options_.rank) continue;
    link.address =
        ChooseAddress(options_.ranks[static_cast<size_t>(link.rank)], own, options_.shared_memory);
    shares |= link.address.starts_with("unix:");
    const int worker = options_.ranks[static_cast<size_t>(link.rank)].index;
    COHORT_RETURN_IF_ERROR(transport_->Prepare(link.rank, worker, link.address));
  }
  if (shares) {
    auto slots = SharedSlots::Create(chunk_bytes, kSlotsPerReader, static_cast<int>(links_.size()));
    // Without shared memory chunks travel over the socket.
    if (slots.ok()) {
      slots_ = *std::move(slots);
    } else if (options_.log != nullptr) {
      options_.log->Failure(LogLevel::kWarning, "collective_without_shared_memory", slots.status());
    }
  }
  return AwaitAll();
}

absl::Status PeerStreams::AwaitAll() {
  TimePoint deadline = Now() + options_.start_deadline;
  const Duration slice = options_.start_deadline / 8;
  TimePoint last = Now();
  while (true) {
    const TimePoint now = Now();
    // This process was stopped: it has not asked the others meanwhile.
    if (now - last > 2 * slice) deadline = std::max(deadline, now + 2 * slice);
    last = now;
    bool all = true;
    TimePoint next = std::min(deadline, now + slice);
    for (Link& link : links_) {
      if (link.rank == options_.rank) continue;
      all &= ready(link);
      if (link.in != nullptr) continue;
      if (link.retry_at <= Now()) {
        Dial(&link);
      } else {
        next = std::min(next, link.retry_at);
      }
    }
    if (all) break;
    COHORT_RETURN_IF_ERROR(start_error_);
    if (Now() >= deadline) return MissingRanks();
    if (options_.should_stop && options_.should_stop()) {
      return Cancelled("the start of the collective group was stopped on rank {}", options_.rank);
    }
    Poll(options_.should_stop ? std::min(next, Now() + kStopPoll) : next);
  }
  started_ = true;
  return absl::OkStatus();
}

absl::Status PeerStreams::MissingRanks() const {
  std::string names;
  const CollectiveRank* first = nullptr;
  for (const Link& link : links_) {
    if (link.rank == options_.rank || ready(link)) continue;
    const CollectiveRank& rank = options_.ranks[static_cast<size_t>(link.rank)];
    if (first == nullptr) first = &rank;
    names += fmt::format("{}rank {}, {}", names.empty() ? "" : "; ", link.rank, rank.ToString());
    if (!link.last_error.ok()) names += fmt::format(": {}", std::string(link.last_error.message()));
  }
  return WithRank(
      DeadlineExceeded("the collective group of epoch {} is incomplete after {:.1f} s: {}",
                       options_.group.epoch, ToSeconds(options_.start_deadline), names),
      *first);
}

void PeerStreams::Dial(Link* link) {
  PeerStreamName name;
  name.group = options_.group;
  name.rank = options_.rank;
  name.incarnation = options_.ranks[static_cast<size_t>(options_.rank)].incarnation;
  name.target = options_.ranks[static_cast<size_t>(link->rank)].incarnation;
  link->in = transport_->Dial(link->rank, name, link);
}

bool PeerStreams::Poll(TimePoint deadline) {
  const bool any = transport_->Poll(deadline);
  if (accepted_->TakeChange()) TakeAccepted();
  return any;
}

void PeerStreams::TakeAccepted() {
  for (AcceptedStreams::Socket& socket : accepted_->TakeSockets()) Accept(std::move(socket));
  for (Link& link : links_) {
    if (link.rank == options_.rank) continue;
    std::shared_ptr<Stream> out = accepted_->stream(link.rank);
    if (out == link.out) continue;
    link.out = std::move(out);
    link.segment_told = false;
    link.reads_segment = false;
    if (link.out == nullptr) continue;
    SendHello(&link);
    TellSegment(&link);
  }
}

void PeerStreams::Accept(AcceptedStreams::Socket socket) {
  const std::shared_ptr<SocketStream> stream = transport_->Accept(std::move(socket.connection));
  if (stream == nullptr) return;
  std::unique_ptr<StreamHandler> handler = accepted_->Accept(socket.name, stream);
  if (handler != nullptr) return stream->Serve(std::move(handler));
  service_->CountRefused();
  stream->Close(Unavailable("the stream is for another incarnation of this task"));
}

v1::CollectiveHeader* PeerStreams::NewHeader(v1::CollectiveFrameKind kind) {
  header_.Clear();
  header_.set_kind(kind);
  header_.set_generation(options_.group.generation);
  header_.set_timeline(options_.group.timeline);
  header_.set_epoch(options_.group.epoch);
  header_.set_rank(static_cast<uint32_t>(options_.rank));
  header_.set_incarnation(options_.ranks[static_cast<size_t>(options_.rank)].incarnation);
  return &header_;
}

void PeerStreams::Send(int to) {
  if (const auto& out = link(to)->out; out != nullptr) out->Send(encoder_.Finish(header_));
}

void PeerStreams::SendElements(int to, const uint8_t* elements, uint64_t bytes, PayloadLoan* loan) {
  encoder_.BeginPayload();
  if (loan != nullptr || bytes < PushPullEncoder::kInlineBytes) {
    encoder_.AppendBorrowed(elements, bytes, loan);  // short ones are copied
  } else {
    BufferRef copy = copies_->Allocate(bytes);
    std::memcpy(copy->data(), elements, bytes);
    encoder_.Append(std::move(copy), 0, bytes);
  }
  counters_.bytes_sent += bytes;
  Send(to);
  encoder_.Clear();
}

bool PeerStreams::SendShared(int to, const uint8_t* elements, uint64_t bytes, uint64_t ticket) {
  const uint64_t begin = slots_->Take(to, ticket);
  if (begin == 0) return false;
  std::memcpy(slots_->At(begin), elements, bytes);
  header_.set_shared_begin(begin);
  counters_.bytes_sent += bytes;
  counters_.bytes_shared += bytes;
  Send(to);
  return true;
}

std::pair<int, size_t> PeerStreams::SlowestReader() const {
  std::pair<int, size_t> slowest = {options_.rank, 0};
  for (const Link& link : links_) {
    const size_t bytes = link.out == nullptr ? 0 : link.out->queued_bytes();
    if (bytes > slowest.second) slowest = {link.rank, bytes};
  }
  return slowest;
}

void PeerStreams::SendHello(Link* link) {
  v1::CollectiveHeader* hello = NewHeader(v1::HELLO);
  if (slots_ != nullptr && link->address.starts_with("unix:")) {
    hello->set_segment_id(slots_->segment().id());
    hello->set_segment_pid(static_cast<uint32_t>(getpid()));
    hello->set_segment_fd(static_cast<uint32_t>(slots_->segment().fd()));
    hello->set_segment_bytes(slots_->segment().size());
  }
  Send(link->rank);
}

// Tells the rank that its segment is mapped here.
void PeerStreams::TellSegment(Link* link) {
  if (link->segment == nullptr || link->out == nullptr || link->segment_told) return;
  NewHeader(v1::RELEASE);
  Send(link->rank);
  link->segment_told = true;
}

bool PeerStreams::Fits(const Link& link, const v1::CollectiveHeader& header) const {
  const GroupId group{header.generation(), header.timeline(), header.epoch()};
  return (group == options_.group || options_.test_faults.takes_any_epoch) &&
         header.rank() == static_cast<uint32_t>(link.rank) &&
         header.incarnation() == options_.ranks[static_cast<size_t>(link.rank)].incarnation;
}

FramePlace PeerStreams::PlaceOf(const Link& link, std::span<const uint8_t> begin,
                                size_t frame_bytes) {
  const size_t offset = FindPayload(begin, frame_bytes, &arriving_);
  if (offset == 0 || closed_ || arriving_.kind() != v1::CHUNK || arriving_.shared_begin() != 0 ||
      !Fits(link, arriving_)) {
    return {};
  }
  return {offset, receiver_->PlaceOf(link.rank, arriving_, frame_bytes - offset)};
}

void PeerStreams::DropPlaces() {
  for (Link& link : links_) {
    if (link.in != nullptr) link.in->DropPlace();
  }
}

void PeerStreams::OnFrame(Link* link, Frame frame) {
  std::unique_ptr<ReceivedFrame> received;
  if (idle_frames_.empty()) {
    received = std::make_unique<ReceivedFrame>();
    ++counters_.frames_allocated;
  } else {
    received = std::move(idle_frames_.back());
    idle_frames_.pop_back();
  }
  v1::CollectiveHeader& header = received->header;
  received->from = link->rank;
  const bool fits = received->decoder.Decode(std::move(frame), &header).ok() && Fits(*link, header);
  const bool usable = fits && (header.kind() != v1::CHUNK || FindElements(link, received.get()));
  if (!usable || closed_) {
    ++counters_.frames_dropped;
    if (!fits) header.Clear();  // no slot of this group is given back
    return Recycle(std::move(received));
  }
  switch (header.kind()) {
    case v1::HELLO:
      OnHello(link, header);
      return Recycle(std::move(received));
    case v1::RELEASE:
      if (header.shared_begin() == 0) {
        link->reads_segment = slots_ != nullptr;
      } else if (const uint64_t ticket =
                     slots_ == nullptr ? 0 : slots_->Release(link->rank, header.shared_begin());
                 ticket != 0) {
        receiver_->OnSlotFree(link->rank, ticket);
      } else {
        ++counters_.frames_dropped;
      }
      return Recycle(std::move(received));
    default:
      receiver_->OnFrame(std::move(received));
  }
}

void PeerStreams::OnHello(Link* link, const v1::CollectiveHeader& header) {
  link->hello = true;
  if (header.segment_bytes() == 0 || link->segment != nullptr) return;
  auto segment = SharedSegment::Open(header.segment_pid(), header.segment_fd(), header.segment_id(),
                                     header.segment_bytes());
  // Another user or PID namespace: the socket carries the elements.
  if (!segment.ok()) {
    if (options_.log != nullptr) {
      options_.log->Failure(LogLevel::kInfo, "collective_memory_not_shared", segment.status());
    }
    return;
  }
  link->segment = *std::move(segment);
  TellSegment(link);
}

// Finds the elements of a chunk. Returns false if it contradicts itself.
bool PeerStreams::FindElements(Link* link, ReceivedFrame* frame) {
  const v1::CollectiveHeader& header = frame->header;
  if (header.phase() != v1::SCATTER && header.phase() != v1::GATHER) return false;
  if (header.count() > UINT64_MAX / 8 - header.begin()) return false;
  frame->what.phase = header.phase() == v1::SCATTER ? ChunkPhase::kScatter : ChunkPhase::kGather;
  frame->what.place = header.place();
  frame->what.range = {header.begin(), header.begin() + header.count()};
  if (header.shared_begin() != 0) {
    // The bytes of a slot; the operation knows the size of an element.
    const uint64_t most = header.count() * 8;
    if (link->segment == nullptr || frame->decoder.payload_count() != 0 ||
        header.shared_begin() >= link->segment->size()) {
      return false;
    }
    const uint64_t rest = link->segment->size() - header.shared_begin();
    const uint64_t length = std::min(most, rest);
    if (!link->segment->Contains(header.shared_begin(), length)) return false;
    frame->pieces.push_back(link->segment->At(header.shared_begin(), length));
    return true;
  }
  if (frame->decoder.payload_count() != 1) return false;
  frame->decoder.payload(0).ForEachSpan(
      [&](PieceFolder::Bytes piece) { frame->pieces.push_back(piece); });
  return true;
}

void PeerStreams::Recycle(std::unique_ptr<ReceivedFrame> frame) {
  frame->pieces.clear();
  frame->decoder.Clear();
  if (frame->header.kind() == v1::CHUNK && frame->header.shared_begin() != 0) {
    const uint64_t begin = frame->header.shared_begin();
    NewHeader(v1::RELEASE)->set_shared_begin(begin);
    Send(frame->from);
  }
  idle_frames_.push_back(std::move(frame));
}

void PeerStreams::OnLinkClosed(Link* link, const absl::Status& status) {
  const bool was_member = std::exchange(link->hello, false);
  link->in = nullptr;
  if (closed_) return;
  const CollectiveRank& rank = options_.ranks[static_cast<size_t>(link->rank)];
  const bool blames = GetFailure(status).has_value();
  if (!started_) {
    link->last_error = status;
    link->retry_at = Now() + link->retry_delay;
    link->retry_delay = std::min(2 * link->retry_delay, kLongestRetryDelay);
    // A member that has left does not come back. One whose connection was lost may.
    if (!was_member || !start_error_.ok()) return;
    if (blames) start_error_ = status;
    if (status.ok()) {
      start_error_ = WithRank(
          Unavailable("rank {}, {}, has left the group", link->rank, rank.ToString()), rank);
    }
    return;
  }
  if (status.ok()) return receiver_->OnLeft(link->rank);
  if (blames) return receiver_->OnLost(link->rank, status);
  receiver_->OnLost(link->rank,
                    WithRank(Unavailable("rank {}, {}, was lost: {}", link->rank, rank.ToString(),
                                         std::string(status.message())),
                             rank));
}

void PeerStreams::Close(const absl::Status& status, int blamed) {
  if (std::exchange(closed_, true)) return;
  for (Link& link : links_) {
    if (link.out != nullptr) {
      link.rank == blamed ? link.out->Abort() : link.out->Close(status);
    }
    if (link.in != nullptr) status.ok() ? link.in->Close(status) : link.in->Abort();
  }
}

void PeerStreams::Abort() {
  closed_ = true;
  for (Link& link : links_) {
    if (link.out != nullptr) link.out->Abort();
    if (link.in != nullptr) link.in->Abort();
  }
}

PeerStreams::~PeerStreams() {
  if (accepted_ == nullptr) return;
  service_->Close();
  Close(started_ ? absl::OkStatus() : Unavailable("the group was not completed"), -1);
  const auto ended = [&] {
    return accepted_->empty() && std::all_of(links_.begin(), links_.end(),
                                             [](const Link& link) { return link.in == nullptr; });
  };
  const TimePoint deadline = Now() + kCloseGrace;
  while (!ended() && Now() < deadline) Poll(deadline);
  Abort();
  for (Link& link : links_) link.out = nullptr;
  accepted_->Detach();
  transport_->Shutdown();
  if (!accepted_->AwaitEmpty(Now() + kAbortGrace) && options_.log != nullptr) {
    options_.log->Error("collective_streams_not_ended", {{"epoch", options_.group.epoch}});
  }
}

}  // namespace cohort
