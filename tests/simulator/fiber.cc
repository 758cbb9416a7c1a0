#include "tests/simulator/fiber.h"

#include <ucontext.h>

#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cohort::simulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;

// Unwinds a fiber that will not be resumed.
struct Unwind {};

// Stacks are used again: a run makes hundreds of fibers, and touching fresh memory costs more than
// what runs on it.
class Stacks {
 public:
  ~Stacks() {
    for (void* stack : idle_) std::free(stack);
  }
  void* Take() {
    if (idle_.empty()) return std::aligned_alloc(4096, kStackBytes);
    void* const stack = idle_.back();
    idle_.pop_back();
    return stack;
  }
  void Give(void* stack) { idle_.push_back(stack); }

 private:
  std::vector<void*> idle_;
};

Stacks& IdleStacks() {
  static Stacks stacks;
  return stacks;
}

// AddressSanitizer wants to know which stack is in use.
void BeforeSwitch([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(save, bottom, bytes);
#endif
}
void AfterSwitch([[maybe_unused]] void* saved, [[maybe_unused]] const void** bottom,
                 [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(saved, bottom, bytes);
#endif
}

}  // namespace

struct Fiber::Context {
  std::function<void()> body;
  ucontext_t own;
  ucontext_t resumer;
  void* stack = nullptr;
  bool ended = false;
  bool unwinding = false;
  std::exception_ptr thrown;
  Context* outer = nullptr;  // the fiber that resumed this one
  const void* resumer_stack = nullptr;
  size_t resumer_bytes = 0;

  static Context* current;
};

Fiber::Context* Fiber::Context::current = nullptr;

Fiber::Fiber(std::function<void()> body) : context_(std::make_unique<Context>()) {
  context_->body = std::move(body);
  context_->stack = IdleStacks().Take();
  getcontext(&context_->own);
  context_->own.uc_stack.ss_sp = context_->stack;
  context_->own.uc_stack.ss_size = kStackBytes;
  context_->own.uc_link = nullptr;
  makecontext(&context_->own, &Fiber::Enter, 0);
}

Fiber::~Fiber() {
  // One that never ran has nothing to unwind, but its body may own something: Enter drops it.
  if (!context_->ended) {
    context_->unwinding = true;
    Switch();
  }
  IdleStacks().Give(context_->stack);
}

bool Fiber::ended() const { return context_->ended; }

void Fiber::Switch() {
  Context* const c = context_.get();
  c->outer = std::exchange(Context::current, c);
  void* fake = nullptr;
  BeforeSwitch(&fake, c->stack, kStackBytes);
  swapcontext(&c->resumer, &c->own);
  AfterSwitch(fake, nullptr, nullptr);
  Context::current = c->outer;
}

void Fiber::Resume() {
  Switch();
  if (context_->thrown != nullptr) std::rethrow_exception(std::exchange(context_->thrown, nullptr));
}

void Fiber::Enter() {
  Context* const c = Context::current;
  AfterSwitch(nullptr, &c->resumer_stack, &c->resumer_bytes);
  if (!c->unwinding) {
    try {
      c->body();
    } catch (const Unwind&) {
    } catch (...) {
      c->thrown = std::current_exception();
    }
  }
  c->body = nullptr;
  c->ended = true;
  BeforeSwitch(nullptr, c->resumer_stack, c->resumer_bytes);
  setcontext(&c->resumer);
}

void Fiber::Suspend() {
  Context* const c = Context::current;
  void* fake = nullptr;
  BeforeSwitch(&fake, c->resumer_stack, c->resumer_bytes);
  swapcontext(&c->own, &c->resumer);
  AfterSwitch(fake, &c->resumer_stack, &c->resumer_bytes);
  if (c->unwinding) throw Unwind();
}

}  // namespace cohort::simulator
