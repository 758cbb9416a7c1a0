#ifndef COHORT_PS_SERVER_PARAMETER_SERVER_H_
#define COHORT_PS_SERVER_PARAMETER_SERVER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/serial_thread.h"
#include "common/base/thread_pool.h"
#include "common/cluster/task_run.h"
#include "common/exchange/local_server.h"
#include "common/rpc/task/served_task.h"
#include "common/tablet/apply_log.h"
#include "common/tablet/checkpoint_store.h"
#include "ps_server/copies/copy_streams.h"
#include "ps_server/local_requests.h"
#include "ps_server/ps_core.h"
#include "ps_server/ps_service.h"

namespace cohort {

struct PsFlags;

// A parameter server as a whole: cohort-ps has one, an in-process cluster has several.
class ParameterServer : public ServingTask {
 public:
  struct Options : ServedTaskOptions {
    std::string apply_log;               // file; "": none
    uint64_t copy_bytes_per_second = 0;  // that fill copies; 0: no limit
  };
  // Starts a server, which serves when this returns. Errors: those of StreamServer, AdminServer and
  // ApplyLog.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(Options options);
  // Ends at once, as a kill would for its peers.
  ~ParameterServer() override;

  // What it serves: at its addresses, or at those of another task of this process.
  ServedPart Part();

  int port() const override { return served_.port(); }
  int admin_port() const { return served_.admin_port(); }

  // Logs which task it is waiting for. Errors: DeadlineExceeded if no chief has been connected for
  // chief_wait.
  // Also calls KeepLedger.
  absl::Status Tick() override;
  // Notes what memory is used for, and looks after requests that wait. To be called several times a
  // second. Waits for no tablet: the thread that calls it watches the others.
  void KeepLedger();
  std::optional<TaskEnd> end() const override { return served_.end(); }
  std::string StatusLine() const override;
  // The loops are the tablet thread and the threads of the server.
  std::vector<uint64_t> Turns() override;
  void SetHang(const std::string& why) override { served_.SetHang(why); }
  // Waits at most `grace` for running snapshots, drops the rest, closes all streams with `why` (OK:
  // the job is done), and stops. Idempotent. Error: DeadlineExceeded if the storage does not answer
  // within stop_wait.
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

  PsCore* core() { return core_.get(); }
  const CodecCounters& codec_counters() const { return service_.codec_counters(); }
  const MetricsRegistry& metrics() const { return registry_; }

 private:
  explicit ParameterServer(Options options);
  PsCore::Options CoreOptions();
  v1::TaskFigures Figures() const;
  absl::Status Listen();
  // Releases requests that wait, on the tablet thread. Does not wait.
  void ReleaseLater();

  // In the order in which they depend on each other.
  const Options options_;
  const uint64_t memory_bytes_;  // that this process may use
  RealClock clock_;
  MetricsRegistry registry_;
  std::unique_ptr<ApplyLog> apply_log_;   // may be null
  CheckpointStore store_;                 // snapshot files
  PsService service_;                     // streams to the core and back
  CopyStreams copy_streams_;              // streams to servers that keep copies
  ThreadPool apply_pool_;                 // helps with large applies
  std::unique_ptr<PsCore> core_;          // the protocol
  std::shared_ptr<LocalRequests> local_;  // serves the workers of this process
  // Makes tablets and writes snapshots, so that no completion queue waits for a disk.
  SerialThread tablet_work_{"tablet_work"};
  SerialThread background_{"background"};
  std::atomic<bool> release_posted_{false};  // to tablet_work_
  uint64_t tablet_asked_ = 0;                // by Turns, which the tablet thread answers
  const std::shared_ptr<std::atomic<uint64_t>> tablet_answered_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  ServedTask served_;  // ends first, because its streams use the core
};

// If no flag names a directory for the socket and none can be created, logs the reason; workers of
// this host then connect over TCP. Error: FailedPrecondition (exit code 77) if the directory is not
// this user's alone.
absl::StatusOr<ParameterServer::Options> MakeServerOptions(const PsFlags& flags,
                                                           const RoleContext& context,
                                                           const TaskEnvironment& environment);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARAMETER_SERVER_H_
