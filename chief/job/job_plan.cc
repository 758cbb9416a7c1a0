#include "chief/job/job_plan.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/fnv1a.h"
#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/data/fingerprint.h"
#include "common/data/stream_files.h"
#include "common/graph/program_proto.h"
#include "common/model/batch_text.h"
#include "common/model/data_check.h"
#include "common/optimizers/schedules/schedule.h"

namespace cohort {
namespace {

// Hashes a list of texts. The separator byte does not occur in UTF-8 texts.
uint64_t Hash(uint64_t hash, std::string_view bytes) { return Fnv1a("\xff", Fnv1a(bytes, hash)); }

}  // namespace

absl::StatusOr<JobPlan> JobPlan::Make(JobFile job, const DataOptions& options) {
  JobPlan plan;
  plan.job_ = std::move(job);
  v1::JobSpec& spec = plan.job_.spec;
  v1::DataSpec* data = spec.mutable_data();
  const auto at = [&](absl::Status status, std::string_view key) {
    return Annotate(std::move(status), plan.job_.lines.Where(key));
  };
  const auto opened = OpenTraining(options, &spec);
  COHORT_RETURN_IF_ERROR(at(opened.status(), "data.train"));
  const std::shared_ptr<const Dataset>& train = *opened;
  const bool is_stream = data->visitation() == v1::STREAM;
  if (is_stream) {
    plan.schedule_.stream = std::make_shared<StreamPlaces>(data->batch_size());
  } else {
    plan.schedule_.train_records = train->num_records();
    plan.train_data_ = train->fingerprint();
  }
  plan.AddWarnings("training data", *train);
  std::shared_ptr<const Dataset> validation_set;
  if (data->has_validation()) {
    const auto validation = Dataset::Open(data->validation(), options);
    COHORT_RETURN_IF_ERROR(at(validation.status(), "data.validation"));
    validation_set = *validation;
    plan.AddWarnings("validation data", *validation_set);
    plan.schedule_.validation_records = (*validation)->num_records();
    plan.validation_data_ = (*validation)->fingerprint();
  }
  if (plan.schedule_.validation_records == 0 && !spec.checkpoint().keep_best().empty()) {
    return InvalidArgument("{}: the validation set has no records, and `keep_best` needs some",
                           plan.job_.lines.Where("checkpoint.keep_best"));
  }
  // A record of the first file of a stream may be what is wrong.
  const auto with_advice = [&](absl::Status status) {
    for (const v1::FileFingerprint& file : train->fingerprint().files()) {
      if (!is_stream || !absl::StrContains(status.message(), file.path())) continue;
      return AdviseToSkip(std::move(status), file.path(), options,
                          "correct it and start the job again, or ");
    }
    return status;
  };
  COHORT_RETURN_IF_ERROR(with_advice(CheckInputs(plan.job_, *train)));
  auto model = BuildModel(spec, train->features(), &plan.job_.lines);
  COHORT_RETURN_IF_ERROR(with_advice(model.status()));
  plan.model_ = *std::move(model);
  if (validation_set != nullptr) {
    COHORT_RETURN_IF_ERROR(CheckValidation(plan.job_, plan.model_, *train, *validation_set));
  }
  JobSchedule& schedule = plan.schedule_;
  COHORT_ASSIGN_OR_RETURN(schedule.steps_per_epoch,
                          StepsPerEpoch(plan.job_, schedule.train_records));
  schedule.epochs = spec.fit().epochs();
  schedule.steps_per_closure = std::max<uint32_t>(1, spec.fit().steps_per_execution());
  schedule.batch_size = data->batch_size();
  schedule.exactly_once = data->visitation() == v1::EXACTLY_ONCE || is_stream;
  if (spec.evaluate().by_closures()) {
    schedule.validation_every_epochs = std::max<uint64_t>(1, spec.fit().validation_freq());
    schedule.validation_epochs.assign(spec.fit().validation_epochs().begin(),
                                      spec.fit().validation_epochs().end());
    schedule.validation_steps = spec.fit().validation_steps();
  }
  schedule.max_steps = spec.fit().max_steps();

  plan.keys_ = KeysOfSpec(spec);
  AddVariables({plan.model_.variables.begin(), plan.model_.variables.end()}, plan.model_.optimizers,
               &plan.keys_);
  const v1::JobIdentity identity = IdentityOf(plan.keys_);
  uint64_t hash = kFnv1aBasis;
  for (const v1::JobKey& entry : identity.keys()) {
    hash = Hash(Hash(hash, entry.key()), entry.value());
  }
  plan.identity_ = fmt::format("{}-{:016x}", spec.name(), hash);
  plan.identity_keys_ = std::make_shared<const v1::JobIdentity>(identity);
  return plan;
}

void JobPlan::AddStreamFiles(const std::vector<v1::StreamFile>& files, uint64_t end) {
  for (const v1::StreamFile& file : files) schedule_.stream->Add(file);
  schedule_.stream->Extend(end);
}

void JobPlan::EndStream() { schedule_.max_steps = schedule_.Limited(schedule_.stream->end()); }

void JobPlan::AddWarnings(std::string_view data, const Dataset& dataset) {
  for (const std::string& warning : dataset.warnings()) {
    data_warnings_.push_back(fmt::format("warning: {}: {}", data, warning));
  }
}

void JobPlan::SetClosuresPerStep(uint32_t closures) {
  if (closures == closures_per_step_) return;  // an elastic job starts its cluster again
  closures_per_step_ = closures;
  schedule_.closures_per_step = closures;
  const v1::StrategySpec& strategy = spec().strategy();
  if (strategy.scale_learning_rate() != "linear") return;
  for (v1::OptimizerSpec& optimizer : model_.optimizers) {
    auto& arguments = *optimizer.mutable_rule()->mutable_config();
    const auto rate = arguments.find("learning_rate");
    if (rate != arguments.end()) {
      ScaleLearningRate(UsedClosures(strategy, closures), &rate->second);
    }
  }
}

std::function<double(uint64_t)> JobPlan::LearningRate() const {
  if (model_.optimizers.empty()) return nullptr;
  const auto& arguments = model_.optimizers.front().rule().config();
  const auto rate = arguments.find("learning_rate");
  if (rate == arguments.end() || !IsSchedule(rate->second)) return nullptr;
  const auto schedule = MakeSchedule(rate->second);
  if (!schedule.ok()) return nullptr;  // servers report it
  return [schedule = *schedule](uint64_t step) { return schedule(static_cast<double>(step)); };
}

std::optional<double> JobPlan::ConstantLearningRate() const {
  if (model_.optimizers.size() != 1) return std::nullopt;
  const auto& arguments = model_.optimizers.front().rule().config();
  const auto rate = arguments.find("learning_rate");
  if (rate == arguments.end() || !rate->second.has_f()) return std::nullopt;
  // Keras keeps it in the type of the model.
  if (spec().model().dtype() == "float64") return rate->second.f();
  return static_cast<double>(static_cast<float>(rate->second.f()));
}

uint64_t JobPlan::closures_hash() const {
  return Hash(Hash(kFnv1aBasis, Fingerprint(model_.train)), epoch_plan().SerializeAsString());
}

v1::EpochPlan JobPlan::epoch_plan() const {
  v1::EpochPlan plan;
  plan.set_first_epoch(schedule_.first_epoch);
  plan.set_first_place(schedule_.first_place);
  plan.set_steps_per_epoch(schedule_.steps_per_epoch);
  plan.set_batch_size(static_cast<uint32_t>(schedule_.batch_size));
  plan.set_closures_per_step(closures_per_step_);
  return plan;
}

void JobPlan::SetEpochPlan(const v1::EpochPlan& plan) {
  schedule_.first_epoch = plan.first_epoch();
  schedule_.first_place = plan.first_place();
}

bool JobPlan::HasValidationDataOf(const v1::Manifest& manifest) const {
  const v1::DatasetSpec then = BatchDefiningPart(SpecOfManifest(manifest).data().validation());
  const v1::DatasetSpec now = BatchDefiningPart(spec().data().validation());
  if (StableBytes(then) != StableBytes(now)) return false;
  return !manifest.has_validation_data() ||
         DifferenceOf({validation_data_, "now"}, {manifest.validation_data(), "then"}).empty();
}

}  // namespace cohort
