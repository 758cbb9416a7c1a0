#ifndef COHORT_COMMON_BASE_STABLE_BYTES_H_
#define COHORT_COMMON_BASE_STABLE_BYTES_H_

#include <string>

namespace google::protobuf {
class MessageLite;
}

namespace cohort {

// Serializes a message with its maps in order of their keys: equal messages have equal bytes in
// every process. SerializeAsString does not promise that for a message with a map (ClassConfig).
std::string StableBytes(const google::protobuf::MessageLite& message);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_STABLE_BYTES_H_
