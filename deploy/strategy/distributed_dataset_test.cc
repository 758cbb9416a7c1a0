#include "deploy/strategy/distributed_dataset.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace cohort {
namespace {

using Catch::Contains;

std::vector<uint64_t> SizesOf(const DistributedBatch& batch) {
  std::vector<uint64_t> sizes;
  for (const ReplicaShare& share : batch.shares) sizes.push_back(share.examples());
  return sizes;
}

TEST_CASE("a pass has every record once, in shares that differ by one at most") {
  const DistributedDataset dataset(PerWorkerDataset{7}, /*records=*/23, /*global_batch=*/10, 4);
  CHECK(dataset.batches() == 3);
  std::vector<std::vector<uint64_t>> sizes;
  uint64_t next = 0;
  for (const DistributedBatch& batch : dataset.Epoch(5)) {
    CHECK(batch.dataset.resource == 7);
    for (const ReplicaShare& share : batch.shares) {
      CHECK(share.lease.epoch == 5);
      CHECK(share.lease.begin == next);
      next = share.lease.end;
    }
    sizes.push_back(SizesOf(batch));
  }
  CHECK(next == 23);
  CHECK(sizes == std::vector<std::vector<uint64_t>>{{3, 3, 2, 2}, {3, 3, 2, 2}, {1, 1, 1}});
}

TEST_CASE("rows of tensors are split without a copy") {
  std::vector<float> values(14);
  std::iota(values.begin(), values.end(), 0.0F);
  const Tensor x = Tensor::FromValues<float>({7, 2}, values);
  const DistributedDataset dataset({x}, /*records=*/7, /*global_batch=*/5, 2);
  const DistributedBatch first = dataset.Batch(0, 0);
  CHECK(first.examples() == 5);
  CHECK(SizesOf(first) == std::vector<uint64_t>{3, 2});
  CHECK(first.shares[1].columns[0].values<float>()[0] == 6);
  CHECK(first.shares[1].columns[0].raw() == x.values<float>().data() + 6);
  const DistributedBatch last = dataset.Batch(3, 1);
  CHECK(SizesOf(last) == std::vector<uint64_t>{1, 1});
  CHECK(last.shares[1].columns[0].values<float>()[1] == 13);
}

TEST_CASE("the columns of a batch have the same number of rows") {
  const Tensor three = Tensor::Zeros(DType::kFloat32, {3, 1});
  const auto split = SplitBatch({three, Tensor::Zeros(DType::kInt64, {3})}, 2);
  REQUIRE(split.ok());
  CHECK(SizesOf(*split) == std::vector<uint64_t>{2, 1});
  const auto message = [](const std::vector<Tensor>& columns) {
    return std::string(SplitBatch(columns, 2).status().message());
  };
  CHECK_THAT(message({}), Contains("at least one column"));
  CHECK_THAT(message({three, Tensor::Zeros(DType::kFloat32, {2})}), Contains("column 1"));
  CHECK_THAT(message({Tensor::Scalar<float>(1)}), Contains("column 0"));
  CHECK_THAT(message({Tensor::Zeros(DType::kFloat32, {0, 2})}), Contains("at least 1"));
}

}  // namespace
}  // namespace cohort
