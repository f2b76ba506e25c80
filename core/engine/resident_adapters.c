/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters in the memory of a device that is not the host. An arena of [lora]
 * device_memory bytes is allocated at the start, before the cache takes the rest. An
 * adapter lies in one piece of it, found first-fit; the one that no step has used for
 * longest makes room for another. Adapters of one step that the arena has no room for at
 * once are read from pinned host memory, over the link, until a later step does not use
 * them: slower, and no request fails for it. If that memory cannot be allocated, the
 * sequence is named as the culprit: its request fails, and the step runs without it.
 *
 * Copies are found by digest: an address may be given to another adapter.
 */
#include "core/engine/resident_adapters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/engine/engine_internal.h"
#include "core/lora/lora.h"

#define PINNED    SIZE_MAX /* `at` of a copy in host memory */
#define ALIGNMENT 16       /* of parts, as kernels read them */

static struct lls_resident_adapters *residents(struct lls_engine *e)
{
  return &e->adapters.residents;
}

static size_t aligned(size_t bytes)
{
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- the arena --------------------------------------------------------------------- */

static void drop(struct lls_engine *e, struct lls_resident_adapter *one)
{
  DL_DELETE(residents(e)->list, one);
  if (one->at == PINNED)
    e->device->ops->release(e->device, LLS_MEMORY_PINNED, one->matrices);
  free(one);
}

/* Finds a gap for `bytes`. Returns true, its place, and the copy that follows or NULL. */
static bool find_gap(const struct lls_resident_adapters *r, size_t bytes, size_t *at,
                     struct lls_resident_adapter **behind)
{
  struct lls_resident_adapter *one;
  size_t end = 0;
  *behind = NULL;
  DL_FOREACH (r->list, one) {
    if (one->at == PINNED || one->at - end >= bytes) {
      *behind = one;
      break;
    }
    end = one->at + one->bytes;
  }
  if (*behind == NULL || (*behind)->at == PINNED) /* pinned ones are the last */
    end = r->bytes - end >= bytes ? end : PINNED;
  *at = end;
  return end != PINNED;
}

/* Returns the copy in the arena that no step has used for longest; NULL: this step uses
 * all. */
static struct lls_resident_adapter *oldest(const struct lls_resident_adapters *r)
{
  struct lls_resident_adapter *one, *found = NULL;
  DL_FOREACH (r->list, one) {
    if (one->at != PINNED && one->used < r->step &&
        (found == NULL || one->used < found->used))
      found = one;
  }
  return found;
}

/* Puts a copy in the arena or, if that has no room, in pinned memory. */
static int place(struct lls_engine *e, struct lls_resident_adapter *one)
{
  struct lls_resident_adapters *r = residents(e);
  struct lls_resident_adapter *behind, *old;
  bool fits = one->bytes <= r->bytes;
  while (fits && !find_gap(r, one->bytes, &one->at, &behind)) {
    old = oldest(r);
    fits = old != NULL;
    if (fits)
      drop(e, old);
  }
  if (fits) {
    one->matrices = r->arena + one->at;
    DL_PREPEND_ELEM(r->list, behind, one);
    return 0;
  }
  void *matrices;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_PINNED, one->bytes, &matrices);
  if (rc < 0)
    return rc;
  one->matrices = matrices;
  one->at = PINNED;
  DL_APPEND(r->list, one);
  return 0;
}

/* ---- copies ------------------------------------------------------------------------ */

static struct lls_resident_adapter *make(const struct lls_engine *e,
                                         const struct lls_lora *lora)
{
  size_t n = (size_t)lora->layers * LLS_LORA_TARGETS;
  size_t number = lls_dtype_bytes(e->device->activation_type);
  struct lls_resident_adapter *one = calloc(1, sizeof *one + n * sizeof *one->places);
  if (one == NULL)
    return NULL;
  memcpy(one->digest, lora->digest, sizeof one->digest);
  for (size_t i = 0; i < n; i++) {
    enum lls_lora_target target = (enum lls_lora_target)(i % LLS_LORA_TARGETS);
    one->places[i] = one->bytes;
    one->bytes +=
        aligned(number * lls_lora_part_numbers(&e->model, target, lora->parts[i].rank));
  }
  return one;
}

/* Writes all parts in one call, since the device waits for a call's copies at its end. */
static int write_parts(const struct lls_engine *e, const struct lls_lora *lora,
                       const struct lls_resident_adapter *one)
{
  enum lls_memory memory = one->at == PINNED ? LLS_MEMORY_PINNED : LLS_MEMORY_DEVICE;
  size_t n = 0, most = (size_t)lora->layers * LLS_LORA_TARGETS;
  struct lls_adapter_numbers *parts = calloc(most, sizeof *parts);
  if (parts == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < most; i++) {
    const struct lls_lora_part *part = &lora->parts[i];
    parts[n].from = part->a; /* b follows a */
    parts[n].n = lls_lora_part_numbers(&e->model, i % LLS_LORA_TARGETS, part->rank);
    parts[n].to = one->matrices + one->places[i];
    n += parts[n].n > 0;
  }
  int rc = e->device->ops->adapter_write(e->device, memory, parts, n);
  free(parts);
  return rc;
}

static struct lls_resident_adapter *find(const struct lls_resident_adapters *r,
                                         const struct lls_lora *lora)
{
  struct lls_resident_adapter *one;
  DL_FOREACH (r->list, one) {
    if (memcmp(one->digest, lora->digest, sizeof one->digest) == 0)
      return one;
  }
  return NULL;
}

static int bring(struct lls_engine *e, const struct lls_lora *lora,
                 struct lls_resident_adapter **out)
{
  struct lls_resident_adapter *one = make(e, lora);
  int rc = one == NULL ? -ENOMEM : place(e, one);
  if (rc < 0) {
    free(one);
    return rc;
  }
  rc = write_parts(e, lora, one);
  if (rc < 0)
    drop(e, one);
  else
    *out = one;
  return rc;
}

/* Copies in pinned memory of adapters that this step does not use. */
static void drop_pinned(struct lls_engine *e)
{
  struct lls_resident_adapter *one, *next;
  DL_FOREACH_SAFE (residents(e)->list, one, next) {
    if (one->at == PINNED && one->used < residents(e)->step)
      drop(e, one);
  }
}

/* Returns the copy of a sequence's adapter, marked as used by this step; NULL: the
 * sequence has no adapter, or the device has no copy of it. */
static struct lls_resident_adapter *use(struct lls_resident_adapters *r,
                                        const struct lls_engine_sequence *s)
{
  struct lls_resident_adapter *one = s->adapter != NULL ? find(r, s->adapter) : NULL;
  if (one != NULL)
    one->used = r->step;
  return one;
}

int lls_residents_bring(struct lls_engine *e, const struct lls_engine_batch *batch,
                        uint32_t *lacking)
{
  struct lls_resident_adapters *r = residents(e);
  const struct lls_engine_sequence *s = batch->sequences;
  *lacking = batch->n_sequences;
  if (e->device->ops->adapter_write == NULL)
    return 0;
  r->step++;
  for (uint32_t i = 0; i < batch->n_sequences; i++)
    use(r, &s[i]);
  drop_pinned(e);
  for (uint32_t i = 0; i < batch->n_sequences; i++) {
    struct lls_resident_adapter *one = use(r, &s[i]);
    int rc = s[i].adapter != NULL && one == NULL ? bring(e, s[i].adapter, &one) : 0;
    if (rc == -ENOMEM)
      *lacking = i;
    if (rc < 0)
      return rc;
    if (one != NULL)
      one->used = r->step;
  }
  return 0;
}

void lls_residents_lay_out(struct lls_engine *e)
{
  struct lls_engine_adapters *a = &e->adapters;
  for (uint32_t i = 0; i < a->n; i++)
    a->resident[i] = find(&a->residents, a->list[i]);
}

/* ---- life -------------------------------------------------------------------------- */

int lls_residents_init(struct lls_engine *e)
{
  struct lls_resident_adapters *r = residents(e);
  size_t bytes = e->options.adapter_bytes / ALIGNMENT * ALIGNMENT;
  void *arena;
  if (e->device->ops->adapter_write == NULL || bytes == 0)
    return 0;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, bytes, &arena);
  if (rc < 0)
    return rc;
  r->arena = arena;
  r->bytes = bytes;
  return 0;
}

void lls_residents_free(struct lls_engine *e)
{
  struct lls_resident_adapters *r = residents(e);
  while (r->list != NULL)
    drop(e, r->list);
  if (r->arena != NULL)
    e->device->ops->release(e->device, LLS_MEMORY_DEVICE, r->arena);
}
