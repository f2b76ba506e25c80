/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a launch, one after the other.
 *
 * A kernel that may begin before those ahead of it have ended (launch_early) does so as
 * early as possible: its first blocks run up to their wait before any of the three
 * kernels ahead (EARLY_KERNELS in stream.cpp) has read or written anything, and
 * continue when all of them have ended. So data read too early is old, and data written
 * too early is read or overwritten by kernels ahead: both give wrong results. A GPU
 * does this where the kernels between let the next begin before they wait themselves.
 *
 * Only the first EARLY_BLOCKS blocks, and the launches' order alternates: stacks and
 * shared memory of what waits are kept. A kernel none of whose blocks waits is a
 * failure: later kernels would take its end for the end of the kernels ahead.
 */
#include "machine.h"

#include <utility>

namespace simt
{

namespace
{

constexpr uint64_t EARLY_BLOCKS = 4; /* as many as the GPU has multiprocessors */

using parked = std::unique_ptr<block_state>;

std::vector<parked> spare; /* states that no block is in */

/* Exchanges the machine's block with the other one. */
void change(block_state &other)
{
  std::swap(static_cast<block_state &>(m), other);
}

class grid
{
public:
  grid(dim3 blocks, dim3 threads, size_t shared_bytes, std::function<void()> thread)
      : blocks_(blocks), threads_(threads), shared_bytes_(shared_bytes),
        thread_(std::move(thread))
  {
    m.backwards = !m.backwards;
    backwards_ = m.backwards;
  }
  grid(const grid &) = delete;
  grid &operator=(const grid &) = delete;

  ~grid()
  {
    for (parked &p : parked_) { /* after a failure */
      change(*p);
      abandon_block();
      change(*p);
      spare.push_back(std::move(p));
    }
  }

  /* Does the part of the work that is possible before the kernels ahead have ended. */
  void begin()
  {
    for (; next_ < count() && next_ < EARLY_BLOCKS && !m.failed; next_++) {
      start(true);
      if (m.failed)
        abandon_block();
      else if (m.done < m.n_threads)
        park();
      else
        waited_ = waited_ || m.waited;
    }
  }

  void finish()
  {
    for (parked &p : parked_) {
      change(*p);
      let_go_on();
      if (!m.failed)
        run_block();
      if (m.failed)
        abandon_block();
      waited_ = waited_ || m.waited;
      change(*p);
      spare.push_back(std::move(p));
    }
    parked_.clear();
    for (; next_ < count() && !m.failed; next_++) {
      start(false);
      waited_ = waited_ || m.waited;
    }
    if (m.failed)
      abandon_block();
  }

  bool waited() const
  {
    return waited_;
  }

private:
  uint64_t count() const
  {
    return (uint64_t)blocks_.x * blocks_.y * blocks_.z;
  }

  void start(bool early)
  {
    uint64_t i = backwards_ ? count() - 1 - next_ : next_;
    uint64_t plane = (uint64_t)blocks_.x * blocks_.y;
    begin_block(dim3((unsigned)(i % blocks_.x), (unsigned)(i % plane / blocks_.x),
                     (unsigned)(i / plane)),
                threads_, blocks_, shared_bytes_, &thread_, early);
    run_block();
  }

  void park()
  {
    if (products_begun())
      give_up("products of warpgroups, or their barriers, before a wait for earlier "
              "kernels: they are not emulated");
    if (spare.empty())
      spare.emplace_back(new block_state);
    parked_.push_back(std::move(spare.back()));
    spare.pop_back();
    change(*parked_.back());
  }

  dim3 blocks_, threads_;
  size_t shared_bytes_;
  std::function<void()> thread_;
  std::vector<parked> parked_;
  uint64_t next_ = 0; /* block, in the launch's order */
  bool backwards_, waited_ = false;
};

/* Called before a grid: may it run? */
bool may_run()
{
  if (planned_fault() && !m.failed)
    give_up("a fault that was asked for");
  return !m.failed;
}

} // namespace

void give_up(const char *why)
{
  m.error = why;
  m.failed = true;
}

bool run(dim3 blocks, dim3 threads, size_t shared_bytes,
         const std::function<void()> &thread)
{
  if (!may_run())
    return false;
  grid(blocks, threads, shared_bytes, thread).finish();
  return !m.failed;
}

std::function<bool()> begin_early(dim3 blocks, dim3 threads, size_t shared_bytes,
                                  std::function<void()> thread)
{
  if (!may_run())
    return [] { return false; };
  auto g = std::make_shared<grid>(blocks, threads, shared_bytes, std::move(thread));
  g->begin();
  return [g] {
    g->finish();
    if (!m.failed && !g->waited())
      give_up("a kernel that begins early, and never waits for earlier ones");
    return !m.failed;
  };
}

} // namespace simt
