#ifndef COHORT_COMMON_GRAPH_SEGMENTS_H_
#define COHORT_COMMON_GRAPH_SEGMENTS_H_

#include <absl/functional/function_ref.h>

#include <string>

#include "common/graph/program.h"

namespace cohort {

// Model parallelism: a program whose nodes name devices is cut where the device changes.

// The device on which a node runs: "" is the host, which runs the program. `device` is
// Node::device.
using DeviceResolver = absl::FunctionRef<std::string(const std::string& device)>;

// Returns true if a node names a device.
bool NamesDevices(const Program& program);

// Replaces each run of nodes of one device by one node "segment" with the nodes as its body: its
// inputs are the values that come from outside, its outputs those that are used outside. Nodes of
// the host stay as they are, and so do leaves and everything that row keys depend on. The order of
// the nodes changes where that saves cuts; what they compute does not. `program` is valid.
Program CutAtDevices(Program program, DeviceResolver resolve);

// A segment as a program of its own: its arguments are the inputs of the node, its outputs those
// of the node, in their order. Constants are part of the body. The same segment gives the same
// program.
Program ProgramOfSegment(const Program& program, const Node& segment);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_SEGMENTS_H_
