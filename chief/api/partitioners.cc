#include "chief/api/partitioners.h"

#include "proto/job.pb.h"

namespace cohort {

VariablePartitioner::VariablePartitioner() : VariablePartitioner(v1::PartitionerSpec()) {}
VariablePartitioner::VariablePartitioner(const v1::PartitionerSpec& spec)
    : spec_(std::make_shared<v1::PartitionerSpec>(spec)) {}

VariablePartitioner FixedShardsPartitioner(uint64_t num_shards) {
  v1::PartitionerSpec spec;
  spec.set_class_name("FixedShards");
  spec.set_num_shards(num_shards);
  return spec;
}

VariablePartitioner MinSizePartitioner(uint64_t min_shard_bytes, uint64_t max_shards) {
  v1::PartitionerSpec spec;
  spec.set_class_name("MinSize");
  spec.set_min_shard_bytes(min_shard_bytes);
  spec.set_max_shards(max_shards);
  return spec;
}

VariablePartitioner MaxSizePartitioner(uint64_t max_shard_bytes, uint64_t max_shards) {
  v1::PartitionerSpec spec;
  spec.set_class_name("MaxSize");
  spec.set_max_shard_bytes(max_shard_bytes);
  spec.set_max_shards(max_shards);
  return spec;
}

}  // namespace cohort
