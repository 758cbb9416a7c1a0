// matmul: a[m,k], b[k,n] -> [m,n], either operand stored transposed. float32 by oneDNN, or with few
// rows and a large b that is transposed by matmul_float.h. float64 by the loop of devices.
// batch_matmul: the same for each of several pairs.
#include <dnnl.h>

#include <algorithm>
#include <atomic>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/device_kernel.h"
#include "common/kernels/few_rows_product.h"
#include "common/kernels/matmul_float.h"
#include "common/kernels/onednn.h"

namespace cohort {
namespace {

// Multiplications below which rows are not split over threads.
constexpr int64_t kMultiplyGrain = 1 << 19;

struct Sizes {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

// Rows [begin, end) of c = a b.
absl::Status MultiplyRows(const Sizes& s, const float* a, const float* b, float* c, int64_t begin,
                          int64_t end) {
  if (!s.transpose_a && s.transpose_b && SuitsMultiplyByRows(s.m, s.n, s.k)) {
    MultiplyByRowsFloat(s.n, s.k, a, b, c, begin, end);
    return absl::OkStatus();
  }
  KeepOneDnnSingleThreaded();
  const int64_t lda = s.transpose_a ? s.m : s.k;
  const int64_t ldb = s.transpose_b ? s.k : s.n;
  const float* rows = a + (s.transpose_a ? begin : begin * s.k);
  const dnnl_status_t status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', end - begin, s.n, s.k, 1.0f,
                 rows, lda, b, ldb, 0.0f, c + begin * s.n, s.n);
  if (status == dnnl_success) return absl::OkStatus();
  return Internal("oneDNN sgemm of [{}, {}, {}] failed with status {}", s.m, s.n, s.k,
                  static_cast<int>(status));
}

// Computes c if few_rows_product.h has a function for it; otherwise returns false. The choice
// depends on the sizes only.
bool MultiplyFewRows(const Sizes& s, const float* a, const float* b, float* c, ThreadPool* pool) {
  if (s.transpose_b) return false;
  if (!s.transpose_a && s.m <= kFewRows && s.k * s.n >= kLargeMatrix) {
    pool->ParallelFor(s.n, RowGrain(s.m * s.k, kMultiplyGrain), [&](int64_t begin, int64_t end) {
      FewRowsTimesMatrix(s.m, s.n, s.k, a, b, c, begin, end);
    });
    return true;
  }
  if (s.transpose_a && s.k <= kFewRows && s.m * s.n >= kLargeMatrix) {
    pool->ParallelFor(s.m, RowGrain(s.n * s.k, kMultiplyGrain), [&](int64_t begin, int64_t end) {
      SumOfOuterProducts(s.k, s.m, s.n, a, b, c, begin, end);
    });
    return true;
  }
  return false;
}

class MatMulKernel : public Kernel {
 public:
  MatMulKernel(bool transpose_a, bool transpose_b)
      : transpose_a_(transpose_a), transpose_b_(transpose_b) {}

  absl::Status Run(const KernelContext& context) const override {
    Sizes s;
    s.transpose_a = transpose_a_;
    s.transpose_b = transpose_b_;
    s.m = context.out().dims[0];
    s.n = context.out().dims[1];
    s.k = context.in(0).dims[transpose_a_ ? 0 : 1];
    const float* a = context.in(0).as<float>();
    const float* b = context.in(1).as<float>();
    float* c = context.out().as<float>();
    if (s.k == 0 || s.n == 0 || s.m == 0) {
      std::fill_n(c, context.out().elements, 0.0f);
      return absl::OkStatus();
    }
    if (MultiplyFewRows(s, a, b, c, context.pool)) return absl::OkStatus();
    if (context.pool->threads() == 1) return MultiplyRows(s, a, b, c, 0, s.m);
    std::atomic<bool> failed{false};
    context.pool->ParallelFor(s.m, RowGrain(s.n * s.k, kMultiplyGrain),
                              [&](int64_t begin, int64_t end) {
                                if (!MultiplyRows(s, a, b, c, begin, end).ok()) failed = true;
                              });
    return failed ? Internal("oneDNN sgemm of [{}, {}, {}] failed", s.m, s.n, s.k)
                  : absl::OkStatus();
  }

 private:
  const bool transpose_a_;
  const bool transpose_b_;
};

class BatchMatMulKernel : public Kernel {
 public:
  BatchMatMulKernel(bool transpose_a, bool transpose_b)
      : transpose_a_(transpose_a), transpose_b_(transpose_b) {}

  absl::Status Run(const KernelContext& context) const override {
    Sizes s;
    s.transpose_a = transpose_a_;
    s.transpose_b = transpose_b_;
    s.m = context.out().dims[1];
    s.n = context.out().dims[2];
    s.k = context.in(0).dims[transpose_a_ ? 1 : 2];
    const float* a = context.in(0).as<float>();
    const float* b = context.in(1).as<float>();
    float* c = context.out().as<float>();
    std::atomic<bool> failed{false};
    context.pool->ParallelFor(context.out().dims[0], RowGrain(s.m * s.n * s.k, kMultiplyGrain),
                              [&](int64_t begin, int64_t end) {
                                for (int64_t i = begin; i < end; ++i) {
                                  const absl::Status status =
                                      MultiplyRows(s, a + i * s.m * s.k, b + i * s.k * s.n,
                                                   c + i * s.m * s.n, 0, s.m);
                                  if (!status.ok()) failed = true;
                                }
                              });
    return failed ? Internal("oneDNN sgemm of [{}, {}, {}] failed", s.m, s.n, s.k)
                  : absl::OkStatus();
  }

 private:
  const bool transpose_a_;
  const bool transpose_b_;
};

}  // namespace

KernelOr CreateMatMulCpu(const Node& node, const Program& program) {
  if (program.type(node.inputs[0]).dtype != DType::kFloat32) {
    return OnCpu(simulated::CreateMatMulLoops(node, program));
  }
  const bool ta = BoolAttr(node, "transpose_a"), tb = BoolAttr(node, "transpose_b");
  if (node.op == "batch_matmul") return std::make_unique<BatchMatMulKernel>(ta, tb);
  return std::make_unique<MatMulKernel>(ta, tb);
}

}  // namespace cohort
