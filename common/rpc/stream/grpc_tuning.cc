#include "common/rpc/stream/grpc_tuning.h"

#include <absl/synchronization/mutex.h>
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/channel_arguments.h>
#if __has_include(<mimalloc.h>)
#include <mimalloc.h>
#elif __has_include(<mimalloc-2.0/mimalloc.h>)
#include <mimalloc-2.0/mimalloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace cohort {
namespace {

int ToInt(size_t bytes) { return static_cast<int>(std::min<size_t>(bytes, INT_MAX)); }
int Millis(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

// Calls set(name, value) with the settings of both ends.
template <typename Set>
void ApplyCommon(const TransportOptions& options, Set set) {
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, ToInt(options.max_frame_bytes));
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, ToInt(options.max_frame_bytes));
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive_interval));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, options.read_chunk_bytes);
  set(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, options.read_buffer_bytes);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, std::max(options.read_chunk_bytes, 4 << 20));
  if (options.read_ahead_bytes > 0) {
    set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, options.read_ahead_bytes);
  }
  if (options.http2_frame_bytes > 0) {
    set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, options.http2_frame_bytes);
  }
  // Frames are never compressed, so gRPC need not check each message.
  set(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  set(GRPC_ARG_ENABLE_CHANNELZ, 0);
  set(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
}

}  // namespace

void ApplyTransportOptions(const TransportOptions& options, grpc::ChannelArguments* arguments) {
  ApplyCommon(options, [&](const char* name, int value) { arguments->SetInt(name, value); });
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options.keepalive_timeout));
  arguments->SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Millis(options.initial_backoff));
  arguments->SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Millis(options.max_backoff));
  // gRPC uses the shortest pause as the time limit of one attempt.
  arguments->SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Millis(options.connect_attempt_timeout));
  arguments->SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, Millis(options.max_backoff));
  // One socket per client, so that a data stream never waits for another.
  arguments->SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The protocol retries by update id. gRPC's own retries would only keep copies of messages.
  arguments->SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments->SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments->SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
}

void ApplyTransportOptions(const TransportOptions& options, grpc::ServerBuilder* builder) {
  ApplyCommon(options,
              [&](const char* name, int value) { builder->AddChannelArgument(name, value); });
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              Millis(options.server_keepalive_timeout));
  // Otherwise two servers on one port would silently share its connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Accepts keepalive pings at half the client's interval; gRPC's default limit is five minutes.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Millis(options.keepalive_interval) / 2);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4096);
  // TLS, and the first frame of HTTP/2.
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              Millis(options.handshake_timeout));
}

namespace {

// Calls a function that has no public header, if this process has loaded its library. Returns false
// if it has not.
template <typename... Args>
bool CallIfThere(const char* symbol, Args... args) {
  void* const found = dlsym(RTLD_DEFAULT, symbol);
  if (found != nullptr) reinterpret_cast<void (*)(Args...)>(found)(args...);
  return found != nullptr;
}

// Asks gRPC what grpc_executor_override.cc answers if this program has it.
bool PollingThreadsPassOn() {
  void* const asked = dlsym(RTLD_DEFAULT, "_ZN9grpc_core8Executor17IsThreadedDefaultEv");
  return asked == nullptr || reinterpret_cast<bool (*)()>(asked)();
}

// Asks about no handshake, which is an error unless grpc_tls_override.cc answers.
bool RecordsAreOurs() {
  void* const asked = dlsym(RTLD_DEFAULT,
                            "_Z46tsi_handshaker_result_get_frame_protector_typePK21tsi_handshaker_"
                            "resultP24tsi_frame_protector_type");
  int type = 0;
  return asked != nullptr &&
         reinterpret_cast<int (*)(const void*, int*)>(asked)(nullptr, &type) == 0;
}

// Each TLS connection to an address whose name is not in the certificate makes gRPC log this error.
// Certificates name roles, not hosts (Security).
constexpr std::string_view kHostNotNamed = "No match found for server name";

// A peer that tries again and again fails again and again.
constexpr std::string_view kHandshakeFailed = "Handshake failed";
constexpr int64_t kBetweenLines = 10;  // seconds

void LogOfGrpc(gpr_log_func_args* args) {
  const std::string_view message = args->message;
  if (message.starts_with(kHostNotNamed)) return;
  if (message.starts_with(kHandshakeFailed)) {
    static std::atomic<int64_t> next_line{0};
    const int64_t now = std::time(nullptr);
    int64_t next = next_line.load();
    if (now < next || !next_line.compare_exchange_strong(next, now + kBetweenLines)) return;
  }
  std::fprintf(stderr, "grpc: %s\n", args->message);
}

}  // namespace

const GrpcTuning& TuningOfGrpc() {
  static const GrpcTuning tuning = [] {
    // Never shut down: the last shutdown of gRPC would wait for all of its threads.
    grpc_init();
    GrpcTuning made{.version = grpc::Version()};
    made.known_version = made.version.starts_with(GrpcTuning::kKnownVersion);
    made.executor_override = made.known_version && !PollingThreadsPassOn();
    made.tls_override = made.known_version && RecordsAreOurs();
    return made;
  }();
  return tuning;
}

const GrpcTuning& PrepareTransportProcess() {
  static const GrpcTuning& tuning = []() -> const GrpcTuning& {
    gpr_set_log_function(LogOfGrpc);
    setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0);
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "50", /*overwrite=*/0);
    if (grpc::Version().starts_with(GrpcTuning::kKnownVersion)) {
      setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", /*overwrite=*/0);
    }
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#ifdef MIMALLOC_H
    CallIfThere("mi_option_set_enabled", mi_option_allow_decommit, false);
#endif
    return TuningOfGrpc();
  }();
  return tuning;
}

void ReportGrpcTuning(MetricsRegistry* metrics, Logger* log) {
  const GrpcTuning& tuning = TuningOfGrpc();
  const auto word = [](bool is) { return is ? "true" : "false"; };
  metrics
      ->AddGauge("cohort_grpc_tuning_info", "The version of gRPC, and what this process overrides.",
                 {{"version", tuning.version},
                  {"executor_override", word(tuning.executor_override)},
                  {"tls_override", word(tuning.tls_override)}})
      ->Set(1);
  if (tuning.executor_override || log == nullptr) return;
  log->Info("grpc_not_tuned", {{"version", tuning.version},
                               {"known_version", tuning.known_version},
                               {"effect", "large steps take up to a fifth longer"}});
}

}  // namespace cohort
