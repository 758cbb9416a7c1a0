#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/tensor/table_rows.h"
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
      if (IsKeys(info)) continue;
      tensors.push_back({info.name, info.dtype, info.dims});
      const TensorInfo* const keys = reader_->Find(KeysNameOf(info.name));
      if (keys == nullptr) continue;
      if (keys->dtype != DType::kInt64 || keys->dims.size() != 1 || info.dims.empty() ||
          keys->dims[0] != info.dims[0]) {
        return DataLoss(
            "{}: \"{}\" is {}{}, and its rows \"{}\" are {}: each row has a key of int64", path(),
            keys->name, DTypeName(keys->dtype), DimsToString(keys->dims), info.name,
            DimsToString(info.dims));
      }
      tensors.back().dims[0] = kTableRows;
    }
    return SetTensors(std::move(tensors));
  }

  absl::StatusOr<uint64_t> TableSize(const SourceTensor& table) const override {
    return static_cast<uint64_t>(reader_->Find(table.name)->dims[0]);
  }

 protected:
  absl::Status ReadInto(const SourceTensor& tensor, std::span<uint8_t> out) override {
    return reader_->ReadBytes(*reader_->Find(tensor.name), 0, out.size(), out.data());
  }
  absl::Status ReadTableInto(const SourceTensor& table, bool values, RowTaker take) override {
    constexpr size_t kAtOnce = 8192;
    const TensorInfo& info = *reader_->Find(table.name);
    COHORT_ASSIGN_OR_RETURN(const Order order, OrderOf(table.name));
    const size_t rows = order.keys.size();
    const size_t row_bytes = rows == 0 ? 0 : info.bytes / rows;
    std::vector<uint8_t> bytes;
    for (size_t begin = 0; begin < rows; begin += kAtOnce) {
      const size_t count = std::min(kAtOnce, rows - begin);
      bytes.resize(values ? count * row_bytes : 0);
      if (values && order.places.empty()) {
        COHORT_RETURN_IF_ERROR(
            reader_->ReadBytes(info, begin * row_bytes, bytes.size(), bytes.data()));
      }
      for (size_t i = 0; i < count && values && !order.places.empty(); ++i) {
        COHORT_RETURN_IF_ERROR(reader_->ReadBytes(info, order.places[begin + i] * row_bytes,
                                                  row_bytes, bytes.data() + i * row_bytes));
      }
      COHORT_RETURN_IF_ERROR(take({order.keys.data() + begin, count}, bytes));
    }
    return absl::OkStatus();
  }

 private:
  // The keys of a table, ascending by RowOfKey.
  struct Order {
    std::vector<int64_t> keys;
    std::vector<uint64_t> places;  // where the row of each lies; empty: in this order
  };

  bool IsKeys(const TensorInfo& info) const {
    const std::string end = KeysNameOf("");
    return info.name.ends_with(end) &&
           reader_->Find(info.name.substr(0, info.name.size() - end.size())) != nullptr;
  }

  absl::StatusOr<Order> OrderOf(const std::string& table) const {
    const TensorInfo& info = *reader_->Find(KeysNameOf(table));
    Order order;
    order.keys.resize(static_cast<size_t>(info.dims[0]));
    COHORT_RETURN_IF_ERROR(reader_->ReadBytes(info, 0, info.bytes, order.keys.data()));
    if (!std::ranges::is_sorted(order.keys, {}, RowOfKey)) {
      order.places.resize(order.keys.size());
      std::iota(order.places.begin(), order.places.end(), 0);
      std::ranges::sort(order.places, {}, [&](uint64_t i) { return RowOfKey(order.keys[i]); });
      std::vector<int64_t> sorted;
      for (const uint64_t place : order.places) sorted.push_back(order.keys[place]);
      order.keys = std::move(sorted);
    }
    const auto twice = std::ranges::adjacent_find(order.keys, {}, RowOfKey);
    if (twice == order.keys.end()) return order;
    return DataLoss("{}: the key {} is twice in \"{}\" (the lowest 62 bits of a key count)", path(),
                    *twice, info.name);
  }

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
