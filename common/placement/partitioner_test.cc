#include "common/placement/partitioner.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/placement/placement_test_util.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::VariableSpec Sized(std::vector<int64_t> dims, v1::DType dtype = v1::FLOAT32) {
  v1::VariableSpec variable;
  variable.set_name("v");
  variable.set_dtype(dtype);
  for (const int64_t dim : dims) variable.add_dims(dim);
  return variable;
}

v1::PartitionerSpec MinSize(uint64_t bytes, uint64_t max_shards) {
  v1::PartitionerSpec spec;
  spec.set_class_name("MinSize");
  spec.set_min_shard_bytes(bytes);
  spec.set_max_shards(max_shards);
  return spec;
}

v1::PartitionerSpec MaxSize(uint64_t bytes, uint64_t max_shards) {
  v1::PartitionerSpec spec;
  spec.set_class_name("MaxSize");
  spec.set_max_shard_bytes(bytes);
  spec.set_max_shards(max_shards);
  return spec;
}

int64_t Shards(const v1::PartitionerSpec& spec, const v1::VariableSpec& variable) {
  auto partitioner = Partitioner::Create(spec);
  REQUIRE(partitioner.ok());
  return partitioner->NumShards(variable);
}

TEST_CASE("div layout: the first dim0 % n shards are one row longer") {
  CHECK(DivideRows(10, 3) == std::vector<RowRange>{{0, 4}, {4, 3}, {7, 3}});
  CHECK(DivideRows(8, 2) == std::vector<RowRange>{{0, 4}, {4, 4}});
  CHECK(DivideRows(0, 1) == std::vector<RowRange>{{0, 0}});
  for (int64_t rows = 0; rows < 40; ++rows) {
    for (int64_t shards = 1; shards < 12; ++shards) {
      int64_t next = 0;
      for (const RowRange& range : DivideRows(rows, shards)) {
        REQUIRE(range.begin == next);
        next = range.end();
      }
      REQUIRE(next == rows);
    }
  }
}

// The expected numbers are those of tf.distribute.experimental.partitioners of TensorFlow 2.21.
TEST_CASE("FixedShards") {
  CHECK(Shards(FixedShards(2), Sized({6, 3})) == 2);
  CHECK(Shards(FixedShards(8), Sized({3, 3})) == 3);
  CHECK(Shards(FixedShards(8), Sized({})) == 1);
  CHECK(Shards(FixedShards(8), Sized({1, 5})) == 1);
}

TEST_CASE("MinSize") {
  // 6 * 1 float32 = 24 bytes.
  CHECK(Shards(MinSize(4, 2), Sized({6, 1})) == 2);
  CHECK(Shards(MinSize(4, 10), Sized({6, 1})) == 6);
  CHECK(Shards(MinSize(8, 10), Sized({6, 1})) == 3);
  CHECK(Shards(MinSize(7, 10), Sized({6, 1})) == 4);
  CHECK(Shards(MinSize(1024, 10), Sized({6, 1})) == 1);
  // The defaults: 256 KiB, one shard.
  CHECK(Shards(MinSize(0, 0), Sized({1 << 20, 16})) == 1);
  CHECK(Shards(MinSize(0, 100), Sized({1 << 18})) == 4);
  CHECK(Shards(MinSize(0, 100), Sized({1 << 18}, v1::FLOAT64)) == 8);
}

TEST_CASE("MaxSize") {
  CHECK(Shards(MaxSize(4, 0), Sized({6, 1})) == 6);
  CHECK(Shards(MaxSize(8, 0), Sized({6, 1})) == 3);
  CHECK(Shards(MaxSize(11, 0), Sized({6, 1})) == 3);
  CHECK(Shards(MaxSize(1024, 0), Sized({6, 1})) == 1);
  CHECK(Shards(MaxSize(4, 2), Sized({6, 1})) == 2);
  // A row is never cut, however large.
  CHECK(Shards(MaxSize(4, 0), Sized({6, 100})) == 6);
}

TEST_CASE("no partitioner is one shard; no rows, too") {
  CHECK(Shards(v1::PartitionerSpec(), Sized({100, 100})) == 1);
  CHECK(Shards(FixedShards(4), Sized({0, 3})) == 1);
}

TEST_CASE("shards share the rows of embeddings by hash") {
  v1::PartitionerSpec spec = FixedShards(4);
  v1::VariableSpec embedding = Sized({100, 8}), one_row = Sized({1, 8});
  embedding.set_row_reads(true);
  one_row.set_row_reads(true);
  CHECK(!Partitioner::Create(spec)->HashesRows(embedding));
  spec.set_rows("contiguous");
  CHECK(!Partitioner::Create(spec)->HashesRows(embedding));
  spec.set_rows("hash");
  CHECK(Partitioner::Create(spec)->HashesRows(embedding));
  CHECK(!Partitioner::Create(spec)->HashesRows(one_row));
  CHECK(!Partitioner::Create(spec)->HashesRows(Sized({100, 8})));
  spec.set_rows("random");
  CHECK_THAT(std::string(Partitioner::Create(spec).status().message()),
             Catch::Contains("strategy.partitioner.rows: 'random' is unknown"));
}

TEST_CASE("a wrong partitioner names the key") {
  const auto message = [](const v1::PartitionerSpec& spec) {
    const auto partitioner = Partitioner::Create(spec);
    REQUIRE(!partitioner.ok());
    CHECK(partitioner.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(partitioner.status().message());
  };
  v1::PartitionerSpec unknown;
  unknown.set_class_name("FixedShard");
  CHECK_THAT(message(unknown), Catch::Contains("strategy.partitioner.class_name: 'FixedShard'"));
  CHECK_THAT(message(FixedShards(0)), Catch::Contains("num_shards"));
  CHECK_THAT(message(MaxSize(0, 1)), Catch::Contains("max_shard_bytes"));
  v1::PartitionerSpec mixed = FixedShards(2);
  mixed.set_max_shards(3);
  CHECK_THAT(message(mixed), Catch::Contains("max_shards: FixedShards has no such key"));
}

}  // namespace
}  // namespace cohort
