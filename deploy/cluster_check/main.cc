// cohort-cluster-check: what `cohort cluster-check` becomes. A program of its own, because `cohort`
// starts faster without gRPC.
#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/cluster/tf_config.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "deploy/cluster_check/cluster_check.h"

namespace cohort {
namespace {

absl::Status Run(const ClusterCheckFlags& flags) {
  PrepareTransportProcess();
  const char* const text = std::getenv("TF_CONFIG");
  COHORT_ASSIGN_OR_RETURN(const TfConfig config, ParseTfConfig(text == nullptr ? "" : text));
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterCheck> check,
                          ClusterCheck::Start(flags, config, std::getenv("XDG_RUNTIME_DIR")));
  const bool works = check->Run(
      std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(flags.timeout_s)),
      [](std::string_view line) {
        fmt::print(stderr, "cohort: {}\n", Printable(std::string(line)));
      });
  COHORT_RETURN_IF_ERROR(WriteToStdout(check->Text()));
  if (works) return absl::OkStatus();
  return WithExitCode(Unavailable("not every task reaches every other one"),
                      ExitCode::kUnavailable);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::InstallTerminateHandler("cohort");
  cohort::ClusterCheckFlags options;
  cohort::FlagSet flags("cohort-cluster-check",
                        "Tries all pairs of addresses of TF_CONFIG. Start it on every task, before "
                        "a run.");
  cohort::AddClusterCheckFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  return cohort::ExitWith("cohort", cohort::Run(options));
}
