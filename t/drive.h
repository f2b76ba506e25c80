/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the prompts of a reference model through the engine under a rule (the size of
 * chunks, the start of each prompt, preemptions) and compares every logit of the
 * prompts and every token of the continuations with the reference.
 */
#ifndef LLS_T_DRIVE_H
#define LLS_T_DRIVE_H

#include "t/drive_groups.h"

#include "core/engine/engine.h"
#include "core/engine/worker_rank.h"
#include "core/lora/lora.h"
#include "core/ranks/ranks.h"
#include "kernels/cpu/device.h"

#include <math.h>

#define DRIVE_MAX_TOKENS   256 /* most tokens of a step */
#define DRIVE_MAX_COPIES   512
#define DRIVE_DEVICE_UNITS 512 /* halves of blocks in KV form */
#define DRIVE_HOST_UNITS   1024

struct drive_model { /* the model under test */
  struct reference *reference;
  struct lls_device *device;
  struct lls_engine *engine;
  struct lls_ranks *ranks; /* rank 0's group; NULL: a single rank */
  struct lls_worker_ranks *followers;
  struct lls_lora *adapters[REFERENCE_MAX_PROMPTS]; /* of each prompt, or NULL */
  float scales[REFERENCE_MAX_PROMPTS];
};

struct drive_options {
  enum lls_weight_format weights;
  enum lls_dtype cache_element;
  uint32_t block_tokens; /* 0 = 16 */
  uint32_t max_tokens;   /* 0 = DRIVE_MAX_TOKENS */
  uint32_t int8;         /* enum lls_int8 */
  uint32_t groups;       /* most groups of layers; 0: one */
  /* 0: one thread, since for such small steps more threads only wait */
  uint32_t threads;
  uint32_t ranks; /* ranks, as threads, that share the model; 0: one */
  /* This process's end of an existing group, which the other processes follow. */
  struct lls_ranks *group;
  const char *path; /* path of the model, if it is not the reference's folder */
  /* paths of each prompt's adapter, or NULL; a list of REFERENCE_MAX_PROMPTS, or NULL */
  const char *const *adapters;
  const float *scales;  /* of each, or NULL: 1 */
  size_t adapter_bytes; /* the device's memory for them */
  /* The device; NULL = the CPU. */
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
};

struct drive_rule {
  uint32_t chunk;   /* most tokens of a prefill step */
  uint32_t stagger; /* prompt i starts at step i * stagger */
  uint32_t preempt; /* every this many steps a sequence is preempted; 0: never */
  /* preempted sequences are swapped out and back in the next step; else dropped */
  bool swap;
  uint32_t n_prompts; /* only the first n prompts; 0: all */
  bool hidden;        /* all but every third sequence are cached in hidden form */
  uint32_t convert;   /* every this many steps one of them changes to KV form; 0: never */
  bool reversed;      /* every other block is filled from the right */
  bool int8;          /* full blocks become int8 in pools that have such blocks */
};

struct drive_outcome {
  double worst_absolute; /* largest error of a logit */
  double worst_relative; /* largest error of a row: norm of the error / norm of the row */
  uint32_t wrong_tokens;
  /* smallest distance of the reference's two best logits in that continuation */
  double gap_at_wrong;
};

struct drive {
  const struct drive_model *model;
  const struct drive_rule *rule;
  struct units device_units; /* of group 0 */
  struct drive_groups groups;
  struct sequence sequences[REFERENCE_MAX_PROMPTS];
  struct sequence on_host[REFERENCE_MAX_PROMPTS]; /* tables of host units, if swapped */
  uint32_t done[REFERENCE_MAX_PROMPTS];           /* known tokens */
  bool converted[REFERENCE_MAX_PROMPTS]; /* has run since it left the hidden form */
  struct lls_copy copies[DRIVE_MAX_COPIES];
  uint32_t n_copies, step, block_tokens;
  struct drive_outcome outcome;
};

struct drive_progress {
  size_t done, total; /* in bytes */
};

static inline bool drive_progress(void *context, size_t done, size_t total)
{
  struct drive_progress *p = context;
  assert_true(done > p->done && done <= total);
  *p = (struct drive_progress){done, total};
  return true;
}

/* Bytes of a sequence's states, and more. */
static inline size_t drive_state_bytes(const struct lls_model_config *c)
{
  size_t bytes = 0;
  for (uint32_t i = 0; i < c->layers; i++)
    bytes += lls_mix_state(c, i) * sizeof(float) + 64;
  return bytes;
}

/* Sets each rank's options, with its share of drive_open's pool. */
static inline void drive_prepare(struct drive_model *m, const char *name,
                                 const struct drive_options *o,
                                 struct lls_worker_rank_options *out)
{
  struct lls_error err = {0};
  struct lls_model_config *config = &out->model;
  bool stories = strcmp(name, "stories260K") == 0;
  *out = (struct lls_worker_rank_options){0};
  m->reference = stories ? reference_read_stories() : reference_read(name);
  const char *path = o->path != NULL ? o->path : m->reference->folder;
  int rc = lls_model_config_read(path, config, &err);
  if (rc != 0)
    fail_msg("%s: %s", name, lls_error_text(&err, rc));
  uint32_t max_tokens = o->max_tokens > 0 ? o->max_tokens : DRIVE_MAX_TOKENS;
  uint32_t block_tokens = o->block_tokens > 0 ? o->block_tokens : 16;
  uint32_t ranks = o->group != NULL ? o->group->size : o->ranks > 0 ? o->ranks : 1;
  uint32_t kv_heads = lls_most_of_layers(config, lls_layer_kv_heads);
  kv_heads = kv_heads > ranks ? kv_heads / ranks : 1;
  const struct lls_pool_shape shape = {
      .layers = config->layers,
      .kv_heads = kv_heads,
      .head_dim = lls_most_of_layers(config, lls_layer_head_dim),
      .block_tokens = block_tokens,
      .element = o->cache_element,
      .int8 = o->int8,
      .latent = config->latent.rank > 0,
  };
  size_t half = lls_form_units(&shape, LLS_FORM_KV) * lls_unit_bytes(&shape) / 2;
  bool states = config->recurrent.conv_width > 0;
  bool several = states || lls_heads_differ(config) ||
                 (lls_model_extras(config, 0) & LLS_EXTRA_CHUNKS) != 0;
  size_t state = states ? drive_state_bytes(config) + 2 * half : 0;
  out->create_device =
      o->create_device != NULL ? o->create_device : lls_cpu_device_create;
  out->device = (struct lls_device_options){
      .threads = o->threads > 0 ? o->threads : 1,
      .max_rows = max_tokens,
      .max_columns = lls_engine_max_columns(config),
      .max_sequences = REFERENCE_MAX_PROMPTS,
      .numbers = o->weights == LLS_WEIGHTS_AUTO  ? config->dtype
                 : o->weights == LLS_WEIGHTS_F32 ? LLS_F32
                                                 : LLS_BF16,
  };
  out->engine = (struct lls_engine_options){
      .model_path = path,
      .weights = o->weights,
      .cache_element = o->cache_element,
      .max_tokens = max_tokens,
      .max_sequences = REFERENCE_MAX_PROMPTS,
      .max_logits = DRIVE_MAX_TOKENS,
      .block_tokens = block_tokens,
      .cache_bytes = DRIVE_DEVICE_UNITS * half + DRIVE_STATES * state,
      .pool.host_memory = (int64_t)(DRIVE_HOST_UNITS * half + DRIVE_STATES * state),
      .pool.int8 = o->int8,
      .groups = several && o->groups == 0 ? LLS_MAX_GROUPS : o->groups,
      .keeps_chunks = o->groups != 1,
      .keeps_states = states,
      .adapters = o->adapters != NULL,
      .adapter_bytes = o->adapter_bytes,
  };
}

static inline void drive_load_adapters(struct drive_model *m,
                                       const struct drive_options *o)
{
  const char *const *paths = o->adapters;
  struct lls_error err = {0};
  for (uint32_t i = 0; i < REFERENCE_MAX_PROMPTS; i++)
    m->scales[i] = o->scales != NULL ? o->scales[i] : 1;
  for (uint32_t i = 0; paths != NULL && i < m->reference->n_prompts; i++) {
    int rc = paths[i] == NULL ? 0
                              : lls_lora_load(paths[i], lls_engine_config(m->engine),
                                              &m->adapters[i], &err);
    if (rc != 0)
      fail_msg("%s: %s", paths[i], lls_error_text(&err, rc));
  }
}

static inline void drive_start_ranks(struct drive_model *m, uint32_t n,
                                     struct lls_worker_rank_options *options)
{
  struct lls_ranks *handles[LLS_MAX_RANKS];
  if (n <= 1)
    return;
  assert_int_equal(lls_ranks_threads(n, 60 * LLS_NS_PER_S, handles, NULL), 0);
  assert_int_equal(lls_worker_ranks_start(options, handles, n, &m->followers, NULL), 0);
  m->ranks = handles[0];
}

static inline void drive_open(struct drive_model *m, const char *name,
                              const struct drive_options *o)
{
  struct lls_error err = {0};
  struct lls_worker_rank_options made;
  struct drive_progress progress = {0};
  drive_prepare(m, name, o, &made);
  m->ranks = o->group;
  drive_start_ranks(m, o->ranks, &made);
  made.device.ranks = made.engine.ranks = m->ranks;
  made.engine.progress = drive_progress;
  made.engine.progress_context = &progress;
  int rc = made.create_device(&made.device, &m->device, &err);
  if (rc == 0)
    rc = lls_engine_create(&made.engine, &made.model, m->device, &m->engine, &err);
  if (rc != 0)
    fail_msg("%s: %s", name, lls_error_text(&err, rc));
  assert_int_equal(progress.done, progress.total);
  drive_load_adapters(m, o);
}

static inline void drive_close(struct drive_model *m)
{
  lls_engine_dismiss(m->engine);
  assert_int_equal(lls_worker_ranks_stop(m->followers), 0);
  lls_engine_destroy(m->engine);
  m->device->ops->destroy(m->device);
  if (m->followers != NULL)
    m->ranks->ops->destroy(m->ranks);
  for (uint32_t i = 0; i < REFERENCE_MAX_PROMPTS; i++)
    lls_lora_unref(m->adapters[i]);
  reference_free(m->reference);
}

/* ---- preemption ----------------------------------------------------------------- */

/* From one entry's block to another's. */
static inline void drive_copy(struct drive *d, enum lls_copy_way kind,
                              const struct lls_block_entry *source,
                              const struct lls_block_entry *target)
{
  assert_true(d->n_copies < DRIVE_MAX_COPIES);
  d->copies[d->n_copies++] = (struct lls_copy){
      .source_tier = kind == LLS_COPY_HOST_TO_DEVICE ? LLS_TIER_HOST : LLS_TIER_DEVICE,
      .target_tier = kind == LLS_COPY_DEVICE_TO_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE,
      .n_slots = (uint16_t)d->block_tokens,
      .source_form = source->form,
      .target_form = target->form,
      .source = source->block,
      .target = target->block,
  };
}

static inline uint32_t drive_block_units(const struct drive *d)
{
  return lls_form_units(lls_engine_pool_shape(d->model->engine), LLS_FORM_KV);
}

/* Entry `index` of a list gets a block, in int8 if it is full. */
static inline void drive_place(const struct drive *d, struct lls_block_entry *e,
                               uint32_t index, uint32_t cached, uint32_t block, bool host)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(d->model->engine);
  bool full = (index + 1) * d->block_tokens <= cached;
  bool int8 = d->rule->int8 && full && lls_pool_has_int8(pool, host);
  e->form = int8 ? LLS_FORM_INT8 : LLS_FORM_KV;
  e->block = block;
}

/* Moves a sequence to host blocks of its own and overwrites what it leaves, with a block
 * that nothing was ever written to. */
static inline void drive_swap_out(struct drive *d, uint32_t i)
{
  struct sequence *s = &d->sequences[i], *host = &d->on_host[i];
  uint32_t most = DRIVE_HOST_UNITS / REFERENCE_MAX_PROMPTS / 2,
           units = drive_block_units(d);
  uint32_t first = i * most, cached = s->cached;
  uint32_t blocks = drive_first(d->groups.caps) > 0 ? s->n_kv : 0;
  assert_true(blocks < most);
  const struct lls_block_entry never = {.block = (first + blocks) * units};
  sequence_init(host);
  host->cached = cached;
  host->n_kv = blocks;
  for (uint32_t b = 0; b < blocks; b++) {
    struct lls_block_entry *from = &s->kv[b], *to = &host->kv[b];
    drive_place(d, to, b, cached, (first + b) * units, true);
    drive_copy(d, LLS_COPY_DEVICE_TO_HOST, from, to);
    from->form = LLS_FORM_KV;
    drive_copy(d, LLS_COPY_HOST_TO_DEVICE, &never, from);
  }
  sequence_release(s, &d->device_units);
  d->n_copies += drive_groups_move(&d->groups, i, true, d->copies + d->n_copies);
  assert_true(d->n_copies < DRIVE_MAX_COPIES);
}

static inline void drive_swap_in(struct drive *d, uint32_t i)
{
  struct sequence *s = &d->sequences[i], *host = &d->on_host[i];
  sequence_grow(s, &d->device_units, host->cached, d->block_tokens);
  for (uint32_t b = 0; b < host->n_kv; b++) {
    drive_place(d, &s->kv[b], b, host->cached, s->kv[b].block, false);
    drive_copy(d, LLS_COPY_HOST_TO_DEVICE, &host->kv[b], &s->kv[b]);
  }
  d->n_copies += drive_groups_move(&d->groups, i, false, d->copies + d->n_copies);
  assert_true(d->n_copies < DRIVE_MAX_COPIES);
  s->cached = host->cached;
  sequence_init(host);
}

/* Blocks that the step before has filled become int8 ones, elsewhere in the pool. */
static inline void drive_quantise(struct drive *d, struct sequence *s)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(d->model->engine);
  if (!d->rule->int8 || pool->int8 != LLS_INT8_ALL || s->hidden || s->n_x > 0)
    return;
  for (uint32_t b = 0; b < s->cached / d->block_tokens; b++) {
    struct lls_block_entry *e = &s->kv[b], before = *e;
    if (e->form == LLS_FORM_INT8)
      continue;
    assert_true(d->device_units.n > 0);
    drive_place(d, e, b, s->cached, d->device_units.free[--d->device_units.n], false);
    drive_copy(d, LLS_COPY_DEVICE_TO_DEVICE, &before, e);
    d->device_units.free[d->device_units.n++] = before.block;
  }
}

static inline void drive_preempt(struct drive *d, uint32_t n_prompts)
{
  if (d->rule->preempt == 0 || d->step % d->rule->preempt != d->rule->preempt - 1)
    return;
  uint32_t victim = d->step / d->rule->preempt % n_prompts;
  if (d->sequences[victim].cached == 0)
    return;
  if (d->rule->swap) {
    drive_swap_out(d, victim);
    return;
  }
  sequence_release(&d->sequences[victim], &d->device_units);
  drive_groups_drop(&d->groups, victim);
}

/* ---- forms ---------------------------------------------------------------------- */

/* Sets the form that the rule chooses for a sequence not cached yet. */
static inline void drive_choose_form(struct drive *d, uint32_t i)
{
  struct sequence *s = &d->sequences[i];
  if (s->cached > 0)
    return;
  s->reversed = d->rule->reversed;
  s->hidden = d->rule->hidden && i % 3 != 2;
}

/* Drops the X of a sequence whose X was restored to K and V blocks in the last step,
 * and chooses the next sequence to convert. */
static inline void drive_convert(struct drive *d, uint32_t n_prompts)
{
  for (uint32_t i = 0; i < n_prompts; i++) {
    struct sequence *s = &d->sequences[i];
    if (!s->hidden && s->n_x > 0 && d->converted[i])
      list_release(s->x, &s->n_x, &d->device_units);
  }
  if (d->rule->convert == 0 || d->step % d->rule->convert != d->rule->convert - 1)
    return;
  struct sequence *s = &d->sequences[d->step / d->rule->convert % n_prompts];
  if (s->hidden && s->cached > 0) {
    s->hidden = false;
    d->converted[s - d->sequences] = false;
  }
}

/* ---- comparison ----------------------------------------------------------------- */

static inline void drive_compare_row(struct drive *d, const float *row,
                                     const float *right)
{
  double error = 0, norm = 0;
  for (uint32_t i = 0; i < d->model->reference->vocab; i++) {
    double difference = fabs((double)row[i] - (double)right[i]);
    if (!(difference <= d->outcome.worst_absolute)) /* NaN counts as the largest error */
      d->outcome.worst_absolute = difference;
    error += difference * difference;
    norm += (double)right[i] * (double)right[i];
  }
  double relative = sqrt(error / norm);
  if (!(relative <= d->outcome.worst_relative))
    d->outcome.worst_relative = relative;
}

static inline void drive_compare(struct drive *d, uint32_t i, uint32_t first, uint32_t n,
                                 const float *logits, const struct lls_sampled *sampled)
{
  const struct reference_prompt *p = &d->model->reference->prompts[i];
  uint32_t vocab = d->model->reference->vocab;
  assert_non_null(logits);
  for (uint32_t row = 0; row < n && first + row < p->n_logits; row++)
    drive_compare_row(d, logits + (size_t)row * vocab,
                      p->logits + (size_t)(first + row) * vocab);
  if (sampled == NULL)
    return;
  if (sampled->token != p->tokens[first + n]) {
    d->outcome.wrong_tokens++;
    d->outcome.gap_at_wrong = p->min_gap;
  }
  /* continues with the reference's token, whether right or wrong */
  d->done[i] = first + n + 1;
}

/* ---- steps ---------------------------------------------------------------------- */

static const struct lls_sampling drive_greedy = {.top_p = 1, .repetition_penalty = 1};

/* Fills the batch with all unfinished sequences; false if there are none. */
static inline bool drive_batch(struct drive *d, uint32_t n_prompts,
                               struct lls_engine_sequence *batch, uint32_t *who,
                               uint32_t *n)
{
  bool unfinished = false;
  *n = 0;
  for (uint32_t i = 0; i < n_prompts; i++) {
    const struct reference_prompt *p = &d->model->reference->prompts[i];
    struct sequence *s = &d->sequences[i];
    if (d->done[i] == p->n_tokens)
      continue;
    unfinished = true;
    if (d->step < i * d->rule->stagger)
      continue;
    if (d->on_host[i].cached > 0) {
      if (d->n_copies == 0) /* it was swapped out in an earlier step */
        drive_swap_in(d, i);
      else
        continue;
    }
    drive_choose_form(d, i);
    drive_quantise(d, s);
    d->converted[i] = true;
    uint32_t pending = d->done[i] - s->cached;
    uint32_t now = pending < d->rule->chunk ? pending : d->rule->chunk;
    sequence_grow(s, &d->device_units, s->cached + now, d->block_tokens);
    drive_groups_trim(&d->groups, i, s->cached);
    who[*n] = i;
    batch[(*n)++] = (struct lls_engine_sequence){
        .tokens = p->tokens + s->cached,
        .n_tokens = now,
        .context = s->cached,
        .adapter = d->model->adapters[i],
        .adapter_scale = d->model->scales[i],
        .table = drive_groups_grow(&d->groups, i, s->cached, s->cached + now, s->reversed,
                                   &s->table),
        .sampling = now == pending ? &drive_greedy : NULL,
        .all_logits = true,
    };
  }
  return unfinished;
}

static inline bool drive_step(struct drive *d, uint32_t n_prompts)
{
  struct lls_engine_sequence sequences[REFERENCE_MAX_PROMPTS];
  uint32_t who[REFERENCE_MAX_PROMPTS], n;
  d->n_copies = 0;
  drive_preempt(d, n_prompts);
  drive_convert(d, n_prompts);
  if (!drive_batch(d, n_prompts, sequences, who, &n))
    return false;
  const struct lls_engine_batch batch = {
      .n_sequences = n,
      .sequences = sequences,
      .n_copies = d->n_copies,
      .copies = d->copies,
  };
  struct lls_engine_result result;
  struct lls_error err = {0};
  int rc = lls_engine_submit(d->model->engine, &batch, &err);
  if (rc == 0)
    rc = lls_engine_wait(d->model->engine, &result, &err);
  if (rc != 0)
    fail_msg("step %u: %s", d->step, lls_error_text(&err, rc));
  assert_int_equal(result.n_sequences, n);
  for (uint32_t j = 0; j < n; j++) {
    drive_compare(d, who[j], sequences[j].context, sequences[j].n_tokens,
                  lls_engine_logits(d->model->engine, j), result.sampled[j]);
    d->sequences[who[j]].cached += sequences[j].n_tokens;
  }
  d->step++;
  return true;
}

static inline struct drive_outcome drive_run(const struct drive_model *m,
                                             const struct drive_rule *rule)
{
  struct drive *d = calloc(1, sizeof *d);
  assert_non_null(d);
  d->model = m;
  d->rule = rule;
  d->block_tokens = lls_engine_pool_shape(m->engine)->block_tokens;
  drive_groups_init(&d->groups, m->engine, DRIVE_DEVICE_UNITS / 2, DRIVE_HOST_UNITS / 2);
  uint32_t units = lls_engine_pool_shape(m->engine)->device_units;
  if (d->groups.caps->n_groups > 1)
    units = drive_area(&d->groups, 1, DRIVE_DEVICE_UNITS / 2);
  units_init(&d->device_units, units, drive_block_units(d));
  uint32_t n_prompts = rule->n_prompts > 0 ? rule->n_prompts : m->reference->n_prompts;
  for (uint32_t i = 0; i < n_prompts; i++) {
    sequence_init(&d->sequences[i]);
    sequence_init(&d->on_host[i]);
    d->done[i] = m->reference->prompts[i].n_prompt;
  }
  while (drive_step(d, n_prompts))
    assert_true(d->step < 10000);
  struct drive_outcome outcome = d->outcome;
  free(d);
  return outcome;
}

#endif
