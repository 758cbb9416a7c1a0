#ifndef COHORT_COMMON_EXEC_RESIDENT_ACCESS_H_
#define COHORT_COMMON_EXEC_RESIDENT_ACCESS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/exchange.h"
#include "common/exchange/exchange_plan.h"
#include "common/exchange/exchange_thread.h"
#include "common/exchange/local_server.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/optimizers/device_copies.h"
#include "common/tablet/push_pull_views.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// Access of one program to variables that lie on the device where its steps run. Their tablets are
// those of servers of this process, and an exchange is a call of each on the step thread:
//
//   Begin, Finish ─► LocalServer::Handle ─► Tablet::Push: fence, id ─► an update on the device, or
//                                       │                              the sums of the step
//                                       └─► Tablet::Pull: fence, step ─► values on the device
//
// A call is final, or has changed nothing. So one exchange loses and repeats nothing, and what is
// not done yet waits in Finish: for the chief that closes the step, a new route or a new
// generation. The errors are those of ExchangeRunner's accesses.
class ResidentAccess : public VariableAccess {
 public:
  struct Options {
    ExchangeThread* thread = nullptr;  // the step thread
    std::shared_ptr<const LocalServers> servers;
    ExchangeOptions exchange;  // its limits of time
  };
  // `device`: Executable::device_parts() of the program. The thread outlives this object.
  ResidentAccess(const Options& options, std::span<const VariableDecl> variables,
                 const DeviceParts& device);
  ~ResidentAccess() override;

  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override;
  absl::StatusOr<ExchangeResult> Finish() override;
  bool on_device() const override { return true; }
  void Interrupt() override { options_.thread->Interrupt(); }

 private:
  struct Tablet {
    bool push_done = false;
    bool pull_done = false;
    uint64_t version = 0;  // that the pull has seen
    std::vector<PushEntryView> entries;
  };
  struct Server {
    uint64_t incarnation = 0;
    std::shared_ptr<LocalServer> server;  // null: it is not in this process
  };

  void MakeEntries(size_t tablet);
  bool IsDone() const;
  // Asks all servers for what is not done. Errors: why the exchange has ended, or for what it has
  // waited for too long.
  absl::Status Ask();
  bool MakeRequest(size_t server);
  LocalServer* Find(const ServerRoute& route);
  absl::Status TakePush(size_t tablet, const v1::PushResult& result);
  absl::Status TakePull(size_t tablet, const v1::PullResult& result);
  template <typename Result>
  absl::Status TakeRefusal(const Result& result);
  absl::Status TakeInput();

  const Options options_;
  const DeviceParts device_;
  ExchangeThread::Program program_;
  std::map<uint32_t, Server> servers_;  // by ps
  // By lane of the pull and tablet number: the version of the last pull.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> versions_;

  // The running exchange.
  absl::Status status_;
  ExchangeResult result_;
  ExchangePlan plan_;
  RequestView request_;  // its push and its step; sections are those of one server
  uint32_t push_lane_ = 0, pull_lane_ = 0;
  std::vector<Tablet> tablets_;  // by ProgramRoutes::tablets
  std::vector<size_t> asked_;    // the tablets of the sections of a request
  v1::PushPullResponseHeader answer_;
  uint32_t attempt_seen_ = 0;
  bool timeline_seen_ = false;
  // Why it waits for a route, a generation or a server, and from when on. OK, -1: for none of them.
  absl::Status waits_for_;
  int64_t waits_since_us_ = -1;
  int64_t patience_us_ = 0;  // until the next try without an input
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_RESIDENT_ACCESS_H_
