#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CONFIG_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CONFIG_H_

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

// Objects as Keras serializes them (keras/src/saving/serialization_lib.py), as configs of classes.

// True for a serialized object, and for a string, which names one: "relu".
bool IsKerasClass(const nlohmann::json& value);

// The class of a serialized object with its arguments as they are written. Errors: InvalidArgument.
absl::StatusOr<v1::ClassConfig> ReadKerasClass(const nlohmann::json& value);

// Completes a config that Keras wrote. An argument that the schema lacks may be None: another
// version of Keras may have it. Errors: those of CompleteConfig; Unimplemented for a schedule.
absl::StatusOr<v1::ClassConfig> CompleteKerasConfig(const ClassSchema& schema,
                                                    v1::ClassConfig given);
// The same for a serialized object of one of `classes`.
absl::StatusOr<v1::ClassConfig> ReadKerasClass(const nlohmann::json& value,
                                               const SchemaSet& classes);

// A value as Keras writes it: a number, a list, a serialized object. Errors: InvalidArgument.
absl::StatusOr<v1::ConfigValue> ReadKerasValue(const nlohmann::json& value);

// True for the class of an operation, such as that of `x + y` (keras/src/ops).
bool IsKerasOperation(const nlohmann::json& object);

// The name of a dtype policy, which is a string or an object: "float32".
std::string DTypePolicyName(const nlohmann::json& value);

// Refuses a class that has the name of a class of Keras and is another one: that of a user. Errors:
// Unimplemented.
absl::Status CheckKerasModule(const nlohmann::json& object);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CONFIG_H_
