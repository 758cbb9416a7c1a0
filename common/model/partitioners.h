#ifndef COHORT_COMMON_MODEL_PARTITIONERS_H_
#define COHORT_COMMON_MODEL_PARTITIONERS_H_

#include "common/schema/class_registry.h"
#include "proto/job.pb.h"

namespace cohort {

// TensorFlow's partitioners (tf.distribute.experimental.partitioners), also by their full names.
const SchemaSet& PartitionerSchemas();

// Makes the partitioner `config`, which is complete.
v1::PartitionerSpec MakePartitioner(const v1::ClassConfig& config);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_PARTITIONERS_H_
