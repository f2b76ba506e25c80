/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator of sm_90a's instructions, as the PTX manual describes them: products of
 * warpgroups with matrices in shared memory (wgmma), barriers in shared memory
 * (mbarrier) and barriers of a part of a block. Only 128-byte swizzling, bf16, and the
 * shapes that kernels/cuda/hopper.cuh has.
 *
 * A product is computed as late as possible, when it is waited for; until then its sums
 * are NaN. These errors end a launch, in addition to those in simt.h:
 *   - a product of data that is not there: never written, or by a copy not waited for
 *   - a product of data written by a thread, if the lane cannot know that this thread
 *     has since executed a fence for products. Lanes learn of others' fences at
 *     barriers: each thread has a vector of times, which barriers merge
 *   - a write to data that an issued product reads, unless the writing thread knows in
 *     the same way that the product has ended
 *   - a product without wgmma.fence after its registers may have changed; lanes that
 *     issue different products; threads that end without waiting for theirs
 *   - waiting for a phase of an mbarrier that its parity cannot tell from another one
 *
 * In addition to products, a barrier of a part of a block orders all threads of the
 * block.
 */
#include "hopper.h"
#include "machine.h"

#include <algorithm>
#include <deque>
#include <map>

namespace simt
{

namespace
{

constexpr unsigned WARPGROUP = 128, ROWS = 64, DEPTH = 16, CELL = 16;

using moments = std::vector<uint64_t>;

/* A product of a warpgroup: the parameters of its 128 lanes, one after the other. */
struct product {
  product_call call{};
  uint64_t given = 0;
  unsigned lanes = 0;                    /* lanes that have issued it */
  bool decoded = false, checked[4] = {}; /* for each warp */
  float a[ROWS][DEPTH];
  std::vector<float> b;      /* (n, DEPTH) */
  std::vector<size_t> cells; /* cells read by it */
};

struct accumulator { /* a lane's accumulator of a product in flight */
  float *d;
  std::vector<float> value;
  unsigned products;
};

struct lane_products {
  unsigned given = 0;
  bool ordered = false;
  std::vector<std::shared_ptr<product>> open;
  std::deque<std::vector<std::shared_ptr<product>>> groups;
  std::vector<float *> open_d;
  std::deque<std::vector<float *>> group_d;
  std::vector<accumulator> accumulators;
};

/* What a thread knows of the others: the time of each thread's last fence and of each
 * warp's last arrival. */
struct knowledge {
  moments fences, arrivals;
};

struct counted { /* a barrier of a part of a block */
  uint32_t expected = 0, left = 0, phase = 0;
  knowledge gathered, published;
};

struct hopper {
  std::vector<lane_products> lanes;
  std::vector<std::map<unsigned, std::shared_ptr<product>>> warpgroups; /* by number */
  std::vector<knowledge> known;
  std::map<size_t, counted> mbarriers;
  std::map<unsigned, counted> named;
  moments read; /* (cells, warps): when a warp's products with a cell were done */
  bool used = false;
};

hopper h;

unsigned warps()
{
  return (m.n_threads + LANES - 1) / LANES;
}

knowledge nothing()
{
  return {moments(m.n_threads), moments(warps())};
}

/* Allocates the state, for the first such instruction of a block. */
void use()
{
  if (h.used)
    return;
  h.used = true;
  h.lanes.assign(m.n_threads, lane_products{});
  h.warpgroups.assign(m.n_threads / WARPGROUP + 1, {});
  h.known.assign(m.n_threads, nothing());
  h.read.assign(m.memory.size() / CELL * warps(), 0);
}

void join(knowledge &to, const knowledge &from)
{
  for (size_t i = 0; i < to.fences.size(); i++)
    to.fences[i] = std::max(to.fences[i], from.fences[i]);
  for (size_t i = 0; i < to.arrivals.size(); i++)
    to.arrivals[i] = std::max(to.arrivals[i], from.arrivals[i]);
}

lane_products &mine()
{
  return h.lanes[m.running];
}

/* ---- matrices ---------------------------------------------------------------------- */

void check_cell(const product &p, size_t place)
{
  for (size_t i = place / GRANULE; i * GRANULE < place + CELL; i++) {
    const touched &t = m.record[i];
    if (t.write.epoch < m.block_epoch)
      fail("a product reads shared byte %zu, which was never written", i * GRANULE);
    if (t.pending)
      fail("a product reads shared byte %zu before its asynchronous copy was waited for",
           i * GRANULE);
    if (t.moment > p.given)
      fail("thread %u writes shared byte %zu while a product reads it", t.write.thread,
           i * GRANULE);
    if (h.known[m.running].fences[t.write.thread] <= t.moment)
      fail("a product reads shared byte %zu, which thread %u wrote and then was at no "
           "fence that thread %u knows of",
           i * GRANULE, t.write.thread, m.running);
  }
}

/* A matrix by its descriptor: the place of a cell of 8 elements, by the dimension that
 * is summed over and the other one. */
struct matrix {
  size_t start, leading, stride;
  bool transposed;

  matrix(uint64_t d, bool transposed_)
      : start((d & 0x3fff) << 4), leading((d >> 16 & 0x3fff) << 4),
        stride((d >> 32 & 0x3fff) << 4), transposed(transposed_)
  {
    if (d >> 62 != 1 || (d >> 49 & 7) != 0 || start % CELL != 0)
      fail("a matrix is described as %016llx: only 128-byte swizzling is emulated, from "
           "multiples of 1024 on",
           (unsigned long long)d);
  }

  size_t place(unsigned row, unsigned k) const
  {
    size_t at = transposed ? start + row / 64 * leading + row % 64 * 2 + k / 8 * stride +
                                 k % 8 * 128
                           : start + row / 8 * stride + row % 8 * 128 + k * 2;
    return at ^ (at >> 7 & 7) << 4;
  }
};

float number_at(size_t place)
{
  uint16_t bits;
  memcpy(&bits, m.memory.data() + place, sizeof bits);
  return __uint_as_float((uint32_t)bits << 16);
}

void decode(product &p, const matrix &from, unsigned rows, float *to)
{
  unsigned down = from.transposed ? 8 : 1, across = from.transposed ? 1 : 8;
  for (unsigned row = 0; row < rows; row += down) {
    for (unsigned k = 0; k < DEPTH; k += across) {
      size_t cell = from.place(row, k);
      check_bounds(cell, CELL);
      p.cells.push_back(cell / CELL);
      for (unsigned i = 0; i < 8; i++)
        to[(row + (down > 1 ? i : 0)) * DEPTH + k + (across > 1 ? i : 0)] =
            number_at(cell + 2 * i);
    }
  }
}

void decode_all(product &p)
{
  if (p.decoded)
    return;
  p.decoded = true;
  p.b.resize((size_t)p.call.n * DEPTH);
  if (p.call.a_registers == nullptr)
    decode(p, matrix(p.call.a, false), ROWS, p.a[0]);
  decode(p, matrix(p.call.b, p.call.transposed), p.call.n, p.b.data());
}

/* Called when a warp begins its part: checks all lanes' parameters before any
 * continues. */
void check_all(product &p)
{
  unsigned warp = m.running / LANES;
  if (p.checked[warp % 4])
    return;
  p.checked[warp % 4] = true;
  for (size_t cell : p.cells) {
    check_cell(p, cell * CELL);
    h.read[cell * warps() + warp] = ++m.moment;
  }
}

/* Reads A's registers of this lane, in the layout of mma. */
void take_registers(product &p, const uint32_t *registers)
{
  unsigned row = m.running % WARPGROUP / LANES * 16 + lane() / 4;
  for (unsigned i = 0; i < 4; i++)
    for (unsigned j = 0; j < 2; j++)
      p.a[row + i % 2 * 8][i / 2 * 8 + lane() % 4 * 2 + j] =
          __uint_as_float(j == 0 ? registers[i] << 16 : registers[i] & 0xffff0000u);
}

/* Adds to the lane's elements, in the layout of mma's C, 8 columns after the other. */
void add_product(const product &p, std::vector<float> &d)
{
  unsigned row = m.running % WARPGROUP / LANES * 16 + lane() / 4;
  for (unsigned i = 0; i < p.call.n / 2; i++) {
    const float *a = p.a[row + i % 4 / 2 * 8];
    const float *b = &p.b[(i / 4 * 8 + lane() % 4 * 2 + i % 2) * DEPTH];
    float sum = 0;
    for (unsigned k = 0; k < DEPTH; k++)
      sum += a[k] * b[k];
    d[i] = p.call.add ? d[i] + sum : sum;
  }
}

/* ---- in flight --------------------------------------------------------------------- */

accumulator &accumulator_of(float *d, unsigned n)
{
  for (accumulator &a : mine().accumulators)
    if (a.d == d)
      return a;
  mine().accumulators.push_back({d, std::vector<float>(d, d + n), 0});
  std::fill(d, d + n, NAN);
  return mine().accumulators.back();
}

bool same_call(const product_call &x, const product_call &y)
{
  return x.n == y.n && x.add == y.add && x.transposed == y.transposed && x.a == y.a &&
         x.b == y.b && (x.a_registers == nullptr) == (y.a_registers == nullptr);
}

void carry_out(product &p, float *d)
{
  decode_all(p);
  check_all(p);
  accumulator &a = accumulator_of(d, p.call.n / 2);
  add_product(p, a.value);
  if (--a.products > 0)
    return;
  std::copy(a.value.begin(), a.value.end(), a.d);
  std::vector<accumulator> &all = mine().accumulators;
  all.erase(all.begin() + (&a - all.data()));
}

} // namespace

void give_product(const product_call &call, site where)
{
  use();
  lane_products &l = mine();
  if (m.n_threads % WARPGROUP != 0)
    fail("%s:%d: a block of %u threads has a warpgroup that is not whole", where.file,
         where.line, m.n_threads);
  if (!l.ordered)
    fail("%s:%d: a product without wgmma.fence before it", where.file, where.line);
  auto &products = h.warpgroups[m.running / WARPGROUP];
  std::shared_ptr<product> p = products[l.given];
  if (p == nullptr) {
    p = products[l.given] = std::make_shared<product>();
    p->call = call;
    p->given = ++m.moment;
  }
  if (!same_call(p->call, call))
    fail("%s:%d: lanes of a warpgroup give different products", where.file, where.line);
  if (call.a_registers != nullptr)
    take_registers(*p, call.a_registers);
  accumulator_of(call.d, call.n / 2).products++;
  l.open.push_back(p);
  l.open_d.push_back(call.d);
  if (++p->lanes == WARPGROUP)
    products.erase(l.given);
  l.given++;
}

void products_order()
{
  use();
  mine().ordered = true;
}

void products_commit()
{
  use();
  lane_products &l = mine();
  l.groups.push_back(std::move(l.open));
  l.group_d.push_back(std::move(l.open_d));
  l.open.clear();
  l.open_d.clear();
}

/* All lanes of the warp have committed, and none continues before all products are
 * done. */
void products_wait(unsigned groups_left, site where)
{
  use();
  lane_products &l = mine();
  const exchange *all = warp_exchange(&l.given, sizeof l.given, where);
  for (unsigned i = 0; i < LANES; i++)
    if (memcmp(all[i].bytes, &l.given, sizeof l.given) != 0)
      fail("%s:%d: lanes of a warp have given different products", where.file,
           where.line);
  while (l.groups.size() > groups_left) {
    for (size_t i = 0; i < l.groups.front().size(); i++)
      carry_out(*l.groups.front()[i], l.group_d.front()[i]);
    l.groups.pop_front();
    l.group_d.pop_front();
  }
  l.ordered = false;
  warp_exchange(&l.given, sizeof l.given, where);
}

void products_fence()
{
  use();
  h.known[m.running].fences[m.running] = ++m.moment;
}

/* ---- told by simt.cpp -------------------------------------------------------------- */

bool products_begun()
{
  return h.used;
}

void products_begin_block()
{
  h.used = false;
  h.mbarriers.clear();
  h.named.clear();
}

void products_met()
{
  if (!h.used)
    return;
  knowledge all = nothing();
  for (const knowledge &k : h.known)
    join(all, k);
  std::fill(all.arrivals.begin(), all.arrivals.end(), ++m.moment);
  for (knowledge &k : h.known)
    k = all;
}

void products_end_thread()
{
  if (h.used && (!mine().groups.empty() || !mine().open.empty()))
    fail("thread %u ends with products that it has not waited for", m.running);
}

void products_check_write(size_t place)
{
  if (!h.used)
    return;
  for (unsigned warp = 0; warp < warps(); warp++)
    if (h.read[place / CELL * warps() + warp] > h.known[m.running].arrivals[warp])
      fail("thread %u writes shared byte %zu and doesn't know that products of warp %u "
           "with it are done",
           m.running, place, warp);
}

/* ---- barriers ---------------------------------------------------------------------- */

static void arrive(counted &b)
{
  knowledge &k = h.known[m.running];
  k.arrivals[m.running / LANES] = ++m.moment;
  join(b.gathered, k);
  if (--b.left > 0)
    return;
  b.left = b.expected;
  b.phase++;
  b.published = b.gathered;
  m.epoch++;
}

void mbarrier_init(size_t place, uint32_t arrivals)
{
  use();
  check_bounds(place, 8);
  h.mbarriers[place] = {arrivals, arrivals, 0, nothing(), nothing()};
}

static counted &mbarrier_at(size_t place, site where)
{
  use();
  auto found = h.mbarriers.find(place);
  if (found == h.mbarriers.end())
    fail("%s:%d: no mbarrier was made at shared byte %zu", where.file, where.line, place);
  return found->second;
}

void mbarrier_arrive(size_t place, site where)
{
  arrive(mbarrier_at(place, where));
}

void mbarrier_wait(size_t place, uint32_t phase, site where)
{
  counted &b = mbarrier_at(place, where);
  wait_for([&b, phase] { return b.phase % 2 != phase % 2; }, where);
  if (b.phase != phase + 1)
    fail("%s:%d: phase %u of an mbarrier is waited for in phase %u", where.file,
         where.line, phase, b.phase);
  join(h.known[m.running], b.published);
}

void named_barrier(unsigned id, unsigned threads, bool wait, site where)
{
  use();
  counted &b = h.named[id];
  if (b.expected == 0)
    b = {threads, threads, 0, nothing(), nothing()};
  if (b.expected != threads || id == 0 || id > 15 || threads % LANES != 0)
    fail("%s:%d: barrier %u of %u threads, and of %u before", where.file, where.line, id,
         threads, b.expected);
  uint32_t phase = b.phase;
  arrive(b);
  if (!wait)
    return;
  wait_for([&b, phase] { return b.phase != phase; }, where);
  join(h.known[m.running], b.published);
}

} // namespace simt
