#include "common/device/cuda/cuda_graph.h"

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace cohort {
namespace {

constexpr int64_t kElementBlocksPerMultiprocessor = 16;
constexpr int64_t kRowBlocksPerMultiprocessor = 32;

struct DestroyCudaStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct DestroyCudaGraphExec {
  void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
};

void CUDART_CB RunHostCall(void* call) noexcept {
  (*static_cast<const std::function<void()>*>(call))();
}

class CudaGraph : public DeviceGraph {
 public:
  CudaGraph(const Gpu& gpu, DeviceMemory workspace) : gpu_(gpu), workspace_(std::move(workspace)) {}
  ~CudaGraph() override {
    if (!gpu_.Select().ok()) return;
    // A run that nobody waited for must not outlive the memory that it uses.
    if (launched_) cudaStreamSynchronize(stream_.get());
  }

  // Adds the nodes, then makes the graph that runs.
  absl::Status Build(const GraphPlan& plan, int multiprocessors, CudaProducts* products);

  absl::Status Launch() override {
    if (launched_) return Internal("the graph runs already");
    COHORT_RETURN_IF_ERROR(gpu_.Select());
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaGraphLaunch, exec_.get(), stream_.get());
    launched_ = true;
    return absl::OkStatus();
  }

  absl::Status Wait() override {
    if (!std::exchange(launched_, false)) return Internal("the graph was not launched");
    COHORT_RETURN_IF_ERROR(gpu_.Select());
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaStreamSynchronize, stream_.get());
    return absl::OkStatus();
  }

 private:
  friend class NodeAdder;

  const Gpu gpu_;
  // Destroyed in the opposite order.
  const DeviceMemory workspace_;                 // the products use it
  std::list<std::function<void()>> host_calls_;  // their nodes hold addresses
  std::unique_ptr<CUstream_st, DestroyCudaStream> stream_;
  std::unique_ptr<CUgraphExec_st, DestroyCudaGraphExec> exec_;
  bool launched_ = false;
};

// Adds the node of one op after the nodes that it depends on.
class NodeAdder {
 public:
  NodeAdder(CudaGraph* owner, cudaGraph_t graph, int multiprocessors, CudaProducts* products)
      : owner_(owner), graph_(graph), multiprocessors_(multiprocessors), products_(products) {}

  absl::Status Add(const GraphOp& op) {
    after_.clear();
    for (const int before : op.after) after_.push_back(nodes_[static_cast<size_t>(before)]);
    node_ = nullptr;
    COHORT_RETURN_IF_ERROR(Annotate(std::visit(*this, op.work), op.name));
    nodes_.push_back(node_);
    return absl::OkStatus();
  }

  absl::Status operator()(const GridLaunch& launch) {
    if (launch.function.entry == nullptr) return Internal("the op has no kernel for CUDA");
    const void* body = launch.body;
    void* arguments[] = {&body};  // copied by the call
    cudaKernelNodeParams params = {};
    params.func = const_cast<void*>(launch.function.entry);
    params.gridDim = dim3(CudaBlocks(launch.shape, launch.items, multiprocessors_));
    params.blockDim = dim3(kCudaBlockThreads);
    params.kernelParams = arguments;
    COHORT_RETURN_IF_CUDA_ERROR(gpu(), cudaGraphAddKernelNode, &node_, graph_, after_.data(),
                                after_.size(), &params);
    return absl::OkStatus();
  }

  absl::Status operator()(const GraphCopy& copy) {
    COHORT_RETURN_IF_CUDA_ERROR(gpu(), cudaGraphAddMemcpyNode1D, &node_, graph_, after_.data(),
                                after_.size(), copy.to, copy.from, copy.bytes,
                                copy.to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
    return absl::OkStatus();
  }

  absl::Status operator()(const HostCall& host) {
    owner_->host_calls_.push_back(host.call);
    const cudaHostNodeParams params = {&RunHostCall, &owner_->host_calls_.back()};
    COHORT_RETURN_IF_CUDA_ERROR(gpu(), cudaGraphAddHostNode, &node_, graph_, after_.data(),
                                after_.size(), &params);
    return absl::OkStatus();
  }

  absl::Status operator()(const MatrixProduct& p) {
    if (p.m == 0 || p.n == 0 || p.batch == 0) return AddEmpty();
    if (p.k == 0) return AddZeros(p);
    if (last_product_ != nullptr && std::ranges::find(after_, last_product_) == after_.end()) {
      after_.push_back(last_product_);
    }
    COHORT_ASSIGN_OR_RETURN(const OwnedCudaGraph child,
                            products_->Capture(p, owner_->stream_.get(), owner_->workspace_));
    COHORT_RETURN_IF_CUDA_ERROR(gpu(), cudaGraphAddChildGraphNode, &node_, graph_, after_.data(),
                                after_.size(), child.get());  // which copies it
    last_product_ = node_;
    return absl::OkStatus();
  }

 private:
  const Gpu& gpu() const { return owner_->gpu_; }

  // Only keeps the order of the ops around it.
  absl::Status AddEmpty() {
    COHORT_RETURN_IF_CUDA_ERROR(gpu(), cudaGraphAddEmptyNode, &node_, graph_, after_.data(),
                                after_.size());
    return absl::OkStatus();
  }

  // The sum of no products.
  absl::Status AddZeros(const MatrixProduct& p) {
    cudaMemsetParams params = {};
    params.dst = p.c;
    params.elementSize = sizeof(uint32_t);
    params.width = static_cast<size_t>(p.batch * p.m * p.n) * SizeOf(p.dtype) / sizeof(uint32_t);
    params.height = 1;
    COHORT_RETURN_IF_CUDA_ERROR(gpu(), cudaGraphAddMemsetNode, &node_, graph_, after_.data(),
                                after_.size(), &params);
    return absl::OkStatus();
  }

  CudaGraph* const owner_;
  const cudaGraph_t graph_;
  const int multiprocessors_;
  CudaProducts* const products_;
  std::vector<cudaGraphNode_t> nodes_;  // by op
  cudaGraphNode_t last_product_ = nullptr;
  std::vector<cudaGraphNode_t> after_;  // what the added op depends on
  cudaGraphNode_t node_ = nullptr;      // the op that is added
};

absl::Status CudaGraph::Build(const GraphPlan& plan, int multiprocessors, CudaProducts* products) {
  COHORT_RETURN_IF_ERROR(gpu_.Select());
  cudaStream_t stream = nullptr;
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
  stream_.reset(stream);
  cudaGraph_t created = nullptr;
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaGraphCreate, &created, 0);
  const OwnedCudaGraph graph(created);
  NodeAdder adder(this, graph.get(), multiprocessors, products);
  for (const GraphOp& op : plan.ops()) COHORT_RETURN_IF_ERROR(adder.Add(op));
  cudaGraphExec_t exec = nullptr;
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaGraphInstantiate, &exec, graph.get(), 0);
  exec_.reset(exec);
  // Else the first launch would do this.
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaGraphUpload, exec, stream);
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaStreamSynchronize, stream);
  return absl::OkStatus();
}

}  // namespace

unsigned CudaBlocks(GridShape shape, int64_t items, int multiprocessors) {
  const bool of_rows = shape == GridShape::kRows;
  const int64_t most =
      (of_rows ? kRowBlocksPerMultiprocessor : kElementBlocksPerMultiprocessor) * multiprocessors;
  const int64_t wanted =
      of_rows ? items : items / kCudaBlockThreads + (items % kCudaBlockThreads != 0);
  return static_cast<unsigned>(std::max<int64_t>(1, std::min(wanted, most)));
}

absl::StatusOr<std::unique_ptr<DeviceGraph>> MakeCudaGraph(const GraphPlan& plan, const Gpu& gpu,
                                                           int multiprocessors,
                                                           CudaProducts* products,
                                                           DeviceMemory workspace) {
  auto graph = std::make_unique<CudaGraph>(gpu, std::move(workspace));
  COHORT_RETURN_IF_ERROR(graph->Build(plan, multiprocessors, products));
  return graph;
}

}  // namespace cohort
