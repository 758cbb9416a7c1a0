#include "common/collective/peer_streams.h"

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
// Cells of 512 KB: 8 MB.
constexpr int kCells = 16;
// More elements than any buffer has.
constexpr uint64_t kMostElements = uint64_t{1} << 60;

// The address of a rank's unix socket if both are on one host and the socket exists, else its TCP
// address.
std::string ChooseAddress(const CollectiveRank& rank, const CollectiveRank& own) {
  const bool same_host = !own.host_id.empty() && rank.host_id == own.host_id;
  if (!same_host || rank.unix_socket.empty() ||
      access(rank.unix_socket.c_str(), R_OK | W_OK) != 0) {
    return rank.address;
  }
  return "unix:" + rank.unix_socket;
}

}  // namespace

absl::Status WithRank(absl::Status status, const CollectiveRank& rank) {
  SetFailure(
      &status,
      {.role = "worker", .index = rank.index, .incarnation = rank.incarnation, .retryable = true});
  return status;
}

PeerStreams::PeerStreams(const CollectiveGroupOptions& options, PeerService* service,
                         Receiver* receiver, CollectiveCounters* counters)
    : options_(options),
      service_(service),
      receiver_(receiver),
      counters_(counters),
      transport_(options.transport ? options.transport() : MakePeerTransport(options.security)),
      links_(options.ranks.size()) {}

absl::Status PeerStreams::Connect() {
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
  for (Link& link : links_) {
    link.owner = this;
    link.rank = static_cast<int>(&link - links_.data());
    if (link.rank == options_.rank) continue;
    const CollectiveRank& rank = options_.ranks[static_cast<size_t>(link.rank)];
    link.address = ChooseAddress(rank, options_.own());
    COHORT_RETURN_IF_ERROR(transport_->Prepare(link.rank, rank.index, link.address));
  }
  if (link(options_.right())->address.starts_with("unix:")) {
    auto cells = SharedCells::Create(options_.chunk_bytes, kCells);
    // Without shared memory chunks travel over the socket.
    if (cells.ok()) {
      cells_ = *std::move(cells);
    } else if (options_.log != nullptr) {
      options_.log->Failure(LogLevel::kWarning, "collective_without_shared_memory", cells.status());
    }
  }
  return AwaitAll();
}

// Waits as long as the ranks that are not there answer questions: they may compute for long before
// they enter the group.
absl::Status PeerStreams::AwaitAll() {
  const Duration slice = options_.start_deadline / 8;
  const TimePoint begin = Now();
  TimePoint last = begin;
  bool reported = false;
  for (Link& link : links_) link.alive_at = begin;
  while (true) {
    const TimePoint now = Now();
    const bool paused = now - last > 2 * slice;
    last = now;
    bool all = true;
    TimePoint next = now + slice;
    for (Link& link : links_) {
      if (link.rank == options_.rank) continue;
      all &= ready(link);
      // This process was stopped: it has not asked the others meanwhile.
      if (paused)
        link.alive_at = std::max(link.alive_at, now + 2 * slice - options_.start_deadline);
      if (!ready(link) && now - link.alive_at > options_.start_deadline / 2) Ask(link.rank);
      if (link.in != nullptr) continue;
      if (link.retry_at <= Now()) {
        Dial(&link);
      } else {
        next = std::min(next, link.retry_at);
      }
    }
    if (all) break;
    COHORT_RETURN_IF_ERROR(start_error_);
    COHORT_RETURN_IF_ERROR(CheckSilence());
    if (now - begin >= options_.start_deadline && !std::exchange(reported, true)) ReportWaiting();
    if (options_.should_stop && options_.should_stop()) {
      return Cancelled("the start of the collective group was stopped on rank {}", options_.rank);
    }
    Poll(options_.should_stop ? std::min(next, Now() + kStopPoll) : next);
  }
  started_ = true;
  return absl::OkStatus();
}

absl::Status PeerStreams::CheckSilence() const {
  std::string names;
  const CollectiveRank* first = nullptr;
  for (const Link& link : links_) {
    if (link.rank == options_.rank || ready(link)) continue;
    if (Now() - link.alive_at < options_.start_deadline) continue;
    const CollectiveRank& rank = options_.ranks[static_cast<size_t>(link.rank)];
    if (first == nullptr) first = &rank;
    names += fmt::format("{}rank {}, {}", names.empty() ? "" : "; ", link.rank, rank.ToString());
    if (!link.last_error.ok()) names += fmt::format(": {}", std::string(link.last_error.message()));
  }
  if (first == nullptr) return absl::OkStatus();
  return WithRank(
      DeadlineExceeded(
          "the collective group of epoch {} is incomplete after {:.1f} s of silence: {}",
          options_.group.epoch, ToSeconds(options_.start_deadline), names),
      *first);
}

void PeerStreams::ReportWaiting() const {
  if (options_.log == nullptr) return;
  for (const Link& link : links_) {
    if (link.rank == options_.rank || ready(link)) continue;
    options_.log->Warning("collective_waits",
                          {{"for", options_.ranks[static_cast<size_t>(link.rank)].ToString()},
                           {"to", fmt::format("enter the group of epoch {}", options_.group.epoch)},
                           {"seconds", ToSeconds(options_.start_deadline)}});
  }
}

PeerStreamName PeerStreams::NameFor(int rank) const {
  PeerStreamName name;
  name.group = options_.group;
  name.rank = options_.rank;
  name.incarnation = options_.own().incarnation;
  name.target = options_.ranks[static_cast<size_t>(rank)].incarnation;
  return name;
}

void PeerStreams::Dial(Link* link) {
  link->in = transport_->Dial(link->rank, NameFor(link->rank), link);
}

void PeerStreams::Ask(int rank) {
  Question& question = link(rank)->question;
  if (question.stream != nullptr || closed_ || Now() < question.again_at) return;
  // Shorter than the time between two questions of a rank that waits (CollectiveGroup::Look).
  question.again_at =
      Now() + std::min({kLongestRetryDelay, options_.start_deadline / 8, options_.deadline / 8});
  PeerStreamName name = NameFor(rank);
  name.asks = true;
  question.link = link(rank);
  question.stream = transport_->Dial(rank, name, &question);
}

void PeerStreams::Question::OnClosed(const absl::Status& status) {
  stream = nullptr;
  if (status.ok()) link->alive_at = link->owner->Now();
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
  header_.set_incarnation(options_.own().incarnation);
  return &header_;
}

void PeerStreams::Send(int to) {
  if (const auto& out = link(to)->out; out != nullptr) out->Send(encoder_.Finish(header_));
}

void PeerStreams::SendElements(const uint8_t* elements, uint64_t bytes, PayloadLoan* loan) {
  encoder_.BeginPayload();
  encoder_.AppendBorrowed(elements, bytes, loan);
  counters_->bytes_sent += bytes;
  Send(options_.right());
  encoder_.Clear();
}

bool PeerStreams::SendShared(const uint8_t* elements, uint64_t bytes) {
  const uint64_t begin = link(options_.right())->reads_segment ? cells_->Take() : 0;
  if (begin == 0) return false;
  std::memcpy(cells_->At(begin), elements, bytes);
  header_.set_shared_begin(begin);
  counters_->bytes_sent += bytes;
  counters_->bytes_shared += bytes;
  Send(options_.right());
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
  if (cells_ != nullptr && link->rank == options_.right()) {
    hello->set_segment_id(cells_->segment().id());
    hello->set_segment_pid(static_cast<uint32_t>(getpid()));
    hello->set_segment_fd(static_cast<uint32_t>(cells_->segment().fd()));
    hello->set_segment_bytes(cells_->segment().size());
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

void PeerStreams::OnFrame(Link* link, Frame frame) {
  auto received = std::make_unique<ReceivedFrame>();
  v1::CollectiveHeader& header = received->header;
  received->from = link->rank;
  const bool fits = received->decoder.Decode(std::move(frame), &header).ok() && Fits(*link, header);
  const bool usable = fits && (header.kind() != v1::CHUNK || FindElements(link, received.get()));
  if (!usable || closed_) {
    ++counters_->frames_dropped;
    if (fits) Release(std::move(received));
    return;
  }
  switch (header.kind()) {
    case v1::HELLO:
      return OnHello(link, header);
    case v1::RELEASE:
      return OnRelease(link, header.shared_begin());
    default:
      receiver_->OnFrame(std::move(received));
  }
}

void PeerStreams::OnHello(Link* link, const v1::CollectiveHeader& header) {
  link->hello = true;
  if (header.segment_bytes() == 0 || link->segment != nullptr || link->rank != options_.left()) {
    return;
  }
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

void PeerStreams::OnRelease(Link* link, uint64_t begin) {
  const bool reader = cells_ != nullptr && link->rank == options_.right();
  if (begin == 0) {
    link->reads_segment = reader;
  } else if (!reader || !cells_->Release(begin)) {
    ++counters_->frames_dropped;
  }
}

// Finds the elements of a chunk. Returns false if it contradicts itself.
bool PeerStreams::FindElements(Link* link, ReceivedFrame* frame) {
  const v1::CollectiveHeader& header = frame->header;
  if (header.begin() > kMostElements || header.count() > kMostElements) return false;
  if (header.shared_begin() != 0) {
    // The bytes of a cell; the operation knows the size of an element.
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
      [&](std::span<const uint8_t> piece) { frame->pieces.push_back(piece); });
  return true;
}

void PeerStreams::Release(std::unique_ptr<ReceivedFrame> frame) {
  if (frame->header.kind() != v1::CHUNK || frame->header.shared_begin() == 0) return;
  NewHeader(v1::RELEASE)->set_shared_begin(frame->header.shared_begin());
  Send(frame->from);
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
    if (link.question.stream != nullptr) link.question.stream->Abort();
  }
}

void PeerStreams::Abort() {
  closed_ = true;
  for (Link& link : links_) {
    if (link.out != nullptr) link.out->Abort();
    if (link.in != nullptr) link.in->Abort();
    if (link.question.stream != nullptr) link.question.stream->Abort();
  }
}

PeerStreams::~PeerStreams() {
  if (accepted_ == nullptr) return;
  service_->Close();
  Close(started_ ? absl::OkStatus() : Unavailable("the group was not completed"), -1);
  const auto ended = [&] {
    return accepted_->empty() && std::all_of(links_.begin(), links_.end(), [](const Link& link) {
             return link.in == nullptr && link.question.stream == nullptr;
           });
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
