// matmul, batch_matmul, conv2d and its gradients with the attribute `precision`: operands are
// rounded to bfloat16 or float16, and the ordinary float32 kernel runs on them. This is the
// specification; devices multiply 16-bit operands.
#include <utility>

#include "common/base/thread_pool.h"
#include "common/graph/mixed_precision.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

size_t RoundedBytes(const Node& node, const Program& program, size_t input) {
  const auto elements = static_cast<size_t>(CapacityElements(program.type(node.inputs[input])));
  return (elements * sizeof(float) + 63) / 64 * 64;
}

template <Precision precision>
void RoundAll(const float* __restrict from, float* __restrict to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) to[i] = RoundTo(precision, from[i]);
}

// Scratch: the rounded operands, then what the product needs.
class RoundedProduct : public Kernel {
 public:
  RoundedProduct(std::unique_ptr<Kernel> product, Precision precision, size_t a_bytes,
                 size_t b_bytes)
      : product_(std::move(product)),
        precision_(precision),
        offsets_{0, a_bytes},
        operand_bytes_(a_bytes + b_bytes) {}

  size_t scratch_bytes() const override { return operand_bytes_ + product_->scratch_bytes(); }

  absl::Status Run(const KernelContext& c) const override {
    ValueView operands[2];
    const ValueView* inputs[2];
    for (size_t i = 0; i < 2; ++i) {
      operands[i] = c.in(i);
      operands[i].data = c.scratch + offsets_[i];
      inputs[i] = &operands[i];
      Round(c.in(i), operands[i].as<float>(), c.pool);
    }
    KernelContext rounded = c;
    rounded.inputs = inputs;
    rounded.scratch = c.scratch + operand_bytes_;
    return product_->Run(rounded);
  }

 private:
  void Round(const ValueView& from, float* to, ThreadPool* pool) const {
    pool->ParallelFor(from.elements, kElementGrain, [&](int64_t begin, int64_t end) {
      if (precision_ == Precision::kBfloat16) {
        RoundAll<Precision::kBfloat16>(from.as<float>(), to, begin, end);
      } else {
        RoundAll<Precision::kFloat16>(from.as<float>(), to, begin, end);
      }
    });
  }

  const std::unique_ptr<Kernel> product_;
  const Precision precision_;
  const size_t offsets_[2];
  const size_t operand_bytes_;
};

}  // namespace

KernelOr RoundOperands(const Node& node, const Program& program, KernelOr product) {
  const Precision precision = PrecisionOf(node);
  if (!product.ok() || precision == Precision::kFloat32) return product;
  return std::make_unique<RoundedProduct>(*std::move(product), precision,
                                          RoundedBytes(node, program, 0),
                                          RoundedBytes(node, program, 1));
}

}  // namespace cohort
