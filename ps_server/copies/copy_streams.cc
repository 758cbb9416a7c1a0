#include "ps_server/copies/copy_streams.h"

#include <utility>

#include "common/base/status.h"
#include "common/cluster/protocol_version.h"
#include "common/exchange/remote_access_connection.h"

namespace cohort {
namespace {

// Payload of one message; a larger push is cut between its entries.
constexpr size_t kMessageBytes = size_t{2} << 20;

}  // namespace

// One stream. Its calls come on the thread of the loop, where Open runs, too: none comes before it
// returns.
class CopyStreams::Link : public StreamHandler {
 public:
  Link(CopyStreams* owner, uint64_t number)
      : owner_(owner), number_(number), encoder_(&owner->counters_) {}

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
    open.metadata[kProtocolVersionKey] = kProtocolVersion.ToString();
    open.metadata[kPsIncarnationKey] = IncarnationText(to.incarnation());
    if (silent()) return absl::OkStatus();
    self_ = std::move(self);
    std::shared_ptr<Stream> stream = client_->Open(kCopyMethod, this, &owner_->loop_, open);
    {
      MutexLock lock(&mu_);
      stream_ = stream;
    }
    if (silent()) stream->Abort();
    return absl::OkStatus();
  }

  void Send(const CopyLogEntry& entry) {
    stream_->Send(SerializeToFrame(entry.entry));
    if (!entry.entry.push()) {
      if (entry.payload.empty()) return;
      for (const BufferRef& field : entry.payload) {
        encoder_.BeginPayload();
        encoder_.Append(field, 0, field->size());
      }
      stream_->Send(encoder_.Finish(v1::PushPullHeader()));
      return;
    }
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
        stream_->Send(encoder_.Finish(header));
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
    stream_->Send(encoder_.Finish(header));
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
    Copies* copies = nullptr;
    {
      MutexLock lock(&owner_->mu_);
      copies = owner_->copies_;
    }
    if (copies != nullptr) call(copies);
  }

  CopyStreams* const owner_;
  const uint64_t number_;
  PushPullEncoder encoder_;  // guarded by the lock of the log, under which Send is called
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;  // Open sets it, under mu_; Send is called after that
  std::shared_ptr<Link> self_;      // until OnClosed
  Mutex mu_;
  bool silent_ ABSL_GUARDED_BY(mu_) = false;
};

CopyStreams::CopyStreams(StreamClient::Options options, std::string host_id)
    : options_(std::move(options)), host_id_(std::move(host_id)) {}

CopyStreams::~CopyStreams() { Stop(); }

void CopyStreams::SetCopies(Copies* copies) {
  MutexLock lock(&mu_);
  copies_ = copies;
}

void CopyStreams::Stop() {
  std::map<uint64_t, std::shared_ptr<Link>> links;
  {
    MutexLock lock(&mu_);
    copies_ = nullptr;
    links.swap(links_);
  }
  for (const auto& [number, link] : links) link->Abort();
  loop_.Shutdown();
}

std::shared_ptr<CopyStreams::Link> CopyStreams::Find(uint64_t stream) const {
  MutexLock lock(&mu_);
  const auto it = links_.find(stream);
  return it == links_.end() ? nullptr : it->second;
}

void CopyStreams::Open(uint64_t stream, const v1::PsRoute& to) {
  auto link = std::make_shared<Link>(this, stream);
  {
    MutexLock lock(&mu_);
    if (copies_ == nullptr) return;
    if (!std::exchange(started_, true)) loop_.Start("copies");
    links_[stream] = link;
  }
  loop_.Post([this, stream, link, to] {
    const absl::Status opened = link->Open(to, link);
    if (opened.ok()) return;
    Copies* copies = nullptr;
    {
      MutexLock lock(&mu_);
      copies = copies_;
    }
    if (copies != nullptr) copies->OnClosed(stream, opened);
  });
}

void CopyStreams::Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) {
  if (const std::shared_ptr<Link> link = Find(stream)) link->Send(*entry);
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
