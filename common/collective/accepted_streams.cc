#include "common/collective/accepted_streams.h"

#include <algorithm>
#include <utility>

namespace cohort {

class AcceptedStreams::Handler : public StreamHandler {
 public:
  Handler(std::shared_ptr<AcceptedStreams> owner, int rank)
      : owner_(std::move(owner)), rank_(rank) {}
  void OnFrame(Frame) override {}  // clients send nothing
  void OnClosed(const absl::Status&) override { owner_->OnClosed(rank_); }

 private:
  const std::shared_ptr<AcceptedStreams> owner_;
  const int rank_;
};

AcceptedStreams::AcceptedStreams(std::vector<uint64_t> incarnations, std::vector<int> workers,
                                 int rank, std::function<void()> wake)
    : incarnations_(std::move(incarnations)),
      workers_(std::move(workers)),
      rank_(rank),
      wake_(std::move(wake)),
      streams_(incarnations_.size()) {}

bool AcceptedStreams::Fits(const PeerStreamName& name) const {
  return name.rank >= 0 && static_cast<size_t>(name.rank) < incarnations_.size() &&
         name.rank != rank_ && name.incarnation == incarnations_[static_cast<size_t>(name.rank)] &&
         name.target == incarnations_[static_cast<size_t>(rank_)];
}

std::unique_ptr<StreamHandler> AcceptedStreams::Accept(const PeerStreamName& name,
                                                       std::shared_ptr<Stream> stream) {
  if (!Fits(name)) return nullptr;
  const size_t rank = static_cast<size_t>(name.rank);
  if (!stream->CheckClaim({Role::kWorker, workers_[rank]}).ok()) return nullptr;
  MutexLock lock(&mu_);
  // A client that tries again may come before the end of its last stream is known here.
  if (wake_ == nullptr || streams_[rank] != nullptr) return nullptr;
  streams_[rank] = std::move(stream);
  ++open_;
  Changed();
  return std::make_unique<Handler>(shared_from_this(), name.rank);
}

void AcceptedStreams::AcceptSocket(const PeerStreamName& name, UniqueFd connection) {
  MutexLock lock(&mu_);
  if (wake_ == nullptr) return;
  DropOldSockets();
  const auto same_rank = [&name](const Socket& socket) { return socket.name.rank == name.rank; };
  if (std::count_if(sockets_.begin(), sockets_.end(), same_rank) >= kMostSocketsOfRank) {
    // The peer has tried again: it no longer uses the older one.
    sockets_.erase(std::find_if(sockets_.begin(), sockets_.end(), same_rank));
  } else if (sockets_.size() >= static_cast<size_t>(kMostSocketsOfRank) * incarnations_.size()) {
    return;  // names of ranks that do not exist
  }
  sockets_.push_back({name, std::move(connection), std::chrono::steady_clock::now()});
  Changed();
}

std::vector<AcceptedStreams::Socket> AcceptedStreams::TakeSockets() {
  MutexLock lock(&mu_);
  DropOldSockets();
  return std::exchange(sockets_, {});
}

void AcceptedStreams::DropOldSockets() {
  const TimePoint oldest = std::chrono::steady_clock::now() - kLongestSocketWait;
  std::erase_if(sockets_, [oldest](const Socket& socket) { return socket.at < oldest; });
}

void AcceptedStreams::OnClosed(int rank) {
  std::shared_ptr<Stream> dropped;
  MutexLock lock(&mu_);
  dropped = std::move(streams_[static_cast<size_t>(rank)]);
  streams_[static_cast<size_t>(rank)] = nullptr;
  --open_;
  Changed();
  ended_.SignalAll();
}

void AcceptedStreams::Changed() {
  changed_.store(true, std::memory_order_release);
  if (wake_ != nullptr) wake_();
}

std::shared_ptr<Stream> AcceptedStreams::stream(int rank) const {
  MutexLock lock(&mu_);
  return streams_[static_cast<size_t>(rank)];
}

bool AcceptedStreams::empty() const {
  MutexLock lock(&mu_);
  return open_ == 0;
}

void AcceptedStreams::Detach() {
  MutexLock lock(&mu_);
  wake_ = nullptr;
  sockets_.clear();
}

bool AcceptedStreams::AwaitEmpty(TimePoint deadline) {
  MutexLock lock(&mu_);
  while (open_ > 0) {
    if (!ended_.WaitUntil(&mu_, deadline)) return open_ == 0;
  }
  return true;
}

}  // namespace cohort
