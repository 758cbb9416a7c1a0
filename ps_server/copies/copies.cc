#include "ps_server/copies/copies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {

std::shared_ptr<CopyLog> Copies::LogFor(const v1::TabletHome& home, uint64_t timeline) {
  if (env_.transport == nullptr) return nullptr;
  MutexLock lock(&mu_);
  for (const auto& [number, link] : links_) {
    const bool same = link->log->tablet() == home.tablet() && link->log->term() == home.term() &&
                      link->log->timeline() == timeline && !link->log->ended() &&
                      link->to.incarnation() == home.copy_route().incarnation();
    if (same) return link->log;
  }
  auto link = std::make_shared<Link>();
  link->transport = env_.transport;
  link->number = next_++;
  link->to = home.copy_route();
  link->log = std::make_shared<CopyLog>(
      home.tablet(), timeline, home.term(), home.filling(), env_.pool,
      CopyLog::Callbacks{.released = env_.released, .complete = env_.complete}, options_.faults);
  link->tried = link->moved = env_.clock->Now();
  links_[link->number] = link;
  env_.transport->Open(link->number, link->to);
  return link->log;
}

void Copies::Keep(const std::vector<std::shared_ptr<CopyLog>>& logs) {
  std::vector<std::shared_ptr<Link>> ended;
  {
    MutexLock lock(&mu_);
    for (auto it = links_.begin(); it != links_.end();) {
      if (std::ranges::find(logs, it->second->log) != logs.end()) {
        ++it;
        continue;
      }
      ended.push_back(it->second);
      it = links_.erase(it);
    }
  }
  for (const auto& link : ended) {
    env_.transport->Close(link->number);
    link->log->Void();
  }
}

std::shared_ptr<Copies::Link> Copies::Find(uint64_t stream) const {
  MutexLock lock(&mu_);
  const auto it = links_.find(stream);
  return it == links_.end() ? nullptr : it->second;
}

void Copies::OnOpen(uint64_t stream) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  {
    MutexLock lock(&mu_);
    link->open = true;
  }
  link->log->OnOpen(link.get());
}

void Copies::OnClosed(uint64_t stream, const absl::Status& why) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  link->log->OnClosed();
  MutexLock lock(&mu_);
  link->open = false;
  link->why = std::string(why.message());
  if (link->log->is_partial()) Lose(link.get(), why);
}

void Copies::OnAck(uint64_t stream, const v1::CopyAck& ack) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  const absl::Status failed = StatusFromProto(ack.error());
  {
    MutexLock lock(&mu_);
    link->moved = env_.clock->Now();
    if (!failed.ok()) Lose(link.get(), failed);
  }
  if (failed.ok()) link->log->OnAck(ack.number(), ack.state());
}

void Copies::Lose(Link* link, const absl::Status& why) {
  if (std::exchange(link->told, true)) return;
  env_.lost(*link->log, why);
}

void Copies::Tick() {
  std::vector<std::shared_ptr<Link>> again;
  {
    MutexLock lock(&mu_);
    const TimePoint now = env_.clock->Now();
    for (const auto& [number, link] : links_) {
      if (link->log->idle() && link->open) {
        link->moved = now;
        link->told = false;
      }
      if (now - link->moved >= options_.patience) {
        // Said again, because the chief may be another one meanwhile.
        link->moved = now;
        link->told = false;
        Lose(link.get(), Unavailable("{} acknowledges nothing: {}", link->to.address(),
                                     link->open ? "its stream is open" : link->why));
      }
      if (link->open || now - link->tried < options_.retry) continue;
      link->tried = now;
      again.push_back(link);
    }
  }
  for (const auto& link : again) {
    env_.transport->Close(link->number);
    env_.transport->Open(link->number, link->to);
  }
}

size_t Copies::held_bytes() const {
  MutexLock lock(&mu_);
  size_t bytes = 0;
  for (const auto& [number, link] : links_) bytes += link->log->held_bytes();
  return bytes;
}

}  // namespace cohort
