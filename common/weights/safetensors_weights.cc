#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/weights/weight_source.h"

namespace cohort {
namespace {

class SafetensorsWeights : public WeightSource {
 public:
  explicit SafetensorsWeights(std::unique_ptr<SafetensorsReader> reader)
      : WeightSource(reader->path()), reader_(std::move(reader)) {}

  absl::Status Open() {
    std::vector<SourceTensor> tensors;
    for (const TensorInfo& info : reader_->tensors()) {
      tensors.push_back({info.name, info.dtype, info.dims});
    }
    return SetTensors(std::move(tensors));
  }

 protected:
  absl::Status ReadInto(const SourceTensor& tensor, std::span<uint8_t> out) override {
    return reader_->ReadBytes(*reader_->Find(tensor.name), 0, out.size(), out.data());
  }

 private:
  const std::unique_ptr<SafetensorsReader> reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensorsWeights(const std::string& path) {
  auto reader = SafetensorsReader::Open(path);
  if (absl::IsDataLoss(reader.status())) {
    return Annotate(reader.status(),
                    "weights are read from safetensors files, checkpoints and "
                    "Keras' .weights.h5, and this is none of them");
  }
  COHORT_RETURN_IF_ERROR(reader.status());
  auto weights = std::make_unique<SafetensorsWeights>(*std::move(reader));
  COHORT_RETURN_IF_ERROR(weights->Open());
  return weights;
}

}  // namespace cohort
