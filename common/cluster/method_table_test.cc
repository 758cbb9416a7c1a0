#include "common/cluster/method_table.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace cohort {
namespace {

// Who may call what: C chief, W worker, P ps, E evaluator, R client.
const std::map<std::string, std::string> kExpected = {
    {"/cohort.v1.ParameterServer/Control", "C...."},
    {"/cohort.v1.ParameterServer/PushPull", ".W..."},
    {"/cohort.v1.ParameterServer/Copy", "..P.."},
    {"/cohort.v1.Chief/Join", ".W..."},
    {"/cohort.v1.Worker/Control", "C...."},
    {"/cohort.v1.Worker/Segments", ".W..."},
    {"/cohort.v1.Peer/Collective", ".W..."},
    {"/grpc.health.v1.Health/Check", "CWPER"},
    {"/grpc.health.v1.Health/Watch", "CWPER"},
};

// The methods that the .proto files declare: "/cohort.v1.Worker/Control".
std::set<std::string> DeclaredMethods() {
  std::set<std::string> methods;
  for (const auto& file : std::filesystem::directory_iterator(COHORT_PROTO_DIRECTORY)) {
    if (file.path().extension() != ".proto") continue;
    std::ifstream in(file.path());
    std::string line, package, service, word, name;
    while (std::getline(in, line)) {
      std::istringstream words(line);
      words >> word >> name;
      if (!words) continue;
      if (word == "package") package = name.substr(0, name.find(';'));
      if (word == "service") service = name;
      if (word == "rpc")
        methods.insert("/" + package + "." + service + "/" + name.substr(0, name.find('(')));
    }
  }
  return methods;
}

TEST_CASE("every method of the protocol has a row, and every row a method") {
  std::set<std::string> declared = DeclaredMethods();
  CHECK(declared.size() >= 5);
  declared.insert({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"});
  std::set<std::string> rows;
  for (const MethodRule& rule : MethodTable()) {
    CHECK(rows.insert(std::string(rule.method)).second);
  }
  CHECK(rows == declared);
}

TEST_CASE("each role may call exactly the methods of the matrix") {
  REQUIRE(MethodTable().size() == kExpected.size());
  for (const auto& [method, callers] : kExpected) {
    for (int role = 0; role < kNumPeerRoles; ++role) {
      INFO(method << " called by " << PeerRoleName(static_cast<PeerRole>(role)));
      CHECK(MayCall(static_cast<PeerRole>(role), method) ==
            (callers[static_cast<size_t>(role)] != '.'));
    }
  }
}

TEST_CASE("nobody may call a method without a row") {
  for (int role = 0; role < kNumPeerRoles; ++role) {
    CHECK_FALSE(MayCall(static_cast<PeerRole>(role), "/cohort.v1.Worker/Other"));
    CHECK_FALSE(MayCall(static_cast<PeerRole>(role), ""));
  }
}

}  // namespace
}  // namespace cohort
