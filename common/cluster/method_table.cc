#include "common/cluster/method_table.h"

namespace cohort {
namespace {

constexpr unsigned Bit(PeerRole role) { return 1u << static_cast<int>(role); }

constexpr unsigned kChief = Bit(PeerRole::kChief);
constexpr unsigned kWorker = Bit(PeerRole::kWorker);
constexpr unsigned kPs = Bit(PeerRole::kPs);
constexpr unsigned kAll = (1u << kNumPeerRoles) - 1;

constexpr MethodRule kTable[] = {
    {"/cohort.v1.Chief/Join", kWorker},
    {"/cohort.v1.ParameterServer/Control", kChief},
    {"/cohort.v1.ParameterServer/PushPull", kWorker},
    {"/cohort.v1.ParameterServer/Copy", kPs},
    {"/cohort.v1.Worker/Control", kChief},
    {"/cohort.v1.Worker/Segments", kWorker},
    {"/cohort.v1.Peer/Collective", kWorker},
    {"/grpc.health.v1.Health/Check", kAll},
    {"/grpc.health.v1.Health/Watch", kAll},
};

}  // namespace

std::span<const MethodRule> MethodTable() { return kTable; }

bool MayCall(PeerRole role, std::string_view method) {
  for (const MethodRule& rule : kTable) {
    if (rule.method == method) return rule.Allows(role);
  }
  return false;
}

}  // namespace cohort
