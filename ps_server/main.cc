// cohort-ps: a parameter server. TF_CONFIG says which task of which cluster it is.
#include "common/base/status.h"
#include "common/plugin/plugin_file.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"

int main(int argc, char** argv) {
  using namespace cohort;
  PsFlags flags;
  return RunProgram(
      argc, argv,
      {.name = "cohort-ps",
       .help = "A parameter server of Cohort.",
       .role = Role::kPs,
       .title = "parameter server",
       .drains_at_end = true},
      [&](FlagSet* set) { AddPsFlags(set, &flags); }, flags,
      [&](const RoleContext& context,
          const TaskEnvironment& environment) -> absl::StatusOr<std::unique_ptr<ServingTask>> {
        // A server uses no classes of plugins.
        COHORT_RETURN_IF_ERROR(CheckPluginFiles(context.plugins));
        COHORT_ASSIGN_OR_RETURN(ParameterServer::Options options,
                                MakeServerOptions(flags, context, environment));
        return ParameterServer::Start(std::move(options));
      });
}
