#include "chief/job/job_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/data/fingerprint.h"
#include "common/graph/program_proto.h"
#include "common/model/data_check.h"

namespace cohort {
namespace {

// Of a list of texts, each with an end that is in no UTF-8 text.
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
  COHORT_RETURN_IF_ERROR(at(ResolveVocabularies(data, options), "data.train"));
  const auto opened = Dataset::Open(data->train(), options);
  COHORT_RETURN_IF_ERROR(at(opened.status(), "data.train"));
  const std::shared_ptr<const Dataset>& train = *opened;
  plan.train_records_ = train->num_records();
  plan.train_data_ = train->fingerprint();
  std::shared_ptr<const Dataset> validation_set;
  if (data->has_validation()) {
    const auto validation = Dataset::Open(data->validation(), options);
    COHORT_RETURN_IF_ERROR(at(validation.status(), "data.validation"));
    validation_set = *validation;
    plan.validation_records_ = (*validation)->num_records();
    plan.validation_data_ = (*validation)->fingerprint();
  }
  if (plan.validation_records_ == 0 && !spec.checkpoint().keep_best().empty()) {
    return InvalidArgument("{}: the validation set has no records, and `keep_best` needs some",
                           plan.job_.lines.Where("checkpoint.keep_best"));
  }
  COHORT_RETURN_IF_ERROR(CheckInputs(plan.job_, *train));
  COHORT_ASSIGN_OR_RETURN(plan.model_, BuildModel(spec, train->features(), &plan.job_.lines));
  if (validation_set != nullptr) {
    COHORT_RETURN_IF_ERROR(CheckValidation(plan.job_, plan.model_, *train, *validation_set));
  }
  COHORT_ASSIGN_OR_RETURN(plan.steps_per_epoch_, StepsPerEpoch(plan.job_, plan.train_records_));

  const uint64_t batch = data->batch_size();
  uint64_t hash = Hash(kFnv1aBasis, Fingerprint(plan.model_.train));
  for (const v1::VariableSpec& variable : plan.model_.variables) {
    hash = Hash(hash, variable.SerializeAsString());
  }
  hash = Hash(hash, plan.model_.optimizer.SerializeAsString());
  hash = Hash(hash, BatchDefiningPart(data->train()).SerializeAsString());
  hash =
      Hash(hash, fmt::format("{} {} {} {} {}", batch, static_cast<int>(data->visitation()),
                             plan.steps_per_epoch_, spec.fit().steps_per_execution(), spec.seed()));
  plan.identity_ = fmt::format("{}-{:016x}", spec.name(), hash);
  return plan;
}

uint32_t JobPlan::StepsAt(uint64_t place) const {
  const uint64_t wanted = std::max<uint32_t>(1, job_.spec.fit().steps_per_execution());
  return static_cast<uint32_t>(std::min(wanted, EpochEndOf(place) - place));
}

std::vector<LeaseRange> JobPlan::LeasesAt(uint64_t place, uint32_t steps) const {
  std::vector<LeaseRange> leases;
  if (!exactly_once()) return leases;
  for (uint64_t p = place; p < place + steps; ++p) {
    const uint64_t begin = p % steps_per_epoch_ * batch_size();
    leases.push_back({.epoch = p / steps_per_epoch_,
                      .begin = begin,
                      .end = std::min(train_records_, begin + batch_size())});
  }
  return leases;
}

std::vector<LeaseRange> JobPlan::ValidationBatches() const {
  std::vector<LeaseRange> batches;
  for (uint64_t begin = 0; begin < validation_records_; begin += batch_size()) {
    batches.push_back(
        {.epoch = 0, .begin = begin, .end = std::min(validation_records_, begin + batch_size())});
  }
  return batches;
}

}  // namespace cohort
