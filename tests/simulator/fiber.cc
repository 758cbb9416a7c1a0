#include "tests/simulator/fiber.h"

#include <ucontext.h>

#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

// gcc defines a macro, clang has a feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COHORT_FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define COHORT_FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define COHORT_FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define COHORT_FIBER_TSAN 1
#endif

#if defined(COHORT_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(COHORT_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace cohort::simulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;

// Unwinds a fiber that will not be resumed.
struct Unwind {};

// Reuses stacks: a run makes hundreds of fibers, and touching fresh memory costs more than the code
// that runs on it.
class Stacks {
 public:
  ~Stacks() {
    for (void* stack : idle_) std::free(stack);
  }
  void* Take() {
    if (idle_.empty()) return std::aligned_alloc(4096, kStackBytes);
    void* const stack = idle_.back();
    idle_.pop_back();
#if defined(COHORT_FIBER_ASAN)
    // The last frames of the fiber before never returned.
    __asan_unpoison_memory_region(stack, kStackBytes);
#endif
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

// The sanitizers must know which stack is in use. The address sanitizer takes its bounds; the
// thread sanitizer takes an object of its own. The call to the thread sanitizer must come right
// before the switch, because its functions count calls and returns: no call may begin on one stack
// and return on another.
#define COHORT_FIBER_INLINE [[gnu::always_inline]] inline

COHORT_FIBER_INLINE void BeforeSwitch([[maybe_unused]] void** save,
                                      [[maybe_unused]] const void* bottom,
                                      [[maybe_unused]] size_t bytes,
                                      [[maybe_unused]] void* tsan_fiber) {
#if defined(COHORT_FIBER_ASAN)
  __sanitizer_start_switch_fiber(save, bottom, bytes);
#elif defined(COHORT_FIBER_TSAN)
  __tsan_switch_to_fiber(tsan_fiber, 0);
#endif
}
COHORT_FIBER_INLINE void AfterSwitch([[maybe_unused]] void* saved,
                                     [[maybe_unused]] const void** bottom,
                                     [[maybe_unused]] size_t* bytes) {
#if defined(COHORT_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(saved, bottom, bytes);
#endif
}

#if defined(COHORT_FIBER_TSAN)
void* MakeTsanFiber() { return __tsan_create_fiber(0); }
void DropTsanFiber(void* fiber) { __tsan_destroy_fiber(fiber); }
void* CurrentTsanFiber() { return __tsan_get_current_fiber(); }
#else
void* MakeTsanFiber() { return nullptr; }
void DropTsanFiber(void*) {}
void* CurrentTsanFiber() { return nullptr; }
#endif

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
  void* own_tsan = nullptr;
  void* resumer_tsan = nullptr;

  static Context* current;
};

Fiber::Context* Fiber::Context::current = nullptr;

Fiber::Fiber(std::function<void()> body) : context_(std::make_unique<Context>()) {
  context_->body = std::move(body);
  context_->stack = IdleStacks().Take();
  context_->own_tsan = MakeTsanFiber();
  getcontext(&context_->own);
  context_->own.uc_stack.ss_sp = context_->stack;
  context_->own.uc_stack.ss_size = kStackBytes;
  context_->own.uc_link = nullptr;
  makecontext(&context_->own, &Fiber::Enter, 0);
}

Fiber::~Fiber() {
  // A fiber that never ran has nothing to unwind, but its body may own objects: Enter destroys it.
  if (!context_->ended) {
    context_->unwinding = true;
    Switch();
  }
  DropTsanFiber(context_->own_tsan);
  IdleStacks().Give(context_->stack);
}

bool Fiber::ended() const { return context_->ended; }

void Fiber::Switch() {
  Context* const c = context_.get();
  c->outer = std::exchange(Context::current, c);
  c->resumer_tsan = CurrentTsanFiber();
  void* fake = nullptr;
  BeforeSwitch(&fake, c->stack, kStackBytes, c->own_tsan);
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
  BeforeSwitch(nullptr, c->resumer_stack, c->resumer_bytes, c->resumer_tsan);
  setcontext(&c->resumer);
}

void Fiber::Suspend() {
  Context* const c = Context::current;
  void* fake = nullptr;
  BeforeSwitch(&fake, c->resumer_stack, c->resumer_bytes, c->resumer_tsan);
  swapcontext(&c->own, &c->resumer);
  AfterSwitch(fake, &c->resumer_stack, &c->resumer_bytes);
  if (c->unwinding) throw Unwind();
}

}  // namespace cohort::simulator
