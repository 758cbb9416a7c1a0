#ifndef COHORT_CHIEF_API_LOCKED_CORE_TEST_UTIL_H_
#define COHORT_CHIEF_API_LOCKED_CORE_TEST_UTIL_H_

#include <string>

#include "chief/api/coordinator.h"
#include "chief/api/locked_core.h"
#include "common/testing/directory_test_util.h"

namespace cohort::testing {

// A core without a cluster: its effects do nothing.
struct IdleCore : CoreEffects {
  IdleCore() : log(Logger::Discard()), core(&clock) {
    options.job = "job";
    options.checkpoint_dir = directory.path();
    options.chief_incarnation = 1;
    options.task_timeout_s = 0.02;
    options.clock = &clock;
    options.log = log.get();
    CoreOptions core_options;
    static_cast<JobSettings&>(core_options) = options;
    core_options.workers = {"w0:1"};
    core_options.ps = {"p0:1"};
    core.Create(core_options, this);
  }

  void SendToWorker(int, v1::ChiefToWorker) override {}
  void SendToPs(int, v1::ChiefToPs) override {}
  void Reconnect(Task, const std::string&) override {}
  void TakeGeneration(uint64_t) override {}
  void ReadJournal() override {}
  void AppendJournal(v1::JournalRecord) override {}
  void WriteManifest(v1::Manifest) override {}
  void ClosureDone(uint64_t, const absl::Status&, v1::ClosureResult*) override {}
  void CutDone(uint64_t, const absl::Status&) override {}
  void RollbackDone(const absl::Status&) override {}
  void Note(const char*, const std::string&) override {}

  TestDirectory directory;
  RealClock clock;
  std::unique_ptr<Logger> log;
  CoordinatorOptions options;
  LockedCore core;
};

}  // namespace cohort::testing

#endif  // COHORT_CHIEF_API_LOCKED_CORE_TEST_UTIL_H_
