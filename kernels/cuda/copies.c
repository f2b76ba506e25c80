/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of blocks, on a separate stream, which first waits for the previous step.
 * Copies before the step end with an event that the computing stream waits for;
 * asynchronous copies run during the step, and step_end waits for them.
 *
 * A whole block is one copy, of about a MiB, and neighbouring blocks are moved
 * together. Where the element types differ, a kernel converts a few staged blocks on
 * the device, before or after the transfer. That takes a thirtieth of the transfer's
 * time, so overlapping the two would gain nothing. Some slots of blocks are short rows,
 * one for each head and layer: many are moved by one launch.
 */
#include "kernels/cuda/ops.h"

#include <errno.h>

/* Blocks of one form in a tier or in the staging memory. */
struct blocks {
  char *memory;
  size_t bytes;  /* of a block */
  size_t stride; /* what a block's number counts, in bytes */
  size_t pitch;  /* bytes from a block to its neighbour */
};

static struct blocks blocks_in(const struct lls_pool *p, void *memory, uint32_t group,
                               uint32_t form)
{
  return (struct blocks){
      .memory = memory,
      .bytes = lls_form_bytes(&p->groups[group], form),
      .stride = p->unit_bytes,
      .pitch = lls_form_units(&p->groups[group], form) * p->unit_bytes,
  };
}

static struct blocks staged_in(const struct lls_pool *p, uint32_t group, uint32_t form)
{
  size_t room = lls_cuda_staged_bytes(&p->shape);
  return (struct blocks){.memory = p->staged,
                         .bytes = lls_form_bytes(&p->groups[group], form),
                         .stride = room,
                         .pitch = room};
}

static struct blocks source_of(const struct lls_pool *p, const struct lls_copy *c)
{
  bool host = lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE;
  return blocks_in(p, host ? p->host : p->view.data, c->group, c->source_form);
}

static struct blocks target_of(const struct lls_pool *p, const struct lls_copy *c)
{
  bool host = lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST;
  return blocks_in(p, host ? p->host : p->view.data, c->group, c->target_form);
}

static enum cudaMemcpyKind kind_of(const struct lls_copy *c)
{
  static const enum cudaMemcpyKind kinds[] = {
      cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice};
  return kinds[lls_copy_way(c)];
}

/* A state is copied as a whole, which 0 slots mean. */
static bool is_whole(const struct lls_pool *p, const struct lls_copy *c)
{
  return c->n_slots == p->shape.block_tokens || p->groups[c->group].state > 0;
}

static bool converts(const struct lls_copy *c)
{
  return (c->source_form == LLS_FORM_INT8) != (c->target_form == LLS_FORM_INT8);
}

/* Are both copies of whole blocks of a group between the same tiers and forms? */
static bool alike(const struct lls_pool *p, const struct lls_copy *a,
                  const struct lls_copy *b)
{
  return is_whole(p, a) && is_whole(p, b) && lls_copy_way(a) == lls_copy_way(b) &&
         a->order == b->order && a->group == b->group &&
         lls_form_or_kv(a->source_form) == lls_form_or_kv(b->source_form) &&
         lls_form_or_kv(a->target_form) == lls_form_or_kv(b->target_form);
}

/* ---- as they are ------------------------------------------------------------------- */

/* Moves n whole blocks of one form that are neighbours at both ends. */
static int move(const struct lls_cuda_device *d, struct blocks to, size_t target,
                struct blocks from, size_t source, size_t n, enum cudaMemcpyKind kind)
{
  char *into = to.memory + target * to.stride,
       *out_of = from.memory + source * from.stride;
  if (into == out_of)
    return 0;
  if (n == 1 || (to.bytes == to.pitch && from.bytes == from.pitch))
    return cudaMemcpyAsync(into, out_of, n * to.bytes, kind, d->copies);
  return cudaMemcpy2DAsync(into, to.pitch, out_of, from.pitch, to.bytes, n, kind,
                           d->copies);
}

/* ---- some slots of blocks ---------------------------------------------------------- */

/* Describes a copy of slots, head by head. */
static struct lls_cuda_slot_run slot_run(const struct lls_pool *p,
                                         const struct lls_copy *c)
{
  return (struct lls_cuda_slot_run){
      .from = source_of(p, c).memory + c->source * p->unit_bytes +
              c->slot * p->slot_bytes[c->group],
      .to = target_of(p, c).memory + c->target * p->unit_bytes +
            (size_t)(c->slot + c->shift) * p->slot_bytes[c->group],
      .bytes = c->n_slots * p->slot_bytes[c->group],
  };
}

/* Do blocks of a group in these forms share units? */
static bool share_units(const struct lls_pool_shape *s, uint32_t form, uint32_t block,
                        uint32_t other_form, uint32_t other)
{
  return block < other + (uint64_t)lls_form_units(s, other_form) &&
         other < block + (uint64_t)lls_form_units(s, form);
}

/* Do two copies of slots of a group write the same? */
static bool overlap(const struct lls_pool *p, const struct lls_copy *a,
                    const struct lls_copy *b)
{
  uint32_t first = (uint32_t)(a->slot + a->shift), other = (uint32_t)(b->slot + b->shift);
  if (a->target != b->target)
    return share_units(&p->groups[a->group], a->target_form, a->target, b->target_form,
                       b->target);
  return first < other + b->n_slots && other < first + a->n_slots;
}

/* Returns how many of n copies of slots one launch can make: all over the link, in the
 * same direction, none reading or writing what another writes. A copy within the device
 * may read what another writes, so it is launched alone. */
static size_t slots_together(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  size_t most = n < LLS_CUDA_SLOT_RUNS ? n : LLS_CUDA_SLOT_RUNS;
  if (lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE ||
      p->slot_bytes[c->group] % sizeof(uint32_t) != 0)
    return 1;
  for (size_t i = 1; i < most; i++) {
    if (is_whole(p, &c[i]) || lls_copy_way(&c[i]) != lls_copy_way(c) ||
        c[i].order != c->order || c[i].group != c->group ||
        lls_form_sides(&p->shape, c[i].source_form) !=
            lls_form_sides(&p->shape, c->source_form))
      return i;
    for (size_t j = 0; j < i; j++)
      if (overlap(p, &c[i], &c[j]))
        return i;
  }
  return most;
}

static int move_slots(const struct lls_cuda_device *d, const struct lls_pool *p,
                      const struct lls_copy *c, size_t n)
{
  const struct lls_pool_shape *s = &p->groups[c->group];
  size_t pitch = p->head_bytes[c->group];
  struct lls_cuda_slots a = {.head_bytes = pitch,
                             .slot_bytes = p->slot_bytes[c->group],
                             .heads = lls_form_sides(s, c->source_form) * s->layers *
                                      s->kv_heads};
  struct lls_cuda_slot_run one = slot_run(p, c);
  if (n == 1)
    return one.bytes == 0 || one.from == one.to
               ? 0
               : cudaMemcpy2DAsync(one.to, pitch, one.from, pitch, one.bytes, a.heads,
                                   kind_of(c), d->copies);
  for (; a.n < n; a.n++)
    a.runs[a.n] = slot_run(p, &c[a.n]);
  return lls_cuda_run_slots(d->copies, &a);
}

/* ---- whole ones -------------------------------------------------------------------- */

/* Returns how many of n copies move neighbouring blocks. */
static size_t neighbours(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  uint32_t units = lls_form_units(&p->groups[c->group], c->source_form);
  size_t i = 1;
  while (i < n && alike(p, &c[0], &c[i]) && c[i].source == c[0].source + i * units &&
         c[i].target == c[0].target + i * units &&
         lls_copy_way(&c[0]) != LLS_COPY_DEVICE_TO_DEVICE)
    i++;
  return i;
}

/* ---- to another form --- ----------------------------------------------------------- */

/* Would one of the two copies read or write what the other writes? */
static bool must_wait(const struct lls_pool *p, const struct lls_copy *c,
                      const struct lls_copy *earlier)
{
  uint32_t from = c->source_form, to = c->target_form; /* as earlier's */
  bool same_pool = lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE;
  const struct lls_pool_shape *s = &p->groups[c->group];
  return share_units(s, to, c->target, to, earlier->target) ||
         (same_pool && (share_units(s, from, c->source, to, earlier->target) ||
                        share_units(s, to, c->target, from, earlier->source)));
}

/* Returns how many of n copies one launch can make. */
static size_t together(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  size_t most =
      lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE ? LLS_CUDA_CONVERTED : LLS_CUDA_STAGED;
  for (size_t i = 1; i < n && i < most; i++) {
    if (!alike(p, &c[0], &c[i]))
      return i;
    for (size_t j = 0; j < i; j++)
      if (must_wait(p, &c[i], &c[j]))
        return i;
  }
  return n < most ? n : most;
}

static struct lls_cuda_conversion conversion(const struct lls_copy *c, struct blocks from,
                                             struct blocks to)
{
  return (struct lls_cuda_conversion){
      .from = from.memory,
      .to = to.memory,
      .from_stride = from.stride,
      .to_stride = to.stride,
      .quantise = c->target_form == LLS_FORM_INT8,
  };
}

/* Quantises or widens blocks into the staging memory and copies them to the host. */
static int convert_to_host(const struct lls_cuda_device *d, const struct lls_pool *p,
                           const struct lls_copy *c, size_t n)
{
  uint32_t units = lls_form_units(&p->groups[c->group], c->target_form);
  struct blocks staged = staged_in(p, c->group, c->target_form);
  struct lls_cuda_conversion change = conversion(c, source_of(p, c), staged);
  for (; change.n < n; change.n++)
    change.blocks[change.n] = (struct lls_cuda_block_pair){c[change.n].source, change.n};
  int rc = lls_cuda_run_conversion(d->copies, &p->views[c->group], &change);
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    for (run = 1; i + run < n && c[i + run].target == c[i].target + run * units;)
      run++;
    rc = move(d, target_of(p, c), c[i].target, staged, i, run, kind_of(c));
  }
  return rc;
}

/* Copies blocks from the host to the staging memory and converts them from there. */
static int convert_from_host(const struct lls_cuda_device *d, const struct lls_pool *p,
                             const struct lls_copy *c, size_t n)
{
  uint32_t units = lls_form_units(&p->groups[c->group], c->source_form);
  struct blocks staged = staged_in(p, c->group, c->source_form);
  struct lls_cuda_conversion change = conversion(c, staged, target_of(p, c));
  int rc = cudaSuccess;
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    for (run = 1; i + run < n && c[i + run].source == c[i].source + run * units;)
      run++;
    rc = move(d, staged, i, source_of(p, c), c[i].source, run, kind_of(c));
  }
  for (; change.n < n; change.n++)
    change.blocks[change.n] = (struct lls_cuda_block_pair){change.n, c[change.n].target};
  return rc != cudaSuccess
             ? rc
             : lls_cuda_run_conversion(d->copies, &p->views[c->group], &change);
}

static int convert(const struct lls_cuda_device *d, const struct lls_pool *p,
                   const struct lls_copy *c, size_t n)
{
  if (lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST)
    return convert_to_host(d, p, c, n);
  if (lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE)
    return convert_from_host(d, p, c, n);
  struct lls_cuda_conversion change = conversion(c, source_of(p, c), target_of(p, c));
  for (; change.n < n; change.n++)
    change.blocks[change.n] =
        (struct lls_cuda_block_pair){c[change.n].source, c[change.n].target};
  return lls_cuda_run_conversion(d->copies, &p->views[c->group], &change);
}

/* ---- a list ------------------------------------------------------------------------ */

/* Begins the first few of n copies, and returns how many. */
static size_t copy_some(const struct lls_cuda_device *d, const struct lls_pool *p,
                        const struct lls_copy *c, size_t n, int *rc)
{
  if (!is_whole(p, c)) {
    n = slots_together(p, c, n);
    *rc = move_slots(d, p, c, n);
    return n;
  }
  n = converts(c) ? together(p, c, n) : neighbours(p, c, n);
  if (converts(c))
    *rc = convert(d, p, c, n);
  else
    *rc = move(d, target_of(p, c), c->target, source_of(p, c), c->source, n, kind_of(c));
  return n;
}

int lls_cuda_pool_copy(struct lls_device *device, struct lls_pool *pool,
                       const struct lls_copy *copies, size_t n)
{
  struct lls_cuda_device *d = lls_cuda(device);
  size_t last_before = 0;
  lls_cuda_refuse(d, cudaSuccess, "");
  for (size_t i = 0; i < n; i++) {
    if (!lls_copy_fits(&pool->shape, &copies[i]))
      return -EINVAL;
    if (copies[i].order == LLS_COPY_BEFORE_STEP)
      last_before = i + 1;
  }
  int rc = cudaSetDevice(d->gpu);
  if (rc == cudaSuccess)
    rc = cudaStreamWaitEvent(d->copies, d->step_done, 0);
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    run = copy_some(d, pool, &copies[i], n - i, &rc);
    if (d->debug && rc == cudaSuccess)
      rc = cudaStreamSynchronize(d->copies);
    if (rc == cudaSuccess && last_before > i && last_before <= i + run) {
      rc = cudaEventRecord(d->copies_before, d->copies);
      if (rc == cudaSuccess)
        rc = cudaStreamWaitEvent(d->stream, d->copies_before, 0);
    }
  }
  if (rc == cudaSuccess)
    rc = cudaEventRecord(d->copies_done, d->copies);
  d->copies_given = true;
  return lls_cuda_refuse(d, rc, "copying blocks");
}
