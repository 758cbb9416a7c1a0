#include "ps_server/local_requests.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_proto.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/request_assembler.h"

namespace cohort {
namespace {

// Smaller values are copied: that is quicker than a new block for the next version.
constexpr size_t kLeastLentBytes = 64 << 10;

}  // namespace

class LocalRequests::Connection : public LocalConnection {
 public:
  Connection(std::shared_ptr<LocalRequests> server, std::function<void()> wake)
      : server_(std::move(server)), wake_(std::move(wake)) {}
  ~Connection() override { StopWaiting(); }

  void Send(std::span<const ExchangeMessage> messages) override {
    Drop();
    error_ = absl::OkStatus();
    for (const ExchangeMessage& message : messages) {
      sequence_ = message.header.sequence();
      EndLoans(message.header);
      if (error_.ok()) error_ = assembler_.Add(message.header, message.payload);
    }
    request_ = error_.ok() ? &assembler_.Finish() : nullptr;
    state_ = State::kWaiting;
    Execute();
  }

  bool Take(Taker take) override {
    if (state_ == State::kWaiting) Execute();
    if (state_ != State::kAnswered) return false;
    state_ = State::kIdle;
    bytes_.clear();
    pieces_.clear();
    lent_.clear();
    for (const PayloadSlice& slice : slices_) {
      lent_.push_back(slice.bytes >= kLeastLentBytes);
      bytes_.push_back(slice.bytes == 0 ? Bytes()
                                        : Bytes(slice.buffer->data() + slice.offset, slice.bytes));
    }
    for (const Bytes& bytes : bytes_) pieces_.emplace_back(&bytes, 1);
    take(answer_, pieces_, lent_);
    // The references keep the blocks: an apply writes the next version elsewhere.
    const bool lends = std::find(lent_.begin(), lent_.end(), 1) != lent_.end();
    if (lends) loans_.push_back({answer_.sequence(), std::move(slices_)});
    slices_.clear();
    return true;
  }

  bool pending() const override { return state_ != State::kIdle; }

  void Drop() override {
    StopWaiting();
    state_ = State::kIdle;
    slices_.clear();
  }

  void Wake() const { wake_(); }

 private:
  enum class State { kIdle, kWaiting, kAnswered };

  // An answer whose values the step reads.
  struct Loan {
    uint64_t sequence = 0;
    std::vector<PayloadSlice> slices;
  };

  void EndLoans(const v1::PushPullHeader& header) {
    const auto& reading = header.reading();
    std::erase_if(loans_, [&](const Loan& loan) {
      return std::find(reading.begin(), reading.end(), loan.sequence) == reading.end();
    });
  }

  void Execute() {
    if (!server_->Enter()) return;
    answer_.Clear();
    if (!error_.ok()) {
      answer_.set_sequence(sequence_);
      answer_.set_generation(server_->data_path_->generation());
      StatusToProto(error_, answer_.mutable_error());
      state_ = State::kAnswered;
    } else if (!MustWait()) {
      StopWaiting();
      server_->data_path_->Handle(*request_, &scratch_, &answer_, &slices_);
      state_ = State::kAnswered;
    }
    server_->Leave();
  }

  // As in ParkedRequests, a pull beside a push does not wait.
  bool MustWait() {
    if (request_->has_push || !server_->data_path_->MustWait(*request_)) return false;
    if (!waits_) server_->AddWaiting(this);
    waits_ = true;
    // The step may have been opened, and Release called, since the look.
    return server_->data_path_->MustWait(*request_);
  }

  void StopWaiting() {
    if (std::exchange(waits_, false)) server_->RemoveWaiting(this);
  }

  const std::shared_ptr<LocalRequests> server_;
  const std::function<void()> wake_;
  State state_ = State::kIdle;
  bool waits_ = false;  // the server wakes this connection
  RequestAssembler assembler_;
  absl::Status error_;     // the request could not be read
  uint64_t sequence_ = 0;  // that the request has
  const RequestView* request_ = nullptr;
  DataPathScratch scratch_;
  v1::PushPullResponseHeader answer_;
  std::vector<PayloadSlice> slices_;
  std::vector<Bytes> bytes_;
  std::vector<PayloadPieces> pieces_;
  std::vector<uint8_t> lent_;  // by field
  std::vector<Loan> loans_;
};

std::unique_ptr<LocalConnection> LocalRequests::Connect(std::function<void()> wake) {
  if (ended()) return nullptr;
  return std::make_unique<Connection>(shared_from_this(), std::move(wake));
}

bool LocalRequests::ended() const {
  MutexLock lock(&mu_);
  return ended_;
}

absl::Status LocalRequests::Reside(const DeviceCopies& copies) {
  if (!Enter()) return Unavailable("this server has ended");
  const absl::Status status = data_path_->Reside(copies);
  Leave();
  return status;
}

bool LocalRequests::Handle(const RequestView& request, const DeviceParts& device,
                           v1::PushPullResponseHeader* answer) {
  if (!Enter()) return false;
  const bool waits = !request.has_push && data_path_->MustWait(request);
  if (!waits) {
    DataPathScratch scratch;
    std::vector<PayloadSlice> no_values;
    data_path_->Handle(request, &scratch, answer, &no_values, &device);
  }
  Leave();
  return !waits;
}

void LocalRequests::Watch(const void* watcher, std::function<void()> wake) {
  MutexLock lock(&mu_);
  watchers_.erase(watcher);
  if (wake != nullptr) watchers_.emplace(watcher, std::move(wake));
}

void LocalRequests::Release() {
  MutexLock lock(&mu_);
  WakeAll();
}

void LocalRequests::WakeAll() {
  for (const Connection* connection : waiting_) connection->Wake();
  for (const auto& [watcher, wake] : watchers_) wake();
}

void LocalRequests::End() {
  MutexLock lock(&mu_);
  ended_ = true;
  WakeAll();
  while (calls_ > 0) idle_.Wait(&mu_);
}

bool LocalRequests::Enter() {
  MutexLock lock(&mu_);
  if (ended_) return false;
  ++calls_;
  return true;
}

void LocalRequests::Leave() {
  MutexLock lock(&mu_);
  if (--calls_ == 0 && ended_) idle_.SignalAll();
}

void LocalRequests::AddWaiting(Connection* connection) {
  MutexLock lock(&mu_);
  waiting_.insert(connection);
}

void LocalRequests::RemoveWaiting(Connection* connection) {
  MutexLock lock(&mu_);
  waiting_.erase(connection);
}

}  // namespace cohort
