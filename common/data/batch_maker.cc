#include "common/data/batch_maker.h"

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<BatchMaker> BatchMaker::Create(std::shared_ptr<const Dataset> dataset,
                                              const BatchReader::Options& options) {
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
  maker.dataset_ = std::move(dataset);
  maker.features_ = options.features;
  return maker;
}

}  // namespace cohort
