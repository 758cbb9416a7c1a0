// Products with the attribute `precision`: common/kernels/rounded_product_cpu.cc says what they
// are.
#include "common/kernels/grid/rounded_product.h"

namespace cohort::COHORT_GRID {
namespace {

size_t AlignedTo256(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Rounds to uint16_t bits, or to float.
template <typename To>
struct RoundBody {
  const float* x;
  To* y;
  int64_t n;
  Precision precision;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    if constexpr (sizeof(To) == sizeof(float)) {
      y[i] = RoundTo(precision, x[i]);
    } else {
      y[i] = BitsOf(precision, x[i]);
    }
  }
};

// Rounds input i to scratch memory.
template <typename To>
std::unique_ptr<DeviceKernel> MakeRound(Precision precision, size_t i, size_t offset,
                                        int64_t most) {
  return MakeGridKernel(most, [i, offset, precision](const KernelContext& c) {
    return RoundBody<To>{c.in(i).as<float>(), reinterpret_cast<To*>(c.scratch + offset),
                         c.in(i).elements, precision};
  });
}

class RoundedProduct : public DeviceKernel {
 public:
  RoundedProduct(RoundedAs form, Precision precision, const int64_t (&most)[2],
                 std::unique_ptr<DeviceKernel> product)
      : product_(std::move(product)) {
    const size_t element = form == RoundedAs::kBits ? sizeof(uint16_t) : sizeof(float);
    for (size_t i = 0; i < 2; ++i) {
      offsets_[i] = operand_bytes_;
      rounds_[i] = form == RoundedAs::kBits
                       ? MakeRound<uint16_t>(precision, i, operand_bytes_, most[i])
                       : MakeRound<float>(precision, i, operand_bytes_, most[i]);
      operand_bytes_ += AlignedTo256(static_cast<size_t>(most[i]) * element);
    }
  }

  size_t scratch_bytes() const override { return operand_bytes_ + product_->scratch_bytes(); }
  size_t body_bytes() const override {
    return rounds_[0]->body_bytes() + rounds_[1]->body_bytes() + product_->body_bytes();
  }
  void WriteBodies(const KernelContext& c, uint8_t* to) const override {
    for (const auto& round : rounds_) {
      round->WriteBodies(c, to);
      to += round->body_bytes();
    }
    product_->WriteBodies(Rounded(*this, c).context, to);
  }
  void AddTo(GraphPlan* plan, const KernelContext& c, const uint8_t* bodies) const override {
    for (const auto& round : rounds_) {
      round->AddTo(plan, c, bodies);
      bodies += round->body_bytes();
    }
    product_->AddTo(plan, Rounded(*this, c).context, bodies);
  }

 private:
  // The context of the product. It points into this object.
  struct Rounded {
    Rounded(const RoundedProduct& kernel, const KernelContext& c) : context(c) {
      for (size_t i = 0; i < 2; ++i) {
        operands[i] = c.in(i);
        operands[i].data = c.scratch + kernel.offsets_[i];
        inputs[i] = &operands[i];
      }
      context.inputs = inputs;
      context.scratch = c.scratch + kernel.operand_bytes_;
    }
    Rounded(const Rounded&) = delete;
    Rounded& operator=(const Rounded&) = delete;

    ValueView operands[2];
    const ValueView* inputs[2];
    KernelContext context;
  };

  const std::unique_ptr<DeviceKernel> product_;
  std::unique_ptr<DeviceKernel> rounds_[2];
  size_t offsets_[2] = {0, 0};
  size_t operand_bytes_ = 0;
};

}  // namespace

std::unique_ptr<DeviceKernel> OnRoundedOperands(const Node& node, const Program& program,
                                                RoundedAs form,
                                                std::unique_ptr<DeviceKernel> product) {
  const int64_t most[2] = {CapacityElements(program.type(node.inputs[0])),
                           CapacityElements(program.type(node.inputs[1]))};
  return std::make_unique<RoundedProduct>(form, PrecisionOf(node), most, std::move(product));
}

}  // namespace cohort::COHORT_GRID
