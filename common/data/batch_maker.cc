#include "common/data/batch_maker.h"

#include "common/base/status.h"
#include "common/tensor/philox.h"

namespace cohort {

absl::StatusOr<BatchMaker> BatchMaker::Create(std::shared_ptr<const Dataset> dataset,
                                              const BatchReader::Options& options,
                                              uint64_t random_key) {
  if (options.batch_size == 0) return InvalidArgument("batch_size must be at least 1");
  BatchMaker maker;
  size_t bytes = 0;  // in a full batch
  for (const int feature : options.features) {
    if (feature < 0 || static_cast<size_t>(feature) >= dataset->features().size()) {
      return InvalidArgument("feature {} of a dataset that has {}", feature,
                             dataset->features().size());
    }
    const FeatureType& type = dataset->features()[static_cast<size_t>(feature)];
    bytes += static_cast<size_t>(NumElements(type.dims)) * SizeOf(type.dtype) * options.batch_size;
  }
  maker.made_ahead_ =
      options.prefetch > 0 && (bytes > options.inline_bytes || dataset->computes_records());
  if (options.threads > 1 && dataset->computes_records()) {
    maker.helpers_ = std::make_unique<WorkPool>(options.threads - 1, "records");
  }
  maker.training_ = options.training;
  maker.random_key_ = random_key;
  maker.dataset_ = std::move(dataset);
  maker.features_ = options.features;
  return maker;
}

absl::Status BatchMaker::Make(uint64_t epoch, std::span<const uint64_t> indices,
                              BatchReader::Batch* batch) const {
  batch->records = static_cast<int64_t>(indices.size());
  Dataset::GatherOptions options;
  options.training = training_;
  if (training_) options.random_key = PhiloxMix(random_key_, epoch);
  options.helpers = helpers_.get();
  return dataset_->Gather(indices, features_, options, &batch->tensors);
}

}  // namespace cohort
