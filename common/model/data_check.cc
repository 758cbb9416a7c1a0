#include "common/model/data_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/dataset.h"
#include "common/data/file_part.h"
#include "common/data/stream_files.h"
#include "common/model/model_builder.h"

namespace cohort {
namespace {

// The class of a label: a number, or the position of the greatest one. -1: it is none.
int64_t ClassOf(std::span<const double> label) {
  if (label.size() > 1) return std::max_element(label.begin(), label.end()) - label.begin();
  const double number = label[0];
  if (!(number >= 0 && number < kMostWeightedClasses) || number != std::trunc(number)) return -1;
  return static_cast<int64_t>(number);
}

}  // namespace

absl::Status BalanceClasses(const Dataset& train, v1::JobSpec* job) {
  v1::FitSpec* const fit = job->mutable_fit();
  if (!fit->balance_classes()) return absl::OkStatus();
  const auto error = [](absl::Status status) {
    return Annotate(std::move(status), "`fit.class_weight: balanced`");
  };
  const std::vector<std::string> labels = LabelsOf(job->data().train());
  if (labels.size() != 1) {
    return error(InvalidArgument("it is for one label, and `data.train` has {}", labels.size()));
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<int> features, train.FindFeatures(labels));
  const FeatureType& type = train.features()[static_cast<size_t>(features[0])];
  if (type.dims.size() > 1) {
    return error(
        InvalidArgument("the label \"{}\" has the shape {}; a class is a number, or one-hot",
                        type.name, DimsToString(type.dims)));
  }
  constexpr uint64_t kBlockRecords = 4096;
  const auto elements = static_cast<size_t>(NumElements(type.dims));
  std::map<int64_t, uint64_t> counts;
  std::vector<Tensor> batch;
  std::vector<uint64_t> records;
  std::vector<double> numbers;
  for (uint64_t first = 0; first < train.num_records(); first += records.size()) {
    records.clear();
    const uint64_t end = std::min(first + kBlockRecords, train.num_records());
    for (uint64_t record = first; record < end; ++record) records.push_back(record);
    COHORT_RETURN_IF_ERROR(train.Gather(records, features, &batch));
    numbers.resize(records.size() * elements);
    ConvertNumbers(type.dtype, batch[0].raw(), DType::kFloat64, numbers.data(), numbers.size());
    for (size_t i = 0; i < records.size(); ++i) {
      const int64_t label = ClassOf(std::span(numbers).subspan(i * elements, elements));
      if (label < 0) {
        return error(InvalidArgument("record {} has the label {}; a class is a number of 0 to {}",
                                     records[i], numbers[i * elements], kMostWeightedClasses - 1));
      }
      ++counts[label];
    }
  }
  fit->clear_class_weight();
  const auto all = static_cast<double>(train.num_records());
  for (const auto& [label, count] : counts) {
    const double balanced = static_cast<double>(counts.size()) * static_cast<double>(count);
    (*fit->mutable_class_weight())[label] = all / balanced;
  }
  return absl::OkStatus();
}

namespace {

absl::Status SplitTraining(const DataOptions& options, v1::JobSpec* job) {
  const double split = job->fit().validation_split();
  if (split <= 0) return absl::OkStatus();
  v1::DatasetSpec* const train = job->mutable_data()->mutable_train();
  // No transform changes the number of records, but a filter may read what one makes.
  v1::DatasetSpec source = *train;
  if (source.filter().empty()) source.clear_transforms();
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

// The columns of a stream are those of the first block of its first file.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenStreamSample(const DataOptions& options,
                                                                v1::JobSpec* job) {
  v1::DataSpec* const data = job->mutable_data();
  COHORT_RETURN_IF_ERROR(CheckLearnsNothing(data->train()));
  COHORT_ASSIGN_OR_RETURN(const auto files,
                          ListStreamFiles(data->train(), data->stream(), options));
  const BlockCutter::Options cut{.batch_size = data->batch_size(), .most_blocks = 1};
  for (const std::string& path : files) {
    const auto advise = [&](absl::Status status) {
      return AdviseToSkip(std::move(status), path, options,
                          "correct it and start the job again, or ");
    };
    const auto taken = TakeStreamFile(data->train(), path, cut, options);
    COHORT_RETURN_IF_ERROR(advise(taken.status()));
    const v1::StreamFile& file = *taken;
    if (file.places() == 0) continue;
    const PartDataset sample(data->train(), PartOf(file, 0), options);
    // Vocabularies that are in files are learned from those.
    v1::DataSpec learning = *data;
    *learning.mutable_train() = *sample.spec;
    COHORT_RETURN_IF_ERROR(ResolveVocabularies(&learning, sample.options));
    *data->mutable_train()->mutable_transforms() = learning.train().transforms();
    *data->mutable_validation() = learning.validation();
    if (!learning.has_validation()) data->clear_validation();
    auto opened = Dataset::Open(learning.train(), sample.options);
    if (!opened.ok()) return advise(opened.status());
    return opened;
  }
  return NotFound("no complete file of the stream {} has a record: its columns are not known",
                  StreamPlace(data->train()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenTraining(const DataOptions& options,
                                                            v1::JobSpec* job) {
  if (job->data().visitation() == v1::STREAM) return OpenStreamSample(options, job);
  COHORT_RETURN_IF_ERROR(SplitTraining(options, job));
  COHORT_RETURN_IF_ERROR(ResolveVocabularies(job->mutable_data(), options));
  COHORT_ASSIGN_OR_RETURN(auto train, Dataset::Open(job->data().train(), options));
  COHORT_RETURN_IF_ERROR(BalanceClasses(*train, job));
  return train;
}

absl::StatusOr<uint64_t> StepsPerEpoch(const JobFile& job, uint64_t records) {
  const v1::DataSpec& data = job.spec.data();
  const uint64_t batch = data.batch_size();
  if (data.visitation() == v1::STREAM) return job.spec.fit().steps_per_epoch();
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
