#ifndef COHORT_COMMON_CLUSTER_PROTOCOL_VERSION_H_
#define COHORT_COMMON_CLUSTER_PROTOCOL_VERSION_H_

#include <absl/status/status.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

// The version of the messages between the tasks of a cluster. Each end of a stream sends its own
// version: the chief in AdoptPs and AdoptWorker, a task in its hello, a client of PushPull in the
// metadata of the stream. Two ends with different major versions refuse each other. Minor versions
// mix.
struct ProtocolVersion {
  uint32_t major = 1;
  uint32_t minor = 0;

  auto operator<=>(const ProtocolVersion&) const = default;
  std::string ToString() const;  // "1.1"
  // Nullopt if the text is not a version.
  static std::optional<ProtocolVersion> Parse(std::string_view text);
  // The version in a message; processes older than version 1.1 send none.
  template <typename Message>
  static ProtocolVersion Of(const Message& message) {
    if (!message.has_protocol_version()) return {1, 0};
    return {message.protocol_version().major(), message.protocol_version().minor()};
  }
};

// The version of this build.
//
//   raise     for a change that
//   minor     an older process can ignore: a new field whose absence means the old behavior, or a
//             message that is sent only to a process that asked for it
//   major     an older process would misunderstand: another meaning of a field, a message that it
//             must answer, a removed field that it needs
//
//   1.0   no version is sent
//   1.1   hellos, adoptions and PushPull streams carry the version
//   1.2   metrics have accumulators (MetricPartial, MetricValue); an older worker refuses a program
//         that has such a metric
//   2.0   optimizers and sources of data are classes with arguments; layouts have several
//   optimizers;
//         the hello of a worker has the classes of its plugins
//   2.1   variables may begin with the values of a file (AssignTablets); a server that assigns
//   tablets
//         names the file, so the chief notices an older one
//   2.2   programs may have a loss scale and rounded products, and CloseStep may skip a step: the
//   chief
//         refuses older tasks for a job that has a loss scale. Tasks of one host read weights and
//         gradients where the other end has them
//   2.3   workers sum dense gradients in a ring: the chief refuses older tasks for a job that has
//         `communication: ring`. Tasks report figures for people with each Pong.
//         Nodes of programs may name devices, and workers run layers of other workers: an older
//         worker
//         refuses such a program, because its fingerprint differs
//   2.4   plaintext streams of gradients carry checksums and the secret of the run: the chief
//         refuses older tasks for a job that has `communication: ring`. Servers report progress
//         (TaskProgress), and share the memory of a machine or of a control group. Long messages of
//         control streams travel in pieces between ends that both ask for it
//   2.5   tables without bounds: an older server refuses their layout. Leases of streams name parts
//         of files: an older worker refuses the lease
//   2.6   keys of 32 bits and values of bfloat16 in requests, for servers whose route says that
//         they read them. Rows that are partitioned by hash: the chief refuses older tasks for a
//         job that has `rows: hash`. Servers report figures of rows with each Pong
//   2.7   Workers report how long servers let them wait. Tasks join a running cluster. An entry of
//         Copy and its payload are one message, for servers whose route says that they read it
inline constexpr ProtocolVersion kProtocolVersion{2, 7};
// The first one whose servers read compact requests.
inline constexpr ProtocolVersion kCompactProtocol{2, 6};
// The first one whose servers keep copies. Its frames of Copy are those for a server whose route
// does not say `copy_requests`.
inline constexpr ProtocolVersion kCopiesProtocol{2, 6};
// The first one whose servers read an entry of Copy and its payload in one message.
inline constexpr ProtocolVersion kCopyRequestsProtocol{2, 7};
// The first one whose chief takes reports of progress.
inline constexpr ProtocolVersion kProgressProtocol{2, 4};
// The first one that knows rings as they are now.
inline constexpr ProtocolVersion kRingProtocol{2, 4};
// The first one that knows rows that are partitioned by hash.
inline constexpr ProtocolVersion kHashedRowsProtocol{2, 6};
// The first one that knows loss scales.
inline constexpr ProtocolVersion kLossScaleProtocol{2, 2};

// The metadata with which a client of PushPull names its version. A client of Copy names the one of
// its frames.
inline constexpr char kProtocolVersionKey[] = "cohort-protocol-version";

// Error: FailedPrecondition (exit code 78) if the major versions differ. It names both ends, both
// versions and what to do. `peer` and `own` name the two ends: "worker:1 (host:2222)", "this
// chief".
absl::Status CheckProtocol(std::string_view peer, const ProtocolVersion& peer_version,
                           std::string_view own,
                           const ProtocolVersion& own_version = kProtocolVersion);

// Writes the version of this build into a hello or an adoption.
template <typename Message>
void SetProtocolVersion(Message* message) {
  message->mutable_protocol_version()->set_major(kProtocolVersion.major);
  message->mutable_protocol_version()->set_minor(kProtocolVersion.minor);
}

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_PROTOCOL_VERSION_H_
