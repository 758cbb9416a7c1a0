#include "common/collective/peer_service.h"

#include <sstream>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/socket_stream.h"

namespace cohort {
namespace {

constexpr char kAsks[] = "alive?";

// The end of a stream that asked: it was closed with the answer.
class AskedStream : public StreamHandler {
 public:
  void OnFrame(Frame) override {}
  void OnClosed(const absl::Status&) override {}
};

}  // namespace

std::string PeerStreamName::ToString() const {
  return fmt::format("{} {} {} {} {} {}{}{}", group.generation, group.timeline, group.epoch, rank,
                     incarnation, target, asks ? " " : "", asks ? kAsks : "");
}

std::optional<PeerStreamName> PeerStreamName::Parse(const std::string& text) {
  PeerStreamName name;
  std::istringstream in(text);
  in >> name.group.generation >> name.group.timeline >> name.group.epoch >> name.rank >>
      name.incarnation >> name.target;
  if (in.fail()) return std::nullopt;
  std::string rest;
  name.asks = in >> rest && rest == kAsks;
  return name;
}

PeerService::PeerService(uint64_t incarnation, bool test_takes_any_group)
    : state_(std::make_shared<State>()) {
  state_->incarnation = incarnation;
  state_->takes_any_group = test_takes_any_group;
}

StreamServer::Methods PeerService::Methods() const {
  return {{kMethod, [state = state_](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return Accept(state.get(), std::move(stream));
           }}};
}

std::function<void(UniqueFd)> PeerService::SocketTaker() const {
  return [state = state_](UniqueFd connection) { TakeSocket(state.get(), std::move(connection)); };
}

std::shared_ptr<PeerService::Acceptor> PeerService::Find(
    State* state, const std::optional<PeerStreamName>& name) {
  MutexLock lock(&state->mu);
  const bool fits = name.has_value() && (state->newest == name->group || state->takes_any_group);
  return fits ? state->acceptor : nullptr;
}

absl::Status PeerService::Answer(State* state, const PeerStreamName& name) {
  MutexLock lock(&state->mu);
  const bool means_this = state->incarnation == 0 || name.target == state->incarnation;
  const bool may_come = !state->newest.has_value() || name.group > *state->newest;
  const bool is_in =
      state->newest == name.group && state->acceptor != nullptr && state->acceptor->Fits(name);
  if (means_this && (may_come || is_in)) return absl::OkStatus();
  return Unavailable("this process will not be in the group of epoch {}", name.group.epoch);
}

std::unique_ptr<StreamHandler> PeerService::Accept(State* state, std::shared_ptr<Stream> stream) {
  const auto name = PeerStreamName::Parse(stream->metadata(PeerStreamName::kKey));
  if (name.has_value() && name->asks) {
    stream->Close(Answer(state, *name));
    return std::make_unique<AskedStream>();
  }
  std::unique_ptr<StreamHandler> handler;
  if (const auto acceptor = Find(state, name); acceptor != nullptr) {
    handler = acceptor->Accept(*name, std::move(stream));
  }
  if (handler == nullptr) state->refused.fetch_add(1, std::memory_order_relaxed);
  return handler;
}

void PeerService::TakeSocket(State* state, UniqueFd connection) {
  const std::optional<std::string> text = SocketStream::TakeName(connection);
  const auto name = PeerStreamName::Parse(text.value_or(""));
  if (name.has_value() && name->asks) {
    return SocketStream::Refuse(std::move(connection), Answer(state, *name));
  }
  if (const auto acceptor = Find(state, name); acceptor != nullptr) {
    return acceptor->AcceptSocket(*name, std::move(connection));
  }
  state->refused.fetch_add(1, std::memory_order_relaxed);
  SocketStream::Refuse(
      std::move(connection),
      Unavailable("the stream is for another group, or for another incarnation of this task"));
}

absl::Status PeerService::Open(const GroupId& group, std::shared_ptr<Acceptor> acceptor) {
  MutexLock lock(&state_->mu);
  if (state_->acceptor != nullptr) {
    return FailedPrecondition("the collective group of epoch {} is still open",
                              state_->newest->epoch);
  }
  if (state_->newest.has_value() && group <= *state_->newest) {
    return FailedPrecondition(
        "the collective group (generation {}, timeline {}, epoch {}) is not newer than the last "
        "one "
        "({}, {}, {})",
        group.generation, group.timeline, group.epoch, state_->newest->generation,
        state_->newest->timeline, state_->newest->epoch);
  }
  state_->newest = group;
  state_->acceptor = std::move(acceptor);
  return absl::OkStatus();
}

void PeerService::Close() {
  MutexLock lock(&state_->mu);
  state_->acceptor = nullptr;
}

uint64_t PeerService::refused() const { return state_->refused.load(std::memory_order_relaxed); }

}  // namespace cohort
