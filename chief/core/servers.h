#ifndef COHORT_CHIEF_CORE_SERVERS_H_
#define COHORT_CHIEF_CORE_SERVERS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"

namespace cohort {

// The parameter servers as the chief knows them: their hellos, their terms, and how long one has
// been away. It also sends the messages that go to all servers or that describe them to workers.
//
//   there ──(1) OnDown──► away ──(2) OnHello, same incarnation──► there
//                          └──(3) server_grace_s is over: it is lost (Lost)
//
// A server that returns with another incarnation has no tablets: the caller treats it as lost.
class Servers {
 public:
  Servers(const CoreContext* context, Outbox* outbox, const Membership* membership)
      : context_(context),
        outbox_(outbox),
        membership_(membership),
        servers_(context->options.ps.size()) {}

  // Edges (1) and (2).
  void OnDown(int ps) { servers_[static_cast<size_t>(ps)].down_since_us = context_->now_us; }
  void OnHello(int ps, const v1::PsHello& hello);
  // A server that had joined is gone for good.
  void Forget(int ps) { servers_[static_cast<size_t>(ps)] = {}; }
  // Edge (3): the servers that are away for longer than the grace.
  std::vector<int> Lost() const;
  // Those that are away for at least as long.
  std::vector<int> AwayFor(int64_t us) const;
  // Returns the error of a lost server.
  absl::Status LostError(int ps, const std::string& why) const;

  // A rollback has assigned these tablets at the context's timeline, under this term.
  void OnAssigned(const v1::Layout& layout, uint64_t term);
  // Returns a term that is above those of all tablets, and at least `era`.
  uint64_t NextTerm(uint64_t era) const;
  // True if every server has exactly its tablets of the layout, in this job and timeline. One that
  // has joined may have nothing.
  bool Have(const v1::Layout& layout) const;
  const v1::PsHello& hello(int ps) const { return servers_[static_cast<size_t>(ps)].hello; }

  // By server: how many servers share its memory: that of its host, or of a control group there.
  std::vector<uint32_t> SharingMemory() const;
  // Where a server is.
  v1::PsRoute RouteOf(int ps) const;
  // Publishes the durable watermark to one server, or to all that are adopted.
  void SendWatermark(int ps, uint64_t watermark) const;
  void PublishWatermark(uint64_t watermark) const;

 private:
  struct Server {
    v1::PsHello hello;  // the last one, updated by later assignments
    uint64_t term = 0;
    int64_t down_since_us = -1;  // -1: it is there
  };

  const CoreContext* const context_;
  Outbox* const outbox_;
  const Membership* const membership_;
  std::vector<Server> servers_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_SERVERS_H_
