/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the state that a cache manager takes over from its predecessor (export_state,
 * import_state): states of real managers, changed and truncated. A manager that accepts
 * it passes its own audit and continues; a manager that refuses it is empty and
 * continues, too.
 *
 * The first byte says who takes over, the second from whom; then places and what they are
 * to be, three bytes each, the first two of which are the place; one behind the end cuts
 * the state to as many 256ths of it as the third says.
 */
#include "t/plugin/transactions.h"

#include "t/fuzz/fuzz.h"

#define KINDS 4
#define BLOCK 16
#define UNITS 40

static const char *const names[KINDS] = {"paged", "hybrid", "tiered", "bidirectional"};
static struct lls_blob states[KINDS];

static void open_manager(struct bed *bed, unsigned kind)
{
  const struct bed_options o = {
      .scheduler = {"fcfs", NULL},
      .cache = {names[kind], NULL},
      .block_tokens = BLOCK,
      .device_units = UNITS,
      .host_units = UNITS,
      .max_tokens = 1024,
      .max_sequences = 16,
      .max_context = 256,
      .max_requests = 8,
  };
  assert(bed_open(bed, &o) == 0);
  bed->broken = true; /* by what it takes over */
}

/* Makes a sequence of `tokens` computed tokens. */
static struct lls_live *cached(struct bed *bed, uint32_t tokens)
{
  struct lls_live *r = submit(bed, 20, tokens, 10);
  bed->c->begin(bed->cache_self);
  assert(bed->c->reserve(bed->cache_self, &r->view, tokens, LLS_FORM_NONE, 0) ==
         LLS_RESERVE_OK);
  bed->c->commit(bed->cache_self);
  bed->c->computed(bed->cache_self, &r->view, tokens);
  return r;
}

/* Some sequences on the device, one on the host where there is such a tier, and more than
 * there is room for, where slots of a best-effort one can be taken. */
static void make_state(struct bed *bed, struct lls_blob *state)
{
  struct lls_live *first = cached(bed, 40), *second = cached(bed, 90);
  bed->next.request_class = LLS_CLASS_BEST_EFFORT;
  struct lls_live *third = cached(bed, 20);
  bed->next.request_class = LLS_CLASS_NONE;
  struct lls_live *large = submit(bed, 20, 250, 5);
  bed->c->begin(bed->cache_self);
  bed->c->preempt(bed->cache_self, &second->view, LLS_PREEMPT_SWAP);
  int rc = bed->c->reserve(bed->cache_self, &large->view, 250, LLS_FORM_NONE,
                           LLS_MAY_DISPLACE);
  bed->c->commit(bed->cache_self);
  if (rc == LLS_RESERVE_OK)
    bed->c->computed(bed->cache_self, &large->view, 250);
  assert(bed->c->export_state(bed->cache_self, state) == 0);
  bed_cancel(bed, first);
  bed_cancel(bed, second);
  bed_cancel(bed, third);
  bed_cancel(bed, large);
}

static struct lls_blob spoil(const struct lls_blob *state, const uint8_t *data,
                             size_t size)
{
  size_t bytes = state->bytes;
  uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
  assert(copy != NULL);
  memcpy(copy, state->data, bytes);
  for (; size >= 3; data += 3, size -= 3) {
    size_t at = data[0] | (size_t)data[1] << 8;
    if (at < state->bytes)
      copy[at] = data[2];
    else
      bytes = state->bytes * data[2] / 256;
  }
  /* no byte behind its end can be read unseen */
  uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
  assert(exact != NULL);
  memcpy(exact, copy, bytes);
  free(copy);
  return (struct lls_blob){.version = state->version, .bytes = bytes, .data = exact};
}

/* A new request comes and goes, as room there is. */
static void go_on(struct bed *bed)
{
  struct lls_live *r = submit(bed, 20, 30, 5);
  bed->c->begin(bed->cache_self);
  bed->c->reserve(bed->cache_self, &r->view, 30, LLS_FORM_NONE, 0);
  bed->c->commit(bed->cache_self);
  bed_cancel(bed, r);
  assert(bed_audit(bed) == 0);
}

static void take_over(struct bed *bed, const struct lls_blob *state)
{
  void *self, *own = bed->cache_self;
  assert(bed_create_cache(bed, &bed->geometry, &self) == 0);
  bed_use_cache(bed, self);
  int rc = bed->c->import_state(self, state);
  assert(bed_audit(bed) == 0);
  if (rc < 0)
    go_on(bed);
  bed->c->destroy(self);
  bed_use_cache(bed, own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct bed managers[KINDS]; /* open once; what they manage comes and goes */
  if (size < 2)
    return 0;
  for (unsigned kind = 0; kind < KINDS; kind++)
    if (states[kind].data == NULL) {
      open_manager(&managers[kind], kind);
      make_state(&managers[kind], &states[kind]);
    }
  struct lls_blob blob = spoil(&states[data[1] % KINDS], data + 2, size - 2);
  take_over(&managers[data[0] % KINDS], &blob);
  free(blob.data);
  return 0;
}
