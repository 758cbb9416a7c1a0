#ifndef COHORT_CHIEF_JOB_JOB_CONTROLS_H_
#define COHORT_CHIEF_JOB_JOB_CONTROLS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "chief/api/training_cluster.h"
#include "chief/job/control_note.h"
#include "chief/job/job_console.h"
#include "chief/job/job_keys.h"
#include "chief/job/job_plan.h"
#include "common/base/mutex.h"

namespace cohort {

// What a user changes of a job while it runs or between two runs: the pause, fences of workers, the
// number of epochs, and which learning rate is the newest wish. The note in the checkpoint
// directory keeps them for the chief that is started next (control_note.h).
//
//   1. Read, before the job looks at the checkpoints: more epochs make a finished job unfinished.
//   2. Keep, when the directory is known to be this job's: the note is what this start uses of it.
//   3. Attach: the cluster has variables. It pauses if the job is paused, and fences workers.
//   4. SetPaused, FenceWorker and Extend, by threads of `cohort ctl`; UpdateEpochs, by the walk's.
//
// Changes come one after another: each holds a lock from its check to the durable note.
class JobControls {
 public:
  struct Start {
    std::string directory;  // holds the checkpoints
    bool fresh = false;     // no note counts
    // A supervisor, not a user, starts the chief: a paused job stays paused, and a fenced worker
    // fenced.
    bool restarted = false;
  };
  struct Asked {
    uint64_t epochs = 0;
    uint64_t steps = 0;  // that these epochs have; 0: not known yet
    bool paused = false;
  };

  // Both outlive the object.
  JobControls(JobPlan* plan, JobConsole* console) : plan_(plan), console_(console) {}

  // Errors: those of ReadControlNote.
  absl::Status Read(const Start& start);
  // Errors: those of the file; a full disk has its exit code.
  absl::Status Keep();
  // The directory's note belongs to a former job: the job begins as its file says. Errors: as Keep.
  absl::Status Forget();
  void Attach(TrainingCluster* cluster);
  // `changes`: between the newest checkpoint and the job file. If the learning rate of the file was
  // edited, it is the newest wish once: it replaces the rates that were set before, and those that
  // are set later replace it. Errors: those of the cluster and the file.
  absl::Status ApplyEdits(const std::vector<KeyChange>& changes, TrainingCluster* cluster);

  absl::Status SetPaused(bool paused, TrainingCluster* cluster);
  // Errors: those of the cluster and the file.
  absl::Status FenceWorker(int worker, bool fenced, TrainingCluster* cluster);
  // Errors: InvalidArgument if the job has as many epochs; FailedPrecondition if the training has
  // ended.
  absl::Status Extend(uint64_t epochs);
  // JobWalk::Environment::update_epochs.
  void UpdateEpochs(bool ends);

  // Does not wait for a change.
  Asked asked() const;

 private:
  absl::Status Store(const ControlNote& note) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);

  JobPlan* const plan_;
  JobConsole* const console_;

  Mutex changing_;
  std::string directory_ ABSL_GUARDED_BY(changing_);
  ControlNote note_ ABSL_GUARDED_BY(changing_);
  ControlNote stored_ ABSL_GUARDED_BY(changing_);             // what the file has
  bool training_is_done_ ABSL_GUARDED_BY(changing_) = false;  // no epochs can be added

  mutable Mutex mu_;
  Asked asked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_CONTROLS_H_
