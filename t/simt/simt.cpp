/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of an emulated block: fibers, their waits, and the record of accesses
 * to shared memory; see simt.h. switch.cpp switches fibers in a few instructions;
 * swapcontext would call the kernel for the signal mask each time, and a block switches
 * at every barrier of every thread.
 *
 * Time. __syncthreads begins a new epoch of the block, __syncwarp one of the warp; epochs
 * grow, over blocks and launches. A place in shared memory keeps the epochs of its
 * last write and read, so nothing has to be cleared between blocks.
 */
#include "machine.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

namespace simt
{

place at;

machine m;

namespace
{

/* Stacks of a block's threads begin at different offsets in their pages. With equal
 * offsets they would share a set of every cache, and each switch would miss them
 * all. */
constexpr size_t STACK_BYTES = 256 << 10, STACK_STEP = 576, STACK_STEPS = 112;

/* ---- changing hands --------------------------------------------------------------- */

void fiber_main();

void switch_to_fiber(fiber &f)
{
  simt_switch(m.context, f.context);
}

void switch_to_scheduler(fiber &f)
{
  simt_switch(f.context, m.context);
}

void prepare(fiber &f, size_t index)
{
  if (f.stack == nullptr) {
    f.stack = (char *)mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f.stack == MAP_FAILED)
      abort();
  }
  simt_make(f.context, f.stack, STACK_BYTES - index % STACK_STEPS * STACK_STEP,
            fiber_main);
}

fiber &self()
{
  return *m.fibers[m.running];
}

/* A fiber runs one thread of one block after another. */
void fiber_main()
{
  simt_arrived(m.context);
  for (;;) {
    (*m.body)();
    products_end_thread();
    fiber &f = self();
    f.state = DONE;
    m.done++;
    switch_to_scheduler(f);
  }
}

void wait_as(state s, site where)
{
  fiber &f = self();
  f.state = s;
  f.where = where;
  switch_to_scheduler(f);
}

/* ---- blocks ----------------------------------------------------------------------- */

/* Fails because no thread can continue, and reports where each one waits. */
void deadlock()
{
  unsigned waiting = 0, in_warps = 0;
  site first{}, lane{};
  for (unsigned i = 0; i < m.n_threads; i++) {
    const fiber &f = *m.fibers[i];
    if ((f.state == AT_BARRIER || f.state == AT_CONDITION) && waiting++ == 0)
      first = f.where;
    if (f.state == AT_WARP && in_warps++ == 0)
      lane = f.where;
  }
  char text[512];
  if (in_warps > 0)
    snprintf(text, sizeof text, "%s:%d: a part of a warp's lanes waits for the others",
             lane.file, lane.line);
  else
    snprintf(text, sizeof text, "%s:%d: barrier reached by %u of %u threads of a block",
             first.file, first.line, waiting, m.n_threads);
  m.error = text;
  m.failed = true;
}

/* Renumbers the epochs long before they overflow. */
void count_anew()
{
  if (m.epoch < UINT32_C(1) << 31)
    return;
  m.epoch = 1;
  m.record.assign(m.record.size(), touched{});
  for (warp &w : m.warps)
    w.epoch = 0;
}

void prepare_fibers(unsigned n)
{
  m.n_threads = n;
  m.warps.resize((n + LANES - 1) / LANES);
  while (m.fibers.size() < n) {
    m.fibers.emplace_back(new fiber);
    prepare(*m.fibers.back(), m.fibers.size());
  }
}

bool held_back()
{
  bool held = false;
  for (unsigned i = 0; m.early && i < m.n_threads; i++)
    held = held || m.fibers[i]->state == AT_EARLIER;
  return held;
}

} // namespace

void begin_block(dim3 block, dim3 block_size, dim3 grid, size_t dynamic_bytes,
                 const std::function<void()> *body, bool early)
{
  prepare_fibers(block_size.x * block_size.y * block_size.z);
  count_anew();
  m.block = block;
  m.block_size = block_size;
  m.grid = grid;
  m.body = body;
  m.early = early;
  m.waited = false;
  m.block_epoch = ++m.epoch;
  m.arrays.clear();
  m.dynamic_at = 0;
  m.shared_used = (dynamic_bytes + 15) & ~(size_t)15;
  m.at_barrier = m.done = 0;
  for (warp &w : m.warps) {
    w.arrived = 0;
  }
  products_begin_block();
  for (unsigned i = 0; i < m.n_threads; i++) {
    m.fibers[i]->thread = {i % block_size.x, i / block_size.x % block_size.y,
                           i / (block_size.x * block_size.y)};
    m.fibers[i]->state = READY;
    m.fibers[i]->exchanges = 0;
    m.fibers[i]->groups.clear();
    m.fibers[i]->open_group.clear();
  }
}

void run_block()
{
  while (m.done < m.n_threads && !m.failed) {
    bool moved = false;
    for (unsigned i = 0; i < m.n_threads && !m.failed; i++) {
      fiber &f = *m.fibers[i];
      if (f.state == AT_CONDITION && f.ready())
        f.state = READY;
      if (f.state != READY)
        continue;
      moved = true;
      m.running = i;
      at = {f.thread, m.block, m.block_size, m.grid};
      switch_to_fiber(f);
    }
    if (!moved && held_back())
      return;
    if (!moved)
      deadlock();
  }
}

void let_go_on()
{
  products_begin_block(); /* it had none yet, but other blocks since */
  m.early = false;
  for (unsigned i = 0; i < m.n_threads; i++)
    if (m.fibers[i]->state == AT_EARLIER)
      m.fibers[i]->state = READY;
}

void abandon_block()
{
  for (size_t i = 0; i < m.fibers.size(); i++)
    prepare(*m.fibers[i], i);
}

const char *error()
{
  return m.error.c_str();
}

void error_reset()
{
  m.error.clear();
  m.failed = false;
}

void fail(const char *format, ...)
{
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (!m.failed)
    m.error = text;
  m.failed = true;
  switch_to_scheduler(self());
  abort(); /* a failed block is never continued */
}

/* ---- waiting ---------------------------------------------------------------------- */

static bool same_site(const site &a, const site &b)
{
  return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void wait_for(std::function<bool()> ready, site where)
{
  if (ready())
    return;
  self().ready = std::move(ready);
  wait_as(AT_CONDITION, where);
}

void wait_for_earlier(site where)
{
  m.waited = true;
  if (m.early)
    wait_as(AT_EARLIER, where);
}

unsigned lane()
{
  return m.running % LANES;
}

void block_barrier(site where)
{
  if (m.at_barrier == 0)
    m.barrier = where;
  if (!same_site(m.barrier, where))
    fail("%s:%d: thread %u is at this barrier while others are at %s:%d", where.file,
         where.line, m.running, m.barrier.file, m.barrier.line);
  if (++m.at_barrier < m.n_threads) {
    wait_as(AT_BARRIER, where);
    return;
  }
  m.at_barrier = 0;
  m.epoch++;
  products_met();
  for (unsigned i = 0; i < m.n_threads; i++)
    m.fibers[i]->state = READY;
}

/* The last lane of a warp to arrive lets the others continue. */
static void warp_arrive(site where)
{
  unsigned first = m.running / LANES * LANES;
  warp &w = m.warps[m.running / LANES];
  if (m.n_threads % LANES != 0)
    fail("%s:%d: a block of %u threads has a warp that is not whole", where.file,
         where.line, m.n_threads);
  if (w.arrived == 0)
    w.where = where;
  if (!same_site(w.where, where))
    fail("%s:%d: lane %u is here while others of its warp are at %s:%d", where.file,
         where.line, lane(), w.where.file, w.where.line);
  w.arrived |= 1u << lane();
  if (w.arrived != 0xffffffffu) {
    wait_as(AT_WARP, where);
    return;
  }
  w.arrived = 0;
  for (unsigned i = first; i < first + LANES; i++)
    m.fibers[i]->state = READY;
}

void require_whole_warp(unsigned mask, site where)
{
  if (mask != 0xffffffffu)
    fail("%s:%d: only whole warps are emulated, not %08x", where.file, where.line, mask);
}

void warp_barrier(unsigned mask, site where)
{
  require_whole_warp(mask, where);
  warp &w = m.warps[m.running / LANES];
  if ((w.arrived | 1u << lane()) == 0xffffffffu)
    w.epoch++;
  warp_arrive(where);
}

/*
 * Two tables alternate: none is overwritten before all lanes have been at the other,
 * and so have read it.
 */
const exchange *warp_exchange(const void *mine, size_t bytes, site where)
{
  fiber &f = self();
  exchange *table = m.warps[m.running / LANES].table[f.exchanges++ % 2];
  memcpy(table[lane()].bytes, mine, bytes);
  warp_arrive(where);
  return table;
}

/* ---- shared memory ---------------------------------------------------------------- */

size_t shared_array(const void *key, size_t bytes)
{
  for (const auto &a : m.arrays)
    if (a.first == key)
      return a.second;
  size_t begin = m.shared_used;
  m.shared_used = (begin + bytes + 15) & ~(size_t)15;
  if (m.shared_used > SHARED_MAX)
    fail("a block wants %zu bytes of shared memory", m.shared_used);
  m.arrays.emplace_back(key, begin);
  return begin;
}

size_t shared_dynamic()
{
  return m.dynamic_at;
}

/* True if there was no barrier since then that both threads have passed. */
static bool unordered(const touch &t)
{
  unsigned warp = m.running / LANES;
  return t.epoch == m.epoch && !(t.warp == warp && t.warp_epoch < m.warps[warp].epoch);
}

static void check_write(const touched &t, size_t place, bool atomic)
{
  bool written = t.write.epoch >= m.block_epoch && t.write.thread != m.running;
  bool read = t.read.epoch >= m.block_epoch && t.read.thread != m.running;
  if (written && !(atomic && t.atomically) && unordered(t.write))
    fail("thread %u writes shared byte %zu, which thread %u wrote with no barrier since",
         m.running, place, t.write.thread);
  if (read && unordered(t.read))
    fail("thread %u writes shared byte %zu, which others read with no barrier since",
         m.running, place);
  products_check_write(place);
}

static void check_read(const touched &t, size_t place, bool atomic)
{
  if (t.write.epoch < m.block_epoch)
    fail("thread %u reads shared byte %zu, which was never written", m.running, place);
  if (t.pending)
    fail("thread %u reads shared byte %zu before its asynchronous copy was waited for",
         m.running, place);
  if (t.write.thread != m.running && !(atomic && t.atomically) && unordered(t.write))
    fail("thread %u reads shared byte %zu, which thread %u wrote with no barrier since",
         m.running, place, t.write.thread);
}

/* Records one of several accesses since the last barrier, which stands for all. */
static void note(touch &t)
{
  unsigned warp = m.running / LANES;
  bool again = t.epoch == m.epoch;
  t.warp = (uint16_t)(again && t.warp != warp ? MANY : warp);
  t.thread = (uint16_t)(again && t.thread != m.running ? MANY : m.running);
  t.warp_epoch = m.warps[warp].epoch;
  t.epoch = m.epoch;
}

static void note_write(touched &t, bool atomic)
{
  note(t.write);
  if (!atomic) {
    t.write.thread = (uint16_t)m.running;
    t.write.warp = (uint16_t)(m.running / LANES);
  }
  t.atomically = atomic;
  t.pending = false;
  t.moment = ++m.moment;
}

void check_bounds(size_t place, size_t bytes)
{
  if (place + bytes > m.shared_used)
    fail("thread %u reaches shared byte %zu of %zu", m.running, place + bytes - 1,
         m.shared_used);
  if (place % bytes != 0 && bytes <= 16)
    fail("thread %u reaches %zu bytes of shared memory at %zu, which is not a multiple",
         m.running, bytes, place);
}

void *shared_touch(size_t place, size_t bytes, access a)
{
  check_bounds(place, bytes);
  for (size_t i = place / GRANULE; i * GRANULE < place + bytes; i++) {
    touched &t = m.record[i];
    if (a != WRITE)
      check_read(t, i * GRANULE, a == ATOMIC);
    if (a != READ)
      check_write(t, i * GRANULE, a == ATOMIC);
    if (a == READ)
      note(t.read);
    else
      note_write(t, a == ATOMIC);
  }
  return m.memory.data() + place;
}

/* ---- asynchronous copies ---------------------------------------------------------- */

/* The data is read when the copy is issued, and written when it is waited for. */
void async_copy(size_t to, const void *from, size_t bytes)
{
  check_bounds(to, bytes);
  async_piece piece{to, bytes, {0}};
  if (from != nullptr)
    memcpy(piece.data, from, bytes);
  for (size_t i = to / GRANULE; i * GRANULE < to + bytes; i++) {
    check_write(m.record[i], i * GRANULE, false);
    note_write(m.record[i], false);
    m.record[i].pending = true;
  }
  self().open_group.push_back(piece);
}

void async_commit()
{
  fiber &f = self();
  f.groups.push_back(std::move(f.open_group));
  f.open_group.clear();
}

void async_wait(unsigned groups_left)
{
  fiber &f = self();
  while (f.groups.size() > groups_left) {
    for (const async_piece &piece : f.groups.front()) {
      memcpy(m.memory.data() + piece.to, piece.data, piece.bytes);
      for (size_t i = piece.to / GRANULE; i * GRANULE < piece.to + piece.bytes; i++)
        note_write(m.record[i], false);
    }
    f.groups.erase(f.groups.begin());
  }
}

} // namespace simt
