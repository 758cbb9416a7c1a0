#ifndef COHORT_COMMON_GRAPH_PROGRAM_PROTO_H_
#define COHORT_COMMON_GRAPH_PROGRAM_PROTO_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "common/base/status.h"
#include "common/graph/program.h"

namespace cohort::v1 {
class Program;
class TensorValue;
}  // namespace cohort::v1

namespace cohort {

// To and from the wire form (proto/program.proto).
void ProgramToProto(const Program& program, v1::Program* proto);

// Validates: what comes back is safe to compile. Errors: InvalidArgument.
absl::StatusOr<Program> ProgramFromProto(const v1::Program& proto);

void TensorToProto(const Tensor& tensor, v1::TensorValue* proto);
// Errors: InvalidArgument (dtype, a negative or huge dimension, bytes that do not match).
absl::StatusOr<Tensor> TensorFromProto(const v1::TensorValue& proto);

// Names a program: 32 hex digits, a 128-bit hash of its wire form with map keys in order. Equal in
// every process and on every machine; the program's `name` and node names are part of it.
std::string Fingerprint(const Program& program);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_PROGRAM_PROTO_H_
