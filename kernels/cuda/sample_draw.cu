/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing a token when the row's largest logit is known. Two of the three kernels read
 * the row once each; the last two run again if top_p comes after top_k.
 *
 *   count_weights  counts weights by their upper bits; the last block of a row finds
 *                  the bin that contains the boundary of top_k or top_p
 *   list_weights   sums the mass that is certainly kept, chunk by chunk, and lists the
 *                  weights in that bin
 *   draw_tokens    finds, with a block for each row, the boundary in the list, the chunk
 *                  that the random number falls into, and the token
 *
 * Bytes of a token of the vocabulary: 4 in each of the first two. Operations: about 35 in
 * each, most of them exp; of the shared memory two atomics in the first.
 */
#include "kernels/cuda/sample_room.cuh"

static __device__ __forceinline__ row drawn_row(const lls_cuda_sample &a,
                                                const drawing &state)
{
  return {a.logits + (size_t)blockIdx.y * a.vocab, a.vocab, state.top, state.scale};
}

static __device__ __forceinline__ void weigh(const row &r, chunk &c)
{
#pragma unroll
  for (unsigned k = 0; k < PER_THREAD; k++)
    c.x[k] = weight(r, c.x[k]);
}

/* ---- fine bins --------------------------------------------------------------------- */

/*
 * The excess of a bin's weights, which is the sum of their masses above the bin's least
 * mass, is kept in units without rounding: above 2^-17 a mass is the weight's 24 bits
 * shifted left, below it is cut off. A unit is 2^unit_of(least bits of the bin); the
 * sum over a chunk is at most 2^31.
 */
static __device__ __forceinline__ unsigned unit_of(uint32_t least)
{
  return least >> 23 > 110 ? (least >> 23) - 110 : 0; /* 127 + 23 - 40 */
}

static __device__ __forceinline__ uint32_t excess_of(uint32_t bits)
{
  uint32_t within = bits & ((1u << range_of_bits(bits).shift) - 1);
  if (bits >= 110u << 23)
    return within;
  return (uint32_t)(__uint_as_float(bits) * MASS_UNITS) -
         (uint32_t)(__uint_as_float(bits - within) * MASS_UNITS);
}

static __device__ __forceinline__ u64 mass_of_bin(uint32_t bin, uint32_t n, u64 excess)
{
  uint32_t least = least_bits(bin);
  return n * mass_of(__uint_as_float(least)) + (excess << unit_of(least));
}

#define BINS_EACH (FINE_BINS / THREADS) /* bins of a thread, the highest first */

struct before { /* counts and masses of the bins above a thread's bins */
  u64 n, mass, total_mass;
};

/* Sums over all threads above this one, from each thread's n and mass; room (WARPS)
 * each. */
static __device__ before add_up_above(u64 n, u64 mass, shared<u64> n_room,
                                      shared<u64> mass_room)
{
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  u64 n_here = n, mass_here = mass;
  for (unsigned by = 1; by < WARP; by *= 2) {
    u64 n_before = __shfl_up_sync(ALL_LANES, n_here, by);
    u64 mass_before = __shfl_up_sync(ALL_LANES, mass_here, by);
    n_here += lane >= by ? n_before : 0;
    mass_here += lane >= by ? mass_before : 0;
  }
  __syncthreads();
  if (lane == WARP - 1) {
    n_room[warp] = n_here;
    mass_room[warp] = mass_here;
  }
  __syncthreads();
  before b = {n_here - n, mass_here - mass, 0};
#pragma unroll 4 /* registers */
  for (unsigned i = 0; i < WARPS; i++) {
    b.n += i < warp ? (u64)n_room[i] : 0;
    b.mass += i < warp ? (u64)mass_room[i] : 0;
    b.total_mass += mass_room[i];
  }
  return b;
}

/* Returns the state of a walk at one of the thread's bins, with the sums above it. */
static __device__ __forceinline__ walk walk_to(const row_room *row, uint32_t found,
                                               before b)
{
#pragma unroll 1
  for (uint32_t bin = found | (BINS_EACH - 1); bin > found; bin--) {
    b.n += row->count[bin];
    b.mass += mass_of_bin(bin, row->count[bin], row->excess[bin]);
  }
  uint32_t n = row->count[found];
  return {found, n, (uint32_t)b.n, mass_of_bin(found, n, row->excess[found]), b.mass};
}

/*
 * Finds the bin where the row's count, or mass, reaches the target: the highest that
 * does, else the lowest that is not empty. If `share`, target is a share of the whole
 * mass. Called by all threads; the bin and the target go to the state.
 */
static __device__ void find_fine(row_room *row, bool by_mass, double target, bool share,
                                 shared<u64> n_room, shared<u64> mass_room)
{
  uint32_t highest = FINE_BINS - 1 - threadIdx.x * BINS_EACH;
  u64 n = 0, mass = 0;
#pragma unroll 4 /* registers */
  for (uint32_t i = 0; i < BINS_EACH; i++) {
    uint32_t bin = highest - i;
    n += row->count[bin];
    mass += mass_of_bin(bin, row->count[bin], row->excess[bin]);
  }
  before b = add_up_above(n, mass, n_room, mass_room);
  if (share)
    target *= (double)b.total_mass;
  u64 reached = 0, lowest = 0; /* encoded as 1 + a bin, and FINE_BINS - a bin */
  n = b.n;
  mass = b.mass;
#pragma unroll 4 /* registers */
  for (uint32_t i = 0; i < BINS_EACH; i++) {
    uint32_t bin = highest - i, here = row->count[bin];
    n += here;
    mass += mass_of_bin(bin, here, row->excess[bin]);
    if (here == 0)
      continue;
    lowest = FINE_BINS - bin;
    if (reached == 0 && (by_mass ? (double)mass : (double)n) >= target)
      reached = bin + 1;
  }
  reached = block_largest(reached, n_room);
  lowest = block_largest(lowest, n_room);
  uint32_t found = (uint32_t)(reached > 0 ? reached - 1 : FINE_BINS - lowest);
  if (found / BINS_EACH == highest / BINS_EACH)
    row->state.w = walk_to(row, found, b);
  if (threadIdx.x == 0)
    row->state.target = target;
  __syncthreads();
}

__global__ void __launch_bounds__(THREADS, 3) count_weights(lls_cuda_sample a)
{
  SHARED_ARRAY(uint32_t, count, FINE_BINS);
  SHARED_ARRAY(uint32_t, excess, FINE_BINS);
  SHARED_ARRAY(u64, n_room, WARPS);
  SHARED_ARRAY(u64, mass_room, WARPS);
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  row_room *room = room_of(a);
  for (unsigned i = threadIdx.x; i < FINE_BINS; i += THREADS)
    count[i] = excess[i] = 0;
  wait_for_earlier();
  let_next_begin();
  if (!room->state.drawn || !is_filtered(d))
    return;
  const row r = drawn_row(a, room->state);
  const float least = room->state.least;
  chunk c;
  load_chunk(r, c);
  weigh(r, c);
  __syncthreads();
  each(c, [&](uint32_t, float p) {
    uint32_t bits = __float_as_uint(p), bin = bin_of(bits);
    if (p < least)
      return;
    atomicAdd(&count[bin], 1u);
    atomicAdd(&excess[bin], excess_of(bits));
  });
  __syncthreads();
  for (unsigned i = threadIdx.x; i < FINE_BINS; i += THREADS) {
    uint32_t n = count[i];
    if (n == 0)
      continue;
    atomicAdd(&room->count[i], n);
    atomicAdd(&room->excess[i], (u64)excess[i]);
  }
  if (is_last_chunk(room->state))
    find_fine(room, !d.by_count, d.by_count ? (double)d.top_k : (double)d.top_p,
              !d.by_count, n_room, mass_room);
}

/* ---- the list --------------------------------------------------------------------- */

/* Returns the sum of n over the threads before this one; room (WARPS). */
static __device__ uint32_t count_before(uint32_t n, uint32_t *total, shared<u64> room)
{
  const unsigned lane = threadIdx.x % WARP;
  uint32_t sum = n;
  for (unsigned by = 1; by < WARP; by *= 2) {
    uint32_t lower = __shfl_up_sync(ALL_LANES, sum, by);
    sum += lane >= by ? lower : 0;
  }
  __syncthreads();
  if (lane == WARP - 1)
    room[threadIdx.x / WARP] = sum;
  __syncthreads();
  sum -= n;
  *total = 0;
#pragma unroll 4 /* registers */
  for (unsigned i = 0; i < WARPS; i++) {
    sum += i < threadIdx.x / WARP ? (uint32_t)room[i] : 0;
    *total += (uint32_t)room[i];
  }
  return sum;
}

/* Lists the chunk's weights with bits in [low, high), in any order. */
static __device__ void list_chunk(const chunk &c, float least, uint32_t low,
                                  uint32_t high, row_room *room, shared<u64> warps)
{
  SHARED_ARRAY(uint32_t, first, 1);
  uint32_t mine = 0, total;
  each(c, [&](uint32_t, float p) {
    uint32_t bits = __float_as_uint(p);
    mine += p >= least && bits >= low && bits < high;
  });
  uint32_t at = count_before(mine, &total, warps);
  if (threadIdx.x == 0 && total > 0)
    first[0] = atomicAdd(&room->state.n_listed, total);
  __syncthreads();
  if (mine == 0)
    return;
  at += first[0];
  each(c, [&](uint32_t i, float p) {
    uint32_t bits = __float_as_uint(p);
    if (p >= least && bits >= low && bits < high)
      room->list[at++] = {i, bits};
  });
}

/* Sums the mass that the chunk keeps wherever the boundary is in its bin. */
static __device__ void note_kept(const chunk &c, float least, uint32_t above,
                                 chunk_part *part, shared<u64> warps)
{
  u64 mass = 0;
  each(c, [&](uint32_t, float p) {
    mass += p >= least && __float_as_uint(p) >= above ? mass_of(p) : 0;
  });
  mass = block_total(mass, warps);
  if (threadIdx.x == 0)
    part->kept = mass;
}

__global__ void __launch_bounds__(THREADS, 2) list_weights(lls_cuda_sample a)
{
  SHARED_ARRAY(u64, warps, WARPS);
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  row_room *room = room_of(a);
  wait_for_earlier();
  let_next_begin();
  if (!room->state.drawn)
    return;
  const row r = drawn_row(a, room->state);
  const walk w = room->state.w;
  const float least = room->state.least;
  const uint32_t high = is_filtered(d) ? least_bits(w.bin + 1) : 0;
  chunk c;
  load_chunk(r, c);
  weigh(r, c);
  note_kept(c, least, high, parts_of(a) + blockIdx.x, warps);
  if (is_filtered(d) && w.n <= LISTED)
    list_chunk(c, least, least_bits(w.bin), high, room, warps);
}

/* ---- the boundary ------------------------------------------------------------------ */

/* The weights of the boundary's bin: from the list or, if they were too many for the
 * list (mostly equal logits), from the row itself. */
struct bin_source {
  row r;
  const listed *list;
  uint32_t low, high, n; /* weights with bits in [low, high) */
};

static __device__ __forceinline__ uint32_t source_bits(const bin_source &s, uint32_t i)
{
  bool is_listed = s.n <= LISTED;
  if (i >= (is_listed ? s.n : s.r.vocab))
    return s.high;
  return is_listed ? s.list[i].bits : __float_as_uint(weight(s.r, s.r.logits[i]));
}

/* Loads four at once, so that loads do not wait for each other. */
template <class F>
static __device__ __forceinline__ void each_weight(const bin_source &s, F f)
{
  uint32_t n = s.n <= LISTED ? s.n : s.r.vocab;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < n; i += 4 * THREADS) {
    uint32_t a = source_bits(s, i), b = source_bits(s, i + THREADS),
             c = source_bits(s, i + 2 * THREADS), d = source_bits(s, i + 3 * THREADS);
#pragma unroll 1
    for (unsigned k = 0; k < 4; k++, a = b, b = c, c = d)
      if (a >= s.low && a < s.high)
        f(a);
  }
}

/* Finds what the filters keep. Returns false if another round must find top_p's
 * boundary. */
static __device__ bool find_kept(const lls_cuda_draw &d, const row &r, row_room *room,
                                 const counters &c, kept &k, shared<u64> n_room,
                                 shared<u64> mass_room)
{
  bool by_mass = room->state.again || !d.by_count;
  k = {room->state.least, ~(u64)0, 0};
#pragma unroll 1
  for (;;) {
    const walk w = room->state.w;
    const bin_source source = {r, room->list, least_bits(w.bin), least_bits(w.bin + 1),
                               w.n};
    /* all bits above the shift are equal within the bin */
    int shift = range_of_bin(w.bin).shift > 16 ? 16 : 8;
    k = select_until(source, k.bound, k.ties, by_mass, room->state.target, w,
                     source.low >> (shift + 8), shift, c);
    if (by_mass || !d.by_mass)
      return true;
    by_mass = true;
    __syncthreads(); /* all threads have read the state */
    find_fine(room, true, (double)d.top_p * (double)k.mass, false, n_room, mass_room);
    if (room->state.w.bin != w.bin)
      break;
  }
  if (threadIdx.x == 0) {
    room->state.again = 1;
    room->state.n_listed = 0;
  }
  return false;
}

/* ---- the draw ---------------------------------------------------------------------- */

/* a token's measure: its mass if it is kept or, for ties, 1 if it is a tie */
struct measure {
  bool ties;
  float bound;
  uint32_t last_tie; /* id of the last tie that is kept */
};

static __device__ __forceinline__ bool is_measured(const measure &m, uint32_t i, float p)
{
  if (m.ties)
    return p == m.bound;
  return p > m.bound || (p == m.bound && i <= m.last_tie);
}

static __device__ __forceinline__ u64 measure_of(const row &r, const measure &m,
                                                 uint32_t i, float logit)
{
  float p = weight(r, logit);
  if (!is_measured(m, i, p))
    return 0;
  return m.ties ? 1 : mass_of(p);
}

/* The same as find_token for n tokens from `low` on, one a lane; if no sum exceeds
 * `value`, the last token with a measure. */
static __device__ uint32_t find_among(const row &r, const measure &m, u64 value,
                                      uint32_t low, uint32_t n)
{
  uint32_t lane = threadIdx.x % WARP, i = low + lane;
  u64 mine = lane < n && i < r.vocab ? measure_of(r, m, i, r.logits[i]) : 0, sum = mine;
  for (unsigned by = 1; by < WARP; by *= 2) {
    u64 before = __shfl_up_sync(ALL_LANES, sum, by);
    sum += lane >= by ? before : 0;
  }
  unsigned beyond = __ballot_sync(ALL_LANES, sum > value);
  unsigned measured = __ballot_sync(ALL_LANES, mine > 0);
  if (beyond != 0)
    return low + (uint32_t)__ffs((int)beyond) - 1;
  return measured != 0 ? low + WARP - 1 - (uint32_t)__clz((int)measured) : low;
}

/* Returns the first token by id, of n from `low` on, at which the sum of the measures
 * exceeds `value`. Each warp sums a part of the range; the part with the answer is the
 * next range. */
static __device__ uint32_t find_token(const row &r, const measure &m, u64 value,
                                      uint32_t low, uint32_t n, shared<u64> room)
{
  while (n > WARP) {
    uint32_t part = (n + WARPS - 1) / WARPS, warp = threadIdx.x / WARP;
    uint32_t begin = warp * part < n ? warp * part : n;
    uint32_t end = begin + part < n ? begin + part : n;
    u64 sum = 0;
    each(r, low + begin + threadIdx.x % WARP, WARP, low + end,
         [&](uint32_t i, float x) { sum += measure_of(r, m, i, x); });
    for (unsigned bits = WARP / 2; bits > 0; bits /= 2)
      sum += __shfl_xor_sync(ALL_LANES, sum, bits);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
      room[warp] = sum;
    __syncthreads();
    uint32_t found = 0;
    for (u64 here; found + 1 < WARPS && (here = room[found]) <= value; found++)
      value -= here;
    low += found * part < n ? found * part : n - 1;
    n = found * part < n && n - found * part < part ? n - found * part : part;
  }
  return find_among(r, m, value, low, n);
}

struct chunk_sums { /* (MOST_CHUNKS) of listed tokens; sum: of all measured tokens */
  shared<uint32_t> count, excess;
  shared<u64> sum;
};

/* Adds the measures of listed tokens to those that each chunk has outside of the
 * bin. */
static __device__ void add_up_chunks(const row &r, const row_room *room,
                                     const chunk_part *parts, const measure &m,
                                     const chunk_sums &s)
{
  const walk w = room->state.w;
  __syncthreads(); /* earlier values may still be read */
  for (unsigned i = threadIdx.x; i < chunks_of(r.vocab); i += THREADS)
    s.count[i] = s.excess[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < w.n; i += THREADS) {
    listed one = room->list[i];
    if (!is_measured(m, one.id, __uint_as_float(one.bits)))
      continue;
    atomicAdd(&s.count[one.id / CHUNK], 1u);
    if (!m.ties)
      atomicAdd(&s.excess[one.id / CHUNK], excess_of(one.bits));
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < chunks_of(r.vocab); i += THREADS)
    s.sum[i] = m.ties ? (u64)s.count[i]
                      : parts[i].kept + mass_of_bin(w.bin, s.count[i], s.excess[i]);
  __syncthreads();
}

/* Like find_token, over the whole row; begins with chunks if the boundary's bin is
 * listed. */
static __device__ uint32_t find_in_row(const row &r, const row_room *room,
                                       const chunk_part *parts, const measure &m,
                                       u64 value, const chunk_sums &s, shared<u64> warps)
{
  uint32_t low = 0, n = r.vocab;
  if (room->state.w.n <= LISTED) {
    uint32_t found = 0;
    add_up_chunks(r, room, parts, m, s);
    for (u64 here; found + 1 < chunks_of(r.vocab) && (here = s.sum[found]) <= value;
         found++)
      value -= here;
    low = found * CHUNK;
    n = r.vocab - low < CHUNK ? r.vocab - low : CHUNK;
  }
  return find_token(r, m, value, low, n, warps);
}

/* Keeps all tokens if min_p is the only filter. */
static __device__ kept keep_all(const row &r, const row_room *room,
                                const chunk_part *parts, shared<u64> warps)
{
  u64 mass = 0;
  for (unsigned i = threadIdx.x; i < chunks_of(r.vocab); i += THREADS)
    mass += parts[i].kept;
  return {room->state.least, ~(u64)0, block_total(mass, warps)};
}

/* Draws; a block for each row. */
static __device__ void draw(const lls_cuda_sample &a, const row &r, const counters &c,
                            const chunk_sums &s, shared<u64> n_room,
                            shared<u64> mass_room)
{
  const lls_cuda_draw &d = a.draws[blockIdx.y];
  row_room *room = room_of(a);
  const chunk_part *parts = parts_of(a);
  kept k;
  if (!is_filtered(d))
    k = keep_all(r, room, parts, n_room);
  else if (!find_kept(d, r, room, c, k, n_room, mass_room))
    return;
  measure m = {k.ties != ~(u64)0, k.bound, r.vocab - 1};
  uint32_t token;
#pragma unroll 1
  for (;;) { /* first the last tie, if not all ties are kept */
    u64 value = m.ties ? k.ties - 1 : __umul64hi(d.uniform, k.mass);
    token = find_in_row(r, room, parts, m, value, s, n_room);
    if (!m.ties)
      break;
    m = {false, k.bound, token};
  }
  give(a, r, token, room->state.sum, n_room);
  if (threadIdx.x == 0)
    room->state.drawn = 0;
}

__global__ void __launch_bounds__(THREADS) draw_tokens(lls_cuda_sample a)
{
  SHARED_ARRAY(u64, n_room, WARPS);
  SHARED_ARRAY(u64, mass_room, WARPS);
  SHARED_ARRAY(uint32_t, count, BINS * COPIES);
  SHARED_ARRAY(uint32_t, limb, LIMBS * BINS * COPIES);
  SHARED_ARRAY(u64, mass, BINS);
  SHARED_ARRAY(uint32_t, chunk_count, MOST_CHUNKS);
  SHARED_ARRAY(uint32_t, chunk_excess, MOST_CHUNKS);
  SHARED_ARRAY(u64, chunk_sum, MOST_CHUNKS);
  wait_for_earlier();
  let_next_begin();
  const drawing &state = room_of(a)->state;
  if (state.drawn)
    draw(a, drawn_row(a, state), {count, limb, mass},
         {chunk_count, chunk_excess, chunk_sum}, n_room, mass_room);
}

/* ---- launching --------------------------------------------------------------------- */

static int run_round(cudaStream_t s, dim3 chunks, const lls_cuda_sample *a)
{
  int rc = launch_early(s, list_weights, chunks, THREADS, 0, *a);
  return rc == 0 ? launch_early(s, draw_tokens, dim3(1, chunks.y), THREADS, 0, *a) : rc;
}

extern "C" int lls_cuda_run_draw(cudaStream_t s, const struct lls_cuda_sample *a)
{
  dim3 grid(chunks_of(a->vocab), a->n_rows);
  int rc = a->filtered ? launch_early(s, count_weights, grid, THREADS, 0, *a) : 0;
  for (uint32_t round = 0; round <= (a->twice != 0) && rc == 0; round++)
    rc = run_round(s, grid, a);
  return rc;
}
