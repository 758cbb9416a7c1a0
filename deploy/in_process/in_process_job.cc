#include "deploy/in_process/in_process_job.h"

#include <atomic>
#include <string_view>
#include <thread>
#include <utility>

#include "chief/chief.h"
#include "chief/chief_options.h"
#include "common/base/status.h"
#include "deploy/in_process/attendant.h"
#include "evaluator/evaluator.h"
#include "evaluator/evaluator_options.h"

namespace cohort {
namespace {

class ChiefTask : public InProcessTask {
 public:
  static StartedTask Start(RoleContext context, const ChiefFlags& flags,
                           const std::string& data_dir) {
    auto self = std::unique_ptr<ChiefTask>(new ChiefTask(std::move(context)));
    COHORT_ASSIGN_OR_RETURN(Chief::Options options,
                            MakeChiefOptions(flags, self->context_, data_dir.c_str()));
    options.progress_output = [](std::string_view) {};
    COHORT_ASSIGN_OR_RETURN(self->chief_, Chief::Start(std::move(options)));
    self->waiter_ = std::thread([raw = self.get()] {
      const absl::Status status = raw->chief_->Wait().status();
      if (!raw->interrupted_) raw->end()->Set(LogEnd(raw->context_, status));
    });
    return self;
  }
  // Interrupts the job: the chief still writes its last settle record.
  ~ChiefTask() override {
    if (!waiter_.joinable()) return;
    interrupted_ = true;
    chief_->Interrupt();
    waiter_.join();
  }

 private:
  explicit ChiefTask(RoleContext context) : context_(std::move(context)) {}

  RoleContext context_;
  std::atomic<bool> interrupted_{false};
  std::unique_ptr<Chief> chief_;
  std::thread waiter_;
};

class EvaluatorTask : public InProcessTask {
 public:
  static StartedTask Start(RoleContext context, const EvaluatorFlags& flags,
                           const std::string& data_dir) {
    auto self = std::unique_ptr<EvaluatorTask>(new EvaluatorTask(std::move(context)));
    Evaluator::Options options = MakeEvaluatorOptions(flags, self->context_, data_dir.c_str());
    options.print = [log = self->context_.log.get()](std::string_view line) {
      log->Info("evaluated", {{"result", line}});
      return absl::OkStatus();
    };
    COHORT_ASSIGN_OR_RETURN(self->evaluator_, Evaluator::Create(std::move(options)));
    self->attendant_ =
        std::make_unique<Attendant>(self->end().get(), [raw = self.get()]() -> std::optional<int> {
          const absl::StatusOr<bool> more = raw->evaluator_->Poll();
          if (!more.ok()) return LogEnd(raw->context_, more.status());
          return raw->evaluator_->done() ? std::optional<int>(0) : std::nullopt;
        });
    return self;
  }

 private:
  explicit EvaluatorTask(RoleContext context) : context_(std::move(context)) {}

  RoleContext context_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Attendant> attendant_;
};

}  // namespace

StartedTask StartInProcessChief(const InProcessTaskOptions& options) {
  ChiefFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context,
                          ReadTaskFlags(AddChiefFlags, &flags, Role::kChief, options));
  return ChiefTask::Start(std::move(context), flags, options.data_dir);
}

StartedTask StartInProcessEvaluator(const InProcessTaskOptions& options) {
  EvaluatorFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context,
                          ReadTaskFlags(AddEvaluatorFlags, &flags, Role::kEvaluator, options));
  return EvaluatorTask::Start(std::move(context), flags, options.data_dir);
}

}  // namespace cohort
