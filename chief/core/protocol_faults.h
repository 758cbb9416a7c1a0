#ifndef COHORT_CHIEF_CORE_PROTOCOL_FAULTS_H_
#define COHORT_CHIEF_CORE_PROTOCOL_FAULTS_H_

namespace cohort {

// Planted bugs: wrong decisions of the chief. The simulator uses them to prove that it finds such
// bugs. Only tests set them. The code asks each of them at one place, which its comment names.
struct ProtocolFaults {
  bool publish_before_durable = false;  // Settlement: publishes a watermark that is not durable
  // Synchronous steps.
  bool settles_before_closed = false;  // Steps: results count when CloseStep is sent
  bool closes_before_closed = false;   // Steps: although some server has not closed the step before
  bool repeats_other_members = false;  // Steps: a restarted chief leaves out the last member
  bool forgets_half_close = false;     // Steps: a restarted chief does not repeat a half-sent close
  bool counts_older_results = false;   // CoordinatorCore: a restarted chief takes older results
  bool allows_more_staleness = false;  // StalenessWindow: by one step
  // Changes of the mode.
  bool changes_mode_early = false;      // Steps: while closures of the old mode run
  bool changes_mode_unsettled = false;  // ModeSwitch: before the journal has their results
  bool forgets_mode = false;            // ModeSwitch: a restarted chief returns to the job file's
  // Copies of tablets.
  bool promotes_filling = false;  // Homes: a copy that is not complete takes over
  bool hands_over_early = false;  // Homes: a tablet moves to a copy that is not complete
  // Tasks that join.
  bool forgets_at_once = false;  // JoinedTasks: a task whose stream has broken
  bool keeps_closures = false;   // CoordinatorCore: those of a lost worker stay with its place
  // Storage.
  bool commits_failed_files = false;  // Cut: although a server could not write its file
  bool ignores_progress = false;      // Cut: the deadline for files is on the whole time
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_PROTOCOL_FAULTS_H_
