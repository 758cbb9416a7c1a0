#include "deploy/in_process/in_process_job.h"

#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "deploy/in_process/attendant.h"
#include "evaluator/evaluator.h"
#include "evaluator/evaluator_options.h"

namespace cohort {
namespace {

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

StartedTask StartInProcessEvaluator(const InProcessTaskOptions& options) {
  EvaluatorFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context,
                          ReadTaskFlags(AddEvaluatorFlags, &flags, Role::kEvaluator, options));
  return EvaluatorTask::Start(std::move(context), flags, options.data_dir);
}

}  // namespace cohort
