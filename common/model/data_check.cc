#include "common/model/data_check.h"

#include <cmath>
#include <vector>

#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/model/model_builder.h"

namespace cohort {

namespace {

absl::Status SplitTraining(const DataOptions& options, v1::JobSpec* job) {
  const double split = job->fit().validation_split();
  if (split <= 0) return absl::OkStatus();
  v1::DatasetSpec* const train = job->mutable_data()->mutable_train();
  // No transform changes the number of records.
  v1::DatasetSpec source = *train;
  source.clear_transforms();
  source.clear_label();
  source.clear_labels();
  source.clear_sample_weight();
  source.clear_reads();
  COHORT_ASSIGN_OR_RETURN(const auto all, Dataset::Open(source, options));
  const auto records = static_cast<double>(all->num_records());
  const auto first = static_cast<uint64_t>(std::floor(records * (1.0 - split)));
  if (first == 0 || first == all->num_records()) {
    return InvalidArgument(
        "`fit.validation_split: {}` leaves {} of {} records for the training: both parts need some",
        split, first, all->num_records());
  }
  v1::DatasetSpec* const validation = job->mutable_data()->mutable_validation();
  validation->set_skip(train->skip() + first);
  validation->set_take(all->num_records() - first);
  train->set_take(first);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenTraining(const DataOptions& options,
                                                            v1::JobSpec* job) {
  COHORT_RETURN_IF_ERROR(SplitTraining(options, job));
  COHORT_RETURN_IF_ERROR(ResolveVocabularies(job->mutable_data(), options));
  return Dataset::Open(job->data().train(), options);
}

absl::StatusOr<uint64_t> StepsPerEpoch(const JobFile& job, uint64_t records) {
  const v1::DataSpec& data = job.spec.data();
  const uint64_t batch = data.batch_size();
  const uint64_t batches =
      data.train().drop_remainder() ? records / batch : (records + batch - 1) / batch;
  if (batches == 0) {
    return InvalidArgument("{}: the training set has {} records, fewer than a batch of {}{}",
                           job.lines.Where("data.batch_size"), records, batch,
                           records > 0 ? ", and `drop_remainder` leaves out shorter ones" : "");
  }
  return data.visitation() == v1::EXACTLY_ONCE ? batches : job.spec.fit().steps_per_epoch();
}

absl::Status CheckValidation(const JobFile& job, const BuiltModel& model, const Dataset& train,
                             const Dataset& validation) {
  const std::string where = job.lines.Where("data.validation.transforms");
  COHORT_ASSIGN_OR_RETURN(const std::vector<int> of_train, train.FindFeatures(model.eval_features));
  const auto found = validation.FindFeatures(model.eval_features);
  if (!found.ok()) {
    return Annotate(found.status(), fmt::format("{}: the validation set lacks a column", where));
  }
  for (size_t i = 0; i < of_train.size(); ++i) {
    const FeatureType& is = validation.features()[static_cast<size_t>((*found)[i])];
    const FeatureType& due = train.features()[static_cast<size_t>(of_train[i])];
    if (is.dtype == due.dtype && is.dims == due.dims) continue;
    return InvalidArgument(
        "{}: the validation set's column \"{}\" is {} {}, the training set's {} {}: give it the "
        "same transforms, or leave them out to use those of the training set",
        where, due.name, DTypeName(is.dtype), DimsToString(is.dims), DTypeName(due.dtype),
        DimsToString(due.dims));
  }
  return absl::OkStatus();
}

}  // namespace cohort
