#ifndef COHORT_PS_SERVER_PS_CORE_H_
#define COHORT_PS_SERVER_PS_CORE_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/cluster/adoption.h"
#include "common/os/identity.h"
#include "common/tablet/apply_log.h"
#include "common/tablet/shard_store.h"
#include "common/tensor/buffer.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/admission.h"
#include "ps_server/copies/copies.h"
#include "ps_server/data_path.h"
#include "ps_server/pending_snapshots.h"
#include "ps_server/ps_metrics.h"
#include "ps_server/server_memory.h"
#include "ps_server/tablet_builder.h"

namespace cohort {

// Sends the core's messages. The core calls it with its lock held, in the order of the messages; it
// must not call back.
class ChiefSink {
 public:
  virtual ~ChiefSink() = default;
  virtual void Send(Adoption::Connection connection, const v1::PsToChief& message) = 0;
};

// The protocol of a parameter server as a plain state machine: no network, no threads, no clock of
// its own. Inputs are the chief's messages per connection, requests of the data path, and time;
// outputs are messages.
//
//   chief ──► OnMessage ──► Adoption: who is the chief, a hello
//                                                     ├──► AssignTablets: Build, on `background`
//                                                     ├──► SumStep, CloseStep, TakeSnapshot: on
//                                                     │    `tablet_work`; files on `background`
//                                                     └──► watermark, shutdown, ping
//   workers ─► data_path() ──► Tablet
//
// A server serves nothing until the chief assigns tablets to it, so a server that has restarted
// answers MOVED. Thread-safe: control runs under mu_; the data path runs beside it (see DataPath);
// `background` work holds mu_ only to hand over its result. In one thread (a simulator) everything
// is deterministic.
class PsCore {
 public:
  struct Options {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    uint32_t cores = 1;
    std::string unix_socket;
    std::string host_id;
    std::string instruction_set;  // for the numeric fingerprint
    std::string libraries;
    Duration chief_timeout = std::chrono::seconds(10);
    size_t max_idle_bytes = size_t{256} << 20;  // the most that recycled buffers take
    ShardOptions shard;
    uint64_t memory_bytes = 0;     // an assignment that needs more memory is refused; 0: no limit
    SharedMemoryPool memory_pool;  // what it shares with other servers; 0 bytes: no limit
    uint64_t least_room = ServerMemory::kLeastRoom;
    // How long the close of a step may wait for the blocks that a snapshot writes.
    Duration close_patience = Duration::zero();
    AppliedSet::Limits applied_limits;
    Copies::Options copies;
    TabletTestFaults test_faults;
  };
  // What the core uses; all outlive it.
  struct Environment {
    const Clock* clock = nullptr;
    ShardStore* store = nullptr;
    MetricsRegistry* metrics = nullptr;
    Logger* log = nullptr;
    ApplyLog* apply_log = nullptr;  // may be null
    ChiefSink* sink = nullptr;
    CopyTransport* copies = nullptr;  // null: tablets of this server have no copies elsewhere
    // Runs functions later, one after another, never inside the call. Functions that are left when
    // the core is destroyed must not run any more.
    std::function<void(std::function<void()>)> background;
    // Like `background`, for short work on tablets, in the order of the chief's messages.
    std::function<void(std::function<void()>)> tablet_work;
    // Called without a lock when requests that waited for a step (DataPath::MustWait) or for a copy
    // may have an answer now: in `tablet_work`, or on the thread of the stream to the copy. May be
    // null.
    std::function<void()> on_step_open;
    // Called with the lock held when the chief ends the job.
    std::function<void(bool job_finished, const std::string& reason)> on_shutdown;
    // Returns what this task reports with a Pong. May be null.
    std::function<v1::TaskFigures()> figures;
  };

  PsCore(const Options& options, Environment environment);
  ~PsCore();

  // Handles a message of a chief. The first one of a connection is AdoptPs.
  void OnMessage(Adoption::Connection connection, const v1::ChiefToPs& message);
  void OnClosed(Adoption::Connection connection, ChiefLoss loss);

  // What happens to streams to copies; and what else has to be called several times a second.
  Copies* copies() { return &copies_; }
  // A stream begins on which the primary of a tablet sends its log. Returns its number: that of
  // each later stream is higher.
  uint64_t OnCopyStream() { return ++copy_streams_; }
  // An entry of the log of a tablet whose copy is here.
  v1::CopyAck OnCopyEntry(const v1::CopyEntry& entry, const TabletCopy::Payload& payload);

  DataPath* data_path() { return &data_path_; }
  BufferPool* pool() { return pool_.get(); }
  ServerMemory* memory() { return &memory_; }
  // Valid as long as the core.
  Admission admission() { return {&data_path_, &snapshots_, &memory_, options_.test_faults}; }
  // Bytes of values and slots that only answers, readers in place and snapshots keep.
  uint64_t superseded_bytes() const {
    return data_path_.SupersededBytes() + snapshots_.SupersededBytes();
  }
  PsMetrics* metrics() { return &metrics_; }

  // True if tablets have been assigned, for readiness.
  bool serving() const { return data_path_.tablets() != nullptr; }
  // The text of /readyz: "" unless tablets are being made, which a restore may delay. A server that
  // has none yet is ready, because the chief assigns them.
  std::string Readiness() const;
  // True if an adopted chief's stream is open. Does not wait.
  bool chief_connected() const { return chief_connected_.load(std::memory_order_relaxed); }
  // Waits until no snapshot is left. Returns false at the deadline.
  bool WaitForSnapshots(TimePoint deadline) const { return snapshots_.WaitForNone(deadline); }
  // Stops running snapshots at their next block.
  void DropSnapshots() { snapshots_.CancelAll(); }
  // A page for people: tablets, versions, chief.
  std::string StatusText() const;

 private:
  using Connection = Adoption::Connection;
  // The connection and the request that an answer belongs to.
  struct Asker {
    uint64_t generation = 0;
    uint64_t request = 0;
  };

  void OnAdopt(Connection connection, const v1::ChiefToPs& message, bool sees)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether this task sees the chief's token in the checkpoint directory. Logs it if not.
  bool SeesCheckpointDir(const v1::AdoptPs& adopt) const;
  void AnswerHello(Connection connection, const v1::ChiefToPs& message, bool sees,
                   const absl::Status& status = absl::OkStatus())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendFenced(Connection connection, uint64_t request, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillHello(const v1::AdoptPs& adopt, v1::PsHello* hello) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void OnAssign(const Asker& asker, const v1::AssignTablets& assign)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs in `background`.
  void Build(uint64_t build, const v1::AssignTablets& assign);
  void OnBuilt(uint64_t build, absl::StatusOr<std::shared_ptr<TabletSet>> tablets);
  // Nothing that is being built will be served.
  void DropBuild() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Sends a report to the chief that asked, if the last one was a second ago and no message is
  // being handled. `last`: when that was.
  void Report(const Asker& asker, uint64_t bytes, TimePoint* last);
  // Reports the progress of one request.
  DataPath::Progress Reporter(const Asker& asker);

  void OnWatermark(uint64_t watermark) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnSumStep(const Asker& asker, const v1::SumStep& sum);
  void OnCloseStep(const Asker& asker, const v1::CloseStep& close);
  void OnLearningRates(const Asker& asker, const v1::LearningRates& rates);
  void OnTakeHomes(const Asker& asker, const v1::TakeHomes& take);
  void OnMakeCopy(const Asker& asker, const v1::AssignTablets& assign);
  void OnCopyComplete(const v1::TabletHome& home);
  // Copies have acknowledged entries: answers that waited for them may go. On the thread of the
  // stream.
  void OnAcknowledged();
  // The same in `tablet_work`, and for closes too.
  void OnCopied();
  void PostCopied();
  void OnCopyLost(const v1::TabletHome& home, const absl::Status& why);
  // Acknowledges the closes that copies have, too.
  void AnswerClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Requests may have an answer now: the step that they wait for is open, or will never be.
  void WakeParked();

  void OnSnapshot(const Asker& asker, const v1::TakeSnapshot& take);
  // Error: InvalidArgument if it does not lie in the checkpoint directory of the chief.
  absl::Status CheckSnapshotDirectory(const std::string& directory);
  // `averages`: those of variables become their values. Errors: those of Tablet::Snapshot.
  static absl::Status TakeSnapshot(const TabletSet& tablets, const v1::TakeSnapshot& take,
                                   SnapshotJob* job, v1::SnapshotTaken* taken);
  // Waits until a close may copy what a snapshot still needs.
  void AwaitRoomToClose();
  void WriteSnapshot(const Asker& asker, const std::shared_ptr<SnapshotJob>& job);
  void AnswerSnapshot(const Asker& asker, const SnapshotJob& job, double seconds,
                      absl::StatusOr<std::vector<v1::SnapshotFile>> files)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Sends an answer to the chief that asked, if it is still connected.
  void Answer(const Asker& asker, v1::PsToChief* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnswerError(const Asker& asker, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const Environment env_;
  PsMetrics metrics_;
  BufferPool::Handle pool_;
  DataPath data_path_;
  ServerMemory memory_;
  const TabletBuilder builder_;
  PendingSnapshots snapshots_;
  Copies copies_;
  std::atomic<bool> copied_posted_{false};  // OnCopied to `tablet_work`

  std::atomic<bool> chief_connected_{false};  // written under mu_

  mutable Mutex mu_;
  Adoption adoption_ ABSL_GUARDED_BY(mu_);
  uint32_t index_ ABSL_GUARDED_BY(mu_);              // this server's number for its chief
  std::string checkpoint_dir_ ABSL_GUARDED_BY(mu_);  // that of the adopted chief
  // The newest assignment, until its tablets are served. A build makes the values; whoever asked
  // last for the same ones gets them.
  struct Assignment {
    Asker asker;
    std::shared_ptr<const v1::AssignTablets> assign;  // null: nothing is assigned
    std::string contents;                             // TabletBuilder::ContentsOf
  };
  Assignment assignment_ ABSL_GUARDED_BY(mu_);
  // Steps that are closed here, and not yet by copies.
  struct Closing {
    Asker asker;
    uint64_t step = 0;
    CopyMarks marks;
    std::string log_lines;
  };
  std::vector<Closing> closing_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> copy_streams_{0};      // OnCopyStream has returned them
  std::atomic<bool> closing_waits_{false};     // closing_ has some. Written under mu_
  bool reports_ ABSL_GUARDED_BY(mu_) = false;  // the chief's version takes them
  std::atomic<uint64_t> build_{0};             // the newest; older ones end. Written under mu_
  std::string building_ ABSL_GUARDED_BY(mu_);  // what the newest assignment waits for; "": nothing
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_CORE_H_
