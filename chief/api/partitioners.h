#ifndef COHORT_CHIEF_API_PARTITIONERS_H_
#define COHORT_CHIEF_API_PARTITIONERS_H_

#include <cstdint>
#include <memory>

namespace cohort::v1 {
class PartitionerSpec;
}

namespace cohort {

// How variables are cut into shards along axis 0; common/placement/partitioner.h has the rules.
class VariablePartitioner {
 public:
  // Every variable is one shard.
  VariablePartitioner();
  VariablePartitioner(const v1::PartitionerSpec& spec);

  operator const v1::PartitionerSpec&() const { return *spec_; }

 private:
  std::shared_ptr<const v1::PartitionerSpec> spec_;
};

// The partitioners of tf.distribute.experimental.partitioners.
VariablePartitioner FixedShardsPartitioner(uint64_t num_shards);
// Shards have at least `min_shard_bytes`, and a variable at most `max_shards` of them.
VariablePartitioner MinSizePartitioner(uint64_t min_shard_bytes = 256 << 10,
                                       uint64_t max_shards = 1);
// Shards have at most `max_shard_bytes`. `max_shards` 0: as many as that needs.
VariablePartitioner MaxSizePartitioner(uint64_t max_shard_bytes, uint64_t max_shards = 0);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_PARTITIONERS_H_
