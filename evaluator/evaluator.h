#ifndef COHORT_EVALUATOR_EVALUATOR_H_
#define COHORT_EVALUATOR_EVALUATOR_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/cluster/wait_list.h"
#include "common/report/reporter.h"
#include "evaluator/checkpoint_evaluator.h"
#include "evaluator/checkpoint_watch.h"
#include "evaluator/exporters.h"

namespace cohort {

class AdminServer;
class ServiceNotifier;
class SignalWaiter;
struct EvaluatorFlags;
struct RoleContext;

// A complete evaluator. It reads a checkpoint directory and never dials the cluster. It uses one
// thread, beside those of its admin port.
class Evaluator {
 public:
  struct Options {
    std::string checkpoint_dir;
    std::string log_dir;  // "": results are only printed
    std::string data_dir;
    std::string admin_address;  // "": no admin port
    int threads = 1;
    bool latest_only = false;
    std::string launch;                // the chief's (RunNote); "": any
    bool once = false;                 // the newest valid checkpoint, evaluated already or not
    uint64_t max_evaluations = 0;      // 0: no limit
    Duration wait = Duration::zero();  // zero: no deadline
    // As those of Estimator's EvalSpec; neither delays the last checkpoint of the job.
    Duration start_delay = Duration::zero();  // before the first evaluation
    Duration throttle = Duration::zero();     // from the begin of one to that of the next
    std::vector<std::string> exporters;       // "latest", "best", "final"; they need a log_dir
    size_t exports_to_keep = 5;
    Logger* log = nullptr;                                     // outlives the evaluator
    std::function<absl::Status(std::string_view line)> print;  // one JSON line per evaluation
    ServiceNotifier* notifier = nullptr;  // hears of each step of the work; may be null
  };

  // Errors: InvalidArgument (no directory named), those of Reporter and AdminServer.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(Options options);
  ~Evaluator();

  // Evaluates at most one checkpoint. Returns true if it did, or skipped one that it cannot read:
  // the caller should call again at once. Errors: those that make evaluation impossible (no
  // validation set, no data, a full disk), and DeadlineExceeded if no checkpoint came for `wait`.
  absl::StatusOr<bool> Poll();
  // Reports to the service manager that this thread works, and what it does.
  void Notify();
  ServiceNotifier* notifier() const { return options_.notifier; }
  // Returns true when max_evaluations, or the last checkpoint of the job, is reached.
  bool done() const { return done_; }
  int admin_port() const;  // -1: none

 private:
  explicit Evaluator(Options options);
  absl::StatusOr<std::optional<CheckpointEntry>> Choose();
  // Why the evaluation of a checkpoint has to wait; "": it need not.
  std::string MustWait(const CheckpointEntry& entry) const;
  absl::Status Export(const CheckpointEntry& entry,
                      const CheckpointEvaluator::Evaluation& evaluation);
  absl::Status Report(const CheckpointEntry& entry,
                      const CheckpointEvaluator::Evaluation& evaluation);

  // Returns the text of /statusz: the current activity, its duration, and the last evaluation.
  std::string StatusText() const;
  void SetActivity(std::string what);

  const Options options_;
  RealClock clock_;
  MetricsRegistry registry_;
  Counter* const evaluated_;
  Counter* const refused_;
  Gauge* const step_;
  mutable Mutex mu_;
  std::string doing_ ABSL_GUARDED_BY(mu_);
  TimePoint since_ ABSL_GUARDED_BY(mu_);
  std::string last_ ABSL_GUARDED_BY(mu_) = "nothing was evaluated yet";
  std::unique_ptr<Reporter> reporter_;  // may be null
  std::unique_ptr<CheckpointWatch> watch_;
  Exporters exporters_;
  CheckpointEvaluator evaluator_;
  std::unique_ptr<AdminServer> admin_;  // may be null
  WaitList waiting_;                    // for a checkpoint
  const TimePoint started_;
  TimePoint begun_;  // when the last evaluation began, if there was one
  uint64_t evaluations_ = 0;
  uint64_t turns_ = 0;  // counted for the service manager
  bool done_ = false;
};

Evaluator::Options MakeEvaluatorOptions(const EvaluatorFlags& flags, const RoleContext& context,
                                        const char* data_dir);

// Polls until the evaluator is done or a signal arrives. Returns the exit code.
absl::StatusOr<int> RunUntilEnd(Evaluator* evaluator, SignalWaiter* signals, Duration poll);

}  // namespace cohort

#endif  // COHORT_EVALUATOR_EVALUATOR_H_
