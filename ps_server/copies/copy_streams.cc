#include "ps_server/copies/copy_streams.h"

#include <utility>

#include "common/base/status.h"
#include "common/cluster/protocol_version.h"
#include "common/exchange/remote_access_connection.h"

namespace cohort {
namespace {

// Payload of one message; a larger push is cut between its entries.
constexpr size_t kMessageBytes = size_t{2} << 20;

// A usual push goes into the socket as a whole: otherwise both servers wake for each part of it.
constexpr int kSendBufferBytes = 4 << 20;

StreamClient::Options OptionsOf(std::shared_ptr<const Security> security) {
  StreamClient::Options options;
  options.security = std::move(security);
  options.transport.http2_frame_bytes = kPushPullHttp2FrameBytes;
  options.send_buffer_bytes = kSendBufferBytes;
  options.transport.AwaitBusyServer();  // Copies notices a copy that is silent
  return options;
}

}  // namespace

// One stream. Its calls come on the thread of the loop, where Open runs, too: none comes before it
// returns.
class CopyStreams::Link : public StreamHandler {
 public:
  // `requests`: PsRoute.copy_requests.
  Link(CopyStreams* owner, uint64_t number, CompletionLoop* loop, bool requests)
      : owner_(owner),
        number_(number),
        loop_(loop),
        requests_(requests),
        encoder_(&owner->counters_) {}

  CompletionLoop* loop() const { return loop_; }

  // Does nothing after Abort.
  absl::Status Open(const v1::PsRoute& to, std::shared_ptr<Link> self) {
    ServerRoute route;
    route.ps = to.ps();
    route.incarnation = to.incarnation();
    route.address = to.address();
    route.unix_socket = to.unix_socket();
    route.host_id = to.host_id();
    StreamClient::Options options = owner_->options_;
    options.task = Task{Role::kPs, static_cast<int>(to.ps())};
    COHORT_ASSIGN_OR_RETURN(
        client_,
        StreamClient::Create(
            PsConnection::ChooseAddress(route, owner_->host_id_, /*avoid_unix=*/false), options));
    StreamClient::OpenOptions open;
    open.wait_for_ready = false;
    open.metadata[kProtocolVersionKey] =
        (requests_ ? kProtocolVersion : kCopiesProtocol).ToString();
    open.metadata[kPsIncarnationKey] = IncarnationText(to.incarnation());
    if (silent()) return absl::OkStatus();
    self_ = std::move(self);
    std::shared_ptr<Stream> stream = client_->Open(kCopyMethod, this, loop_, open);
    {
      MutexLock lock(&mu_);
      stream_ = stream;
    }
    if (silent()) stream->Abort();
    return absl::OkStatus();
  }

  // One frame for a usual entry: each frame costs a call of the system, and wakes threads of both
  // ends.
  void Send(const CopyLogEntry& entry) {
    const v1::CopyEntry* head = &entry.entry;  // in the first message
    // Until version 2.6 is no longer supported: its servers read an entry apart from its payload.
    if (!requests_) stream_->Send(SerializeToFrame(*std::exchange(head, nullptr)));
    if (entry.entry.push()) return SendPush(entry, head);
    if (entry.payload.empty()) {
      if (head == nullptr) return;
      v1::PushPullRequest request;
      request.add_payload(entry.entry.SerializeAsString());
      return stream_->Send(SerializeToFrame(request));
    }
    for (const BufferRef& field : entry.payload) {
      encoder_.BeginPayload();
      encoder_.Append(field, 0, field->size());
    }
    stream_->Send(encoder_.Finish(v1::PushPullHeader(), head));
  }

  // `head`: in the first message; may be null.
  void SendPush(const CopyLogEntry& entry, const v1::CopyEntry* head) {
    const v1::PushPart& push = entry.push.push();
    v1::PushPullHeader header = entry.push;
    v1::PushSection* const section = header.mutable_push()->mutable_sections(0);
    section->clear_entries();
    size_t field = 0;
    size_t bytes = 0;
    const auto& entries = push.sections(0).entries();
    for (int i = 0; i < entries.size(); ++i) {
      if (bytes >= kMessageBytes) {
        header.set_more(true);
        stream_->Send(encoder_.Finish(header, std::exchange(head, nullptr)));
        section->clear_entries();
        bytes = 0;
      }
      *section->add_entries() = entries[i];
      const size_t fields = entries[i].kind() == v1::RECORD_ONLY ? 0 : entries[i].sparse() ? 2 : 1;
      for (size_t f = 0; f < fields; ++f, ++field) {
        const BufferRef& payload = entry.payload[field];
        encoder_.BeginPayload();
        encoder_.Append(payload, 0, payload->size());
        bytes += payload->size();
      }
    }
    header.set_more(false);
    stream_->Send(encoder_.Finish(header, head));
  }

  void Abort() {
    std::shared_ptr<Stream> stream;
    {
      MutexLock lock(&mu_);
      silent_ = true;
      stream = stream_;
    }
    if (stream != nullptr) stream->Abort();
  }

  void OnConnected() override {
    Tell([&](Copies* copies) { copies->OnOpen(number_); });
  }
  void OnFrame(Frame frame) override {
    v1::CopyAck ack;
    if (!ParseFromFrame(frame, &ack).ok()) return stream_->Abort();
    Tell([&](Copies* copies) { copies->OnAck(number_, ack); });
  }
  void OnClosed(const absl::Status& status) override {
    Tell([&](Copies* copies) { copies->OnClosed(number_, status); });
    self_ = nullptr;  // may destroy this
  }

 private:
  bool silent() {
    MutexLock lock(&mu_);
    return silent_;
  }

  template <typename Call>
  void Tell(const Call& call) {
    if (silent()) return;
    if (Copies* const copies = owner_->copies()) call(copies);
  }

  CopyStreams* const owner_;
  const uint64_t number_;
  CompletionLoop* const loop_;
  const bool requests_;
  PushPullEncoder encoder_;  // used by Send, which one thread at a time calls
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;  // Open sets it, under mu_; Send is called after that
  std::shared_ptr<Link> self_;      // until OnClosed
  Mutex mu_;
  bool silent_ ABSL_GUARDED_BY(mu_) = false;
};

CopyStreams::CopyStreams(std::shared_ptr<const Security> security, std::string host_id)
    : options_(OptionsOf(std::move(security))), host_id_(std::move(host_id)) {}

CopyStreams::~CopyStreams() { Stop(); }

void CopyStreams::Start(Copies* copies, std::vector<CompletionLoop*> loops) {
  MutexLock lock(&mu_);
  copies_ = copies;
  loops_ = std::move(loops);
}

void CopyStreams::Stop() {
  std::map<uint64_t, std::shared_ptr<Link>> links;
  {
    MutexLock lock(&mu_);
    copies_ = nullptr;
    loops_.clear();
    links.swap(links_);
  }
  for (const auto& [number, link] : links) link->Abort();
}

Copies* CopyStreams::copies() const {
  MutexLock lock(&mu_);
  return copies_;
}

std::shared_ptr<CopyStreams::Link> CopyStreams::Find(uint64_t stream) const {
  MutexLock lock(&mu_);
  const auto it = links_.find(stream);
  return it == links_.end() ? nullptr : it->second;
}

void CopyStreams::Open(uint64_t stream, const v1::PsRoute& to) {
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mu_);
    if (loops_.empty()) return;  // Copies tries again
    link = std::make_shared<Link>(this, stream, loops_[stream % loops_.size()], to.copy_requests());
    links_[stream] = link;
  }
  link->loop()->Post([this, stream, link, to] {
    const absl::Status opened = link->Open(to, link);
    if (opened.ok()) return;
    if (Copies* const told = copies()) told->OnClosed(stream, opened);
  });
}

void CopyStreams::Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) {
  if (const std::shared_ptr<Link> link = Find(stream)) link->Send(*entry);
}

void CopyStreams::FlushSoon(uint64_t stream) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  link->loop()->Post([this, stream] {
    if (Copies* const told = copies()) told->Flush(stream);
  });
}

void CopyStreams::Close(uint64_t stream) {
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mu_);
    const auto it = links_.find(stream);
    if (it == links_.end()) return;
    link = std::move(it->second);
    links_.erase(it);
  }
  link->Abort();
}

}  // namespace cohort
