#include "chief/api/job_definition.h"

#include <algorithm>
#include <utility>

#include "chief/api/coordinator.h"
#include "common/base/fnv1a.h"
#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/data/fingerprint.h"
#include "common/graph/program_proto.h"
#include "common/model/clipped_pushes.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/message_size.h"
#include "common/placement/placement.h"

namespace cohort {
namespace {

// Protobuf writes no messages of 2 GiB. The rest is for what differs between workers.
constexpr size_t kMaxSpecBytes = (size_t{2} << 30) - (size_t{1} << 20);

absl::Status CheckSendable(const google::protobuf::MessageLite& spec, const std::string& what) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes <= kMaxSpecBytes) return absl::OkStatus();
  return InvalidArgument(
      "{} has {} bytes as a message to the workers, and the limit is {} bytes: use smaller "
      "vocabularies or constants",
      what, bytes, kMaxSpecBytes);
}

}  // namespace

absl::StatusOr<StepFunction> JobDefinition::RegisterStep(const Program& given) {
  MutexLock lock(core_->mu());
  Program program = given;
  if (WorkersClip()) {
    COHORT_ASSIGN_OR_RETURN(program, ClipPushes(given, layout_));
  }
  v1::Program proto;
  ProgramToProto(program, &proto);
  std::string fingerprint = Fingerprint(program);
  COHORT_RETURN_IF_ERROR(CheckMessageSizes(layout_, {&program, 1}));
  COHORT_RETURN_IF_ERROR(CheckSendable(proto, fmt::format("the step '{}'", program.name)));
  programs_.push_back(std::move(program));
  return StepFunction{core_->get()->setup()->AddProgram(std::move(fingerprint), std::move(proto))};
}

absl::StatusOr<PerWorkerDataset> JobDefinition::CreatePerWorkerDataset(
    const v1::DatasetSpec& spec, const DatasetOptions& options) {
  if (options.batch_size == 0) return InvalidArgument("a dataset needs a batch size");
  COHORT_RETURN_IF_ERROR(CheckSendable(spec, fmt::format("the dataset '{}'", options.name)));
  v1::CreateResource resource;
  *resource.mutable_dataset() = BatchDefiningPart(spec);
  resource.set_visitation(options.stream         ? v1::STREAM
                          : options.exactly_once ? v1::EXACTLY_ONCE
                                                 : v1::INDEPENDENT);
  resource.set_seed(options.seed);
  resource.set_batch_size(options.batch_size);
  for (const std::string& feature : options.features) resource.add_features(feature);
  if (options.data != nullptr) *resource.mutable_data() = *options.data;
  // Workers keep their resources when the chief restarts, and checkpoints keep the readers'
  // positions by name. So the name must depend only on the data that is read. A worker takes the
  // other fields of the spec when it recreates the resource.
  const uint64_t hash = Fnv1a(StableBytes(resource));
  std::string name =
      fmt::format("{}-{:016x}", options.name.empty() ? "dataset" : options.name, hash);
  MutexLock lock(core_->mu());
  if (const int nth = ++datasets_[name]; nth > 1) name += fmt::format("-{}", nth);
  resource.set_name(std::move(name));
  *resource.mutable_dataset() = spec;
  resource.set_training(options.training);
  return PerWorkerDataset{core_->get()->setup()->AddResource(std::move(resource))};
}

absl::StatusOr<v1::Layout> JobDefinition::LayoutOf(std::span<const v1::VariableSpec> variables,
                                                   std::span<const v1::OptimizerSpec> optimizers,
                                                   const v1::PartitionerSpec& partitioner,
                                                   std::string_view placement) const {
  const CoreView& view = core_->get()->view();
  const CoreOptions& known = view.context.options;
  const int named = view.membership.named(Role::kPs);
  bool heard = true;  // the chief starts without a lost server only if the layout is known
  for (int ps = 0; ps < named; ++ps) heard = heard && view.servers.hello(ps).incarnation() != 0;
  if (known.misses_servers && !heard) {
    const auto bytes = [](const auto& specs) {
      std::string text;
      for (const auto& spec : specs) text += StableBytes(spec);
      return text;
    };
    const bool same = former_ != nullptr && bytes(former_->variables()) == bytes(variables) &&
                      bytes(former_->optimizers()) == bytes(optimizers);
    if (same) return *former_;
    return Unavailable("{}", view.WaitingFor());
  }
  PlacementOptions options{.strategy = std::string(placement), .copies = known.copies};
  // The servers that have joined get tablets of these.
  for (int ps = 0; ps < named; ++ps) {
    const v1::PsHello& hello = view.servers.hello(ps);
    options.cores.push_back(static_cast<int>(std::max(1U, hello.cores())));
    options.hosts.push_back(hello.host_id());
  }
  return MakeLayout(variables, partitioner, optimizers, options);
}

absl::Status JobDefinition::SetVariables(std::span<const v1::VariableSpec> variables,
                                         std::span<const v1::OptimizerSpec> optimizers,
                                         const v1::PartitionerSpec& partitioner,
                                         std::string_view placement) {
  MutexLock lock(core_->mu());
  std::vector<v1::VariableSpec> marked(variables.begin(), variables.end());
  COHORT_RETURN_IF_ERROR(MarkWholeVariables(optimizers, marked));
  COHORT_ASSIGN_OR_RETURN(layout_, LayoutOf(marked, optimizers, partitioner, placement));
  COHORT_RETURN_IF_ERROR(CheckMessageSizes(layout_, programs_));
  for (const Program& program : programs_) {
    if (!WorkersClip()) break;
    COHORT_ASSIGN_OR_RETURN(const bool clipped, PushesAreClipped(program, layout_));
    if (clipped) continue;
    return FailedPrecondition(
        "the step '{}' was registered before the variables, whose optimizer clips gradients; call "
        "CreateVariables before RegisterStep",
        program.name);
  }
  core_->get()->SetLayout(layout_, Fnv1a(StableBytes(layout_), closures_hash_));
  return absl::OkStatus();
}

bool JobDefinition::WorkersClip() const { return !core_->get()->view().steps.sync(); }

v1::Layout JobDefinition::layout() const {
  MutexLock lock(core_->mu());
  return layout_;
}

}  // namespace cohort
