#ifndef COHORT_COMMON_PLACEMENT_INITIALIZER_CLASSES_H_
#define COHORT_COMMON_PLACEMENT_INITIALIZER_CLASSES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

namespace v1 {
class InitializerSpec;
}

// One initializer of Keras: an entry of Initializers(). `make` sets the numbers of its distribution
// for a variable of these dims. `config` is complete; class and seed of `spec` are set already. A
// class may be a special case of another, which `make` then sets.
struct InitializerClass {
  ClassSchema schema;
  std::function<absl::Status(const Config& config, std::span<const int64_t> dims,
                             v1::InitializerSpec* spec)>
      make;
};

// The table in initializer_classes.cc.
const ClassRegistry<InitializerClass>& Initializers();
const SchemaSet& InitializerSchemas();

// Makes the initializer of a variable with these dims; fans are counted as in Keras. Without a
// `seed` of its own the initializer has the seed of the job. (The numbers of two variables differ
// nevertheless, because the name is part of the key.) Errors: those of CompleteConfig and
// SchemaSet::FindSchema, and InvalidArgument for arguments that contradict each other.
absl::StatusOr<v1::InitializerSpec> MakeInitializer(const v1::ClassConfig& config,
                                                    uint64_t job_seed,
                                                    std::span<const int64_t> dims);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_INITIALIZER_CLASSES_H_
