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

/* Blocks of one element type in a tier or in the staging memory. */
struct blocks {
  char *numbers;
  uint16_t *scales;     /* NULL: not int8 */
  size_t bytes, stride; /* bytes of a block's values; bytes from block to block */
};

static struct blocks blocks_in(const struct lls_pool *p, void *numbers, uint16_t *scales,
                               uint32_t form)
{
  bool int8 = form == LLS_FORM_INT8;
  size_t number = lls_dtype_bytes(p->shape.element);
  return (struct blocks){
      .numbers = numbers,
      .scales = int8 ? scales : NULL,
      .bytes = int8 ? p->unit_bytes / number : p->unit_bytes,
      .stride = int8 ? p->unit_bytes / 2 : p->unit_bytes,
  };
}

static struct blocks source_of(const struct lls_pool *p, const struct lls_copy *c)
{
  bool host = lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE;
  return blocks_in(p, host ? p->host : p->view.data,
                   host ? p->host_scales : p->view.scales, c->source_form);
}

static struct blocks target_of(const struct lls_pool *p, const struct lls_copy *c)
{
  bool host = lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST;
  return blocks_in(p, host ? p->host : p->view.data,
                   host ? p->host_scales : p->view.scales, c->target_form);
}

static enum cudaMemcpyKind kind_of(const struct lls_copy *c)
{
  static const enum cudaMemcpyKind kinds[] = {
      cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice};
  return kinds[lls_copy_way(c)];
}

static bool is_whole(const struct lls_pool *p, const struct lls_copy *c)
{
  return c->n_slots == p->shape.block_tokens;
}

static bool converts(const struct lls_copy *c)
{
  return (c->source_form == LLS_FORM_INT8) != (c->target_form == LLS_FORM_INT8);
}

/* Are both copies of whole blocks between the same tiers and element types? */
static bool alike(const struct lls_pool *p, const struct lls_copy *a,
                  const struct lls_copy *b)
{
  return is_whole(p, a) && is_whole(p, b) && lls_copy_way(a) == lls_copy_way(b) &&
         a->order == b->order &&
         (a->source_form == LLS_FORM_INT8) == (b->source_form == LLS_FORM_INT8) &&
         (a->target_form == LLS_FORM_INT8) == (b->target_form == LLS_FORM_INT8);
}

/* ---- as they are ------------------------------------------------------------------- */

/* Moves n whole blocks that are contiguous at both ends and have the same element
 * type. */
static int move(const struct lls_cuda_device *d, const struct lls_pool *p,
                struct blocks to, size_t target, struct blocks from, size_t source,
                size_t n, enum cudaMemcpyKind kind)
{
  char *into = to.numbers + target * to.stride,
       *out_of = from.numbers + source * from.stride;
  size_t scales = lls_scale_bytes(&p->shape), scale_numbers = scales / sizeof *to.scales;
  if (into == out_of)
    return 0;
  int rc = to.bytes == to.stride
               ? cudaMemcpyAsync(into, out_of, n * to.bytes, kind, d->copies)
               : cudaMemcpy2DAsync(into, to.stride, out_of, from.stride, to.bytes, n,
                                   kind, d->copies);
  if (rc == cudaSuccess && to.scales != NULL)
    rc = cudaMemcpyAsync(to.scales + target * scale_numbers,
                         from.scales + source * scale_numbers, n * scales, kind,
                         d->copies);
  return rc;
}

/* ---- some slots of blocks ---------------------------------------------------------- */

/* Describes a copy of slots, head by head. */
static struct lls_cuda_slot_run slot_run(const struct lls_pool *p,
                                         const struct lls_copy *c)
{
  return (struct lls_cuda_slot_run){
      .from =
          source_of(p, c).numbers + c->source * p->unit_bytes + c->slot * p->slot_bytes,
      .to = target_of(p, c).numbers + c->target * p->unit_bytes +
            (size_t)(c->slot + c->shift) * p->slot_bytes,
      .bytes = c->n_slots * p->slot_bytes,
  };
}

static bool overlap(const struct lls_copy *a, const struct lls_copy *b)
{
  uint32_t first = (uint32_t)(a->slot + a->shift), other = (uint32_t)(b->slot + b->shift);
  return a->target == b->target && first < other + b->n_slots &&
         other < first + a->n_slots;
}

/* Returns how many of n copies of slots one launch can make: all over the link, in the
 * same direction, none reading or writing what another writes. A copy within the device
 * may read what another writes, so it is launched alone. */
static size_t slots_together(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  size_t most = n < LLS_CUDA_SLOT_RUNS ? n : LLS_CUDA_SLOT_RUNS;
  if (lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE ||
      p->slot_bytes % sizeof(uint32_t) != 0)
    return 1;
  for (size_t i = 1; i < most; i++) {
    if (is_whole(p, &c[i]) || lls_copy_way(&c[i]) != lls_copy_way(c) ||
        c[i].order != c->order)
      return i;
    for (size_t j = 0; j < i; j++)
      if (overlap(&c[i], &c[j]))
        return i;
  }
  return most;
}

static int move_slots(const struct lls_cuda_device *d, const struct lls_pool *p,
                      const struct lls_copy *c, size_t n)
{
  struct lls_cuda_slots a = {.head_bytes = p->head_bytes,
                             .slot_bytes = p->slot_bytes,
                             .heads = p->shape.layers * p->shape.kv_heads};
  struct lls_cuda_slot_run one = slot_run(p, c);
  if (n == 1)
    return one.bytes == 0 || one.from == one.to
               ? 0
               : cudaMemcpy2DAsync(one.to, p->head_bytes, one.from, p->head_bytes,
                                   one.bytes, a.heads, kind_of(c), d->copies);
  for (; a.n < n; a.n++)
    a.runs[a.n] = slot_run(p, &c[a.n]);
  return lls_cuda_run_slots(d->copies, &a);
}

/* ---- whole ones -------------------------------------------------------------------- */

/* Returns how many of n copies move neighbouring blocks. */
static size_t neighbours(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  size_t i = 1;
  while (i < n && alike(p, &c[0], &c[i]) && c[i].source == c[0].source + i &&
         c[i].target == c[0].target + i &&
         lls_copy_way(&c[0]) != LLS_COPY_DEVICE_TO_DEVICE)
    i++;
  return i;
}

/* ---- to another element ------------------------------------------------------------ */

static uint32_t unit_of(uint32_t form, uint32_t block)
{
  return form == LLS_FORM_INT8 ? block / 2 : block;
}

/* Would one of the two copies read or write what the other writes? */
static bool must_wait(const struct lls_copy *c, const struct lls_copy *earlier)
{
  uint32_t from = unit_of(c->source_form, c->source);
  uint32_t to = unit_of(c->target_form, c->target);
  bool same_pool = lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE;
  return c->target == earlier->target ||
         (same_pool && (from == unit_of(c->target_form, earlier->target) ||
                        to == unit_of(c->source_form, earlier->source)));
}

/* Returns how many of n copies one launch can make. */
static size_t together(const struct lls_pool *p, const struct lls_copy *c, size_t n)
{
  uint32_t over_link =
      lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE ? c->source_form : c->target_form;
  size_t staged = over_link == LLS_FORM_INT8 ? LLS_CUDA_STAGED : LLS_CUDA_STAGED / 2;
  size_t most =
      lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE ? LLS_CUDA_CONVERTED : staged;
  for (size_t i = 1; i < n && i < most; i++) {
    if (!alike(p, &c[0], &c[i]))
      return i;
    for (size_t j = 0; j < i; j++)
      if (must_wait(&c[i], &c[j]))
        return i;
  }
  return n < most ? n : most;
}

static struct lls_cuda_conversion conversion(struct blocks from, struct blocks to)
{
  return (struct lls_cuda_conversion){
      .from = from.numbers,
      .to = to.numbers,
      .from_scales = from.scales,
      .to_scales = to.scales,
  };
}

/* Quantises or widens blocks into the staging memory and copies them to the host. */
static int convert_to_host(const struct lls_cuda_device *d, const struct lls_pool *p,
                           const struct lls_copy *c, size_t n)
{
  struct blocks staged = blocks_in(p, p->staged, p->staged_scales, c->target_form);
  struct lls_cuda_conversion change = conversion(source_of(p, c), staged);
  for (; change.n < n; change.n++)
    change.blocks[change.n] = (struct lls_cuda_block_pair){c[change.n].source, change.n};
  int rc = lls_cuda_run_conversion(d->copies, &p->view, &change);
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    for (run = 1; i + run < n && c[i + run].target == c[i].target + run;)
      run++;
    rc = move(d, p, target_of(p, c), c[i].target, staged, i, run, kind_of(c));
  }
  return rc;
}

/* Copies blocks from the host to the staging memory and converts them from there. */
static int convert_from_host(const struct lls_cuda_device *d, const struct lls_pool *p,
                             const struct lls_copy *c, size_t n)
{
  struct blocks staged = blocks_in(p, p->staged, p->staged_scales, c->source_form);
  struct lls_cuda_conversion change = conversion(staged, target_of(p, c));
  int rc = cudaSuccess;
  for (size_t i = 0, run; i < n && rc == cudaSuccess; i += run) {
    for (run = 1; i + run < n && c[i + run].source == c[i].source + run;)
      run++;
    rc = move(d, p, staged, i, source_of(p, c), c[i].source, run, kind_of(c));
  }
  for (; change.n < n; change.n++)
    change.blocks[change.n] = (struct lls_cuda_block_pair){change.n, c[change.n].target};
  return rc != cudaSuccess ? rc : lls_cuda_run_conversion(d->copies, &p->view, &change);
}

static int convert(const struct lls_cuda_device *d, const struct lls_pool *p,
                   const struct lls_copy *c, size_t n)
{
  if (lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST)
    return convert_to_host(d, p, c, n);
  if (lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE)
    return convert_from_host(d, p, c, n);
  struct lls_cuda_conversion change = conversion(source_of(p, c), target_of(p, c));
  for (; change.n < n; change.n++)
    change.blocks[change.n] =
        (struct lls_cuda_block_pair){c[change.n].source, c[change.n].target};
  return lls_cuda_run_conversion(d->copies, &p->view, &change);
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
    *rc =
        move(d, p, target_of(p, c), c->target, source_of(p, c), c->source, n, kind_of(c));
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
