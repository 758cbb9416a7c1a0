// A real parameter server, adopted and given its tablets as a chief would.
#include "common/base/status.h"
#include "tests/benchmarks/data_path/served_ps.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {
namespace {

// One float variable of each size, each one shard on a tablet of its own.
v1::Layout MakeLayout(const std::vector<size_t>& sizes) {
  v1::Layout layout;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    auto* variable = layout.add_variables();
    variable->set_name(fmt::format("v{}", i));
    variable->set_dtype(v1::FLOAT32);
    variable->add_dims(static_cast<int64_t>(sizes[i] / sizeof(float)));
    variable->set_trainable(true);
    variable->mutable_initializer()->set_class_name("Zeros");
    auto* shard = layout.add_shards();
    shard->set_shard(index);
    shard->set_variable(index);
    shard->set_rows(sizes[i] / sizeof(float));
    shard->set_tablet(index);
    layout.add_tablets()->set_tablet(index);
  }
  layout.add_optimizers()->mutable_rule()->set_class_name("SGD");
  return layout;
}

class PsServer final : public Server {
 public:
  PsServer(const std::string& address, const std::vector<size_t>& sizes)
      : ps_({.listen = {address}, .layout = MakeLayout(sizes)}) {}
  int port() const override { return ps_.port(); }

 private:
  ServedPs ps_;
};

}  // namespace

std::unique_ptr<Server> ServePs(const std::string& address, const std::vector<size_t>& sizes) {
  return std::make_unique<PsServer>(address, sizes);
}

}  // namespace cohort::bench
