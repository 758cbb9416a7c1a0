// Replaces a function of gRPC 1.51 in the programs that link this file. No library contains it,
// because the programs of others link our libraries. With another version of gRPC it is empty.
//
// If reads and writes coincide, gRPC 1.51 passes the rest of a polling thread's work to a thread of
// its executor, which costs a fifth of a large step. With this definition a polling thread finishes
// what it has begun. Only writes to a full socket continue on the executor: a polling thread would
// wait until the peer reads, for up to ten seconds.
#include <grpcpp/version_info.h>

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

namespace cohort {
// grpc_core::Executor::IsThreadedDefault() answers whether a polling thread may pass on what it has
// begun; gRPC 1.51 asks nothing else with it. The linker makes gRPC call this definition, not its
// own.
[[gnu::visibility("default")]] bool PollingThreadsPassOn() __asm__(
    "_ZN9grpc_core8Executor17IsThreadedDefaultEv");
bool PollingThreadsPassOn() { return false; }
}  // namespace cohort

#endif
