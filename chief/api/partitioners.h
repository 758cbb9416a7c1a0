#ifndef COHORT_CHIEF_API_PARTITIONERS_H_
#define COHORT_CHIEF_API_PARTITIONERS_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace cohort {

// The partitioners of tf.distribute.experimental.partitioners. They cut variables into shards along
// axis 0; common/placement/partitioner.h has their rules. Without a partitioner
// (v1::PartitionerSpec()) every variable is one shard.

v1::PartitionerSpec FixedShardsPartitioner(uint64_t num_shards);
// Shards have at least `min_shard_bytes`, and a variable at most `max_shards` of them.
v1::PartitionerSpec MinSizePartitioner(uint64_t min_shard_bytes = 256 << 10,
                                       uint64_t max_shards = 1);
// Shards have at most `max_shard_bytes`. `max_shards` 0: as many as that needs.
v1::PartitionerSpec MaxSizePartitioner(uint64_t max_shard_bytes, uint64_t max_shards = 0);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_PARTITIONERS_H_
