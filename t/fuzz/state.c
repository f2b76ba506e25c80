/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cache manager takes over from its predecessor (export_state, import_state): the
 * states of real managers, changed and cut short. One that takes it is whole by its own
 * audit, and goes on; one that refuses it is empty, and goes on too.
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

static void open_manager(struct fake *f, unsigned kind)
{
  const struct fake_options o = {
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
  assert(fake_open(f, &o) == 0);
}

/* A sequence of so many tokens, all computed. */
static struct fake_request *cached(struct fake *f, uint32_t tokens)
{
  struct fake_request *r = submit(f, 20, tokens, 10);
  f->c->begin(f->cache_self);
  assert(f->c->reserve(f->cache_self, &r->view, tokens, LLS_FORM_NONE, 0) ==
         LLS_RESERVE_OK);
  f->c->commit(f->cache_self);
  f->c->computed(f->cache_self, &r->view, tokens);
  return r;
}

/* Some sequences on the device, one on the host where there is such a tier, and more than
 * there is room for, where slots of a best-effort one can be taken. */
static void make_state(struct fake *f, struct lls_blob *state)
{
  struct fake_request *first = cached(f, 40), *second = cached(f, 90);
  f->next.request_class = LLS_CLASS_BEST_EFFORT;
  struct fake_request *third = cached(f, 20);
  f->next.request_class = LLS_CLASS_NONE;
  struct fake_request *large = submit(f, 20, 250, 5);
  f->c->begin(f->cache_self);
  f->c->preempt(f->cache_self, &second->view, LLS_PREEMPT_SWAP);
  int rc =
      f->c->reserve(f->cache_self, &large->view, 250, LLS_FORM_NONE, LLS_MAY_DISPLACE);
  f->c->commit(f->cache_self);
  if (rc == LLS_RESERVE_OK)
    f->c->computed(f->cache_self, &large->view, 250);
  assert(f->c->export_state(f->cache_self, state) == 0);
  fake_cancel(f, first);
  fake_cancel(f, second);
  fake_cancel(f, third);
  fake_cancel(f, large);
  f->c->destroy(f->cache_self);
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
static void go_on(struct fake *f)
{
  struct fake_request *r = submit(f, 20, 30, 5);
  f->c->begin(f->cache_self);
  f->c->reserve(f->cache_self, &r->view, 30, LLS_FORM_NONE, 0);
  f->c->commit(f->cache_self);
  fake_cancel(f, r);
  assert(fake_audit(f) == 0);
}

static void take_over(struct fake *f, const struct lls_blob *state)
{
  const struct lls_cache_geometry g = {
      .size = sizeof g,
      .block_tokens = BLOCK,
      .unit_bytes = 32 * BLOCK,
      .device_units = UNITS,
      .host_units = UNITS,
  };
  assert(f->c->create(&f->host, f->cache.params, &g, &f->cache_self) == 0);
  int rc = f->c->import_state(f->cache_self, state);
  assert(fake_audit(f) == 0);
  if (rc < 0)
    go_on(f);
  f->c->destroy(f->cache_self);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct fake managers[KINDS]; /* open once; what they manage comes and goes */
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
