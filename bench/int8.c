/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/int8: how a cache of int8 blocks changes answers, compared with f32 and bf16.
 *
 *   bench/int8 [MODEL FOLDER [block_tokens]]
 *
 * The reference is each prompt's greedy answer with a cache of f32. Each other cache runs
 * every prompt twice. Once it is given the reference's tokens, and the logits of every
 * step are compared (norm of the difference over norm of the logits, and whether the
 * likeliest token is the same). Once it draws its own tokens, which are counted up to the
 * first different one. A block becomes int8 as soon as it is full, as with [cache]
 * int8 = all.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/engine/engine.h"
#include "core/model/model_text.h"
#include "kernels/cpu/device.h"

#define ANSWER     192 /* tokens of an answer */
#define MAX_PROMPT 256
#define MAX_BLOCKS 512

static const char *const prompts[] = {
    "Tell me a story about a fox and a river.",
    "What is the capital of France?",
    "Explain how rain is made.",
    "Write a short poem about the sea.",
    "List five things that are red.",
    "Why is the sky blue?",
    "How do I bake bread?",
    "Describe a small village in winter.",
    "What is 12 plus 30?",
    "Once upon a time there was a girl called Lily.",
    "Give me three tips for learning a language.",
    "Who was the first person on the moon?",
    "Write a letter to a friend about a journey.",
    "What does a compiler do?",
    "Tell me about the animals of the forest.",
    "How far away is the sun?",
};
#define N_PROMPTS (sizeof prompts / sizeof *prompts)

struct cache {
  const char *name;
  enum lls_dtype element;
  bool int8;
};

static const struct cache caches[] = {
    {"f32", LLS_F32, false},
    {"bf16", LLS_BF16, false},
    {"int8 in f32", LLS_F32, true},
    {"int8 in bf16", LLS_BF16, true},
};
#define N_CACHES (sizeof caches / sizeof *caches)

struct answer {
  int32_t tokens[MAX_PROMPT + ANSWER]; /* the prompt, then the answer */
  uint32_t n_prompt;
  float *logits; /* (ANSWER, vocab) */
};

struct bench {
  const char *folder;
  uint32_t block_tokens, vocab;
  struct lls_model_config config;
  struct lls_device *device;
  struct answer answers[N_PROMPTS];
};

struct machine { /* an engine with one cache and one sequence */
  const struct cache *cache;
  struct lls_engine *engine;
  struct lls_block_entry list[MAX_BLOCKS];
  struct lls_copy copies[MAX_BLOCKS];
  uint32_t n_copies, cached, n_int8, n_blocks;
};

static void check(int rc, const char *what, const struct lls_error *err)
{
  if (rc == 0)
    return;
  fprintf(stderr, "bench/int8: %s: %s\n", what, lls_error_text(err, rc));
  exit(1);
}

static void open_machine(const struct bench *b, const struct cache *cache,
                         struct machine *m)
{
  struct lls_error err = {0};
  uint32_t blocks = (MAX_PROMPT + ANSWER) / b->block_tokens + 1;
  const struct lls_pool_shape shape = {
      .layers = b->config.layers,
      .kv_heads = b->config.kv_heads,
      .head_dim = b->config.head_dim,
      .block_tokens = b->block_tokens,
      .element = cache->element,
      .int8 = cache->int8 ? LLS_INT8_ALL : LLS_INT8_OFF,
  };
  const struct lls_engine_options options = {
      .model_path = b->folder,
      .weights = LLS_WEIGHTS_F32,
      .cache_element = cache->element,
      .max_tokens = MAX_PROMPT,
      .max_sequences = 1,
      .max_logits = 1,
      .block_tokens = b->block_tokens,
      .cache_bytes =
          (size_t)blocks * lls_unit_bytes(&shape) *
          (lls_form_units(&shape, LLS_FORM_KV) + lls_form_units(&shape, LLS_FORM_INT8)),
      .pool.int8 = shape.int8,
  };
  *m = (struct machine){.cache = cache, .n_blocks = blocks};
  check(lls_engine_create(&options, &b->config, b->device, &m->engine, &err), b->folder,
        &err);
}

static uint32_t units_of(const struct machine *m, uint32_t form)
{
  return lls_form_units(lls_engine_pool_shape(m->engine), form);
}

/* Lays out the blocks of a sequence, one after the other. Their int8 versions follow all
 * of them. */
static void start(const struct bench *b, struct machine *m)
{
  m->cached = m->n_int8 = m->n_copies = 0;
  for (uint32_t i = 0; i < m->n_blocks; i++) {
    const struct lls_block_entry e = {.block = units_of(m, LLS_FORM_KV) * i,
                                      .first_token = i * b->block_tokens,
                                      .count = (uint16_t)b->block_tokens};
    m->list[i] = e;
  }
}

static void quantise(const struct bench *b, struct machine *m, struct lls_block_entry *e,
                     uint32_t to)
{
  m->copies[m->n_copies++] = (struct lls_copy){
      .n_slots = (uint16_t)b->block_tokens,
      .source = e->block,
      .target = to,
      .target_form = LLS_FORM_INT8,
  };
  e->block = to;
  e->form = LLS_FORM_INT8;
}

/* Computes n tokens. Writes the logits after the last one and returns the likeliest
 * token. */
static int32_t step(const struct bench *b, struct machine *m, const int32_t *tokens,
                    uint32_t n, float *logits)
{
  struct lls_error err = {0};
  m->n_copies = 0;
  for (; m->cache->int8 && m->n_int8 < m->cached / b->block_tokens; m->n_int8++) {
    uint32_t to = units_of(m, LLS_FORM_KV) * m->n_blocks;
    quantise(b, m, &m->list[m->n_int8], to + units_of(m, LLS_FORM_INT8) * m->n_int8);
  }
  const struct lls_group_list list = {.entries = m->list, .n_entries = m->n_blocks};
  const struct lls_block_table table = {.n_groups = 1, .lists = &list};
  const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  const struct lls_engine_sequence s = {
      .tokens = tokens,
      .n_tokens = n,
      .context = m->cached,
      .table = &table,
      .sampling = &greedy,
      .all_logits = n == 1,
  };
  const struct lls_engine_batch batch = {
      .n_sequences = 1, .sequences = &s, .n_copies = m->n_copies, .copies = m->copies};
  struct lls_engine_result result;
  check(lls_engine_submit(m->engine, &batch, &err), "step", &err);
  check(lls_engine_wait(m->engine, &result, &err), "step", &err);
  m->cached += n;
  if (n == 1)
    memcpy(logits, lls_engine_logits(m->engine, 0), b->vocab * sizeof *logits);
  return result.sampled[0]->token;
}

struct outcome {
  double squares, worst; /* sum of squares and maximum of relative errors */
  uint32_t steps, agreed, answers_equal, tokens_equal;
};

/* Computes the prompt without its last token in one step, then one token of the
 * reference a step. */
static void along(const struct bench *b, struct machine *m, const struct answer *a,
                  struct outcome *o)
{
  float *logits = malloc(b->vocab * sizeof *logits);
  start(b, m);
  step(b, m, a->tokens, a->n_prompt - 1, NULL);
  for (uint32_t i = 0; i < ANSWER; i++) {
    int32_t chosen = step(b, m, &a->tokens[a->n_prompt - 1 + i], 1, logits);
    const float *wanted = a->logits + (size_t)i * b->vocab;
    double error = 0, norm = 0;
    for (uint32_t j = 0; j < b->vocab; j++) {
      error += pow((double)logits[j] - (double)wanted[j], 2);
      norm += pow((double)wanted[j], 2);
    }
    error = sqrt(error / norm);
    o->squares += error * error;
    o->worst = fmax(o->worst, error);
    o->agreed += chosen == a->tokens[a->n_prompt + i];
    o->steps++;
  }
  free(logits);
}

/* Draws tokens until one differs from the reference; all of them to make `a` the
 * reference. */
static uint32_t freely(const struct bench *b, struct machine *m, struct answer *a,
                       bool write)
{
  float *logits = malloc(b->vocab * sizeof *logits);
  uint32_t i;
  start(b, m);
  step(b, m, a->tokens, a->n_prompt - 1, NULL);
  for (i = 0; i < ANSWER; i++) {
    float *to = write ? a->logits + (size_t)i * b->vocab : logits;
    int32_t chosen = step(b, m, &a->tokens[a->n_prompt - 1 + i], 1, to);
    if (write)
      a->tokens[a->n_prompt + i] = chosen;
    else if (chosen != a->tokens[a->n_prompt + i])
      break;
  }
  free(logits);
  return i;
}

static void read_prompts(struct bench *b)
{
  struct lls_tokenizer *tokenizer;
  struct lls_error err = {0};
  check(lls_model_tokenizer(b->folder, &tokenizer, &err), b->folder, &err);
  for (size_t i = 0; i < N_PROMPTS; i++) {
    struct answer *a = &b->answers[i];
    int32_t *ids;
    size_t n;
    check(lls_tokenizer_encode(tokenizer, prompts[i], strlen(prompts[i]), true, &ids, &n,
                               &err),
          prompts[i], &err);
    a->n_prompt = n < MAX_PROMPT ? (uint32_t)n : MAX_PROMPT;
    memcpy(a->tokens, ids, a->n_prompt * sizeof *a->tokens);
    a->logits = malloc((size_t)ANSWER * b->vocab * sizeof *a->logits);
    free(ids);
  }
  lls_tokenizer_free(tokenizer);
}

static void compare(const struct bench *b, struct machine *m)
{
  struct outcome o = {0};
  for (size_t i = 0; i < N_PROMPTS; i++) {
    struct answer a = b->answers[i];
    along(b, m, &a, &o);
    uint32_t equal = freely(b, m, &a, false);
    o.tokens_equal += equal;
    o.answers_equal += equal == ANSWER;
  }
  printf("%-13s %9.2e  %9.2e   %6.2f %%   %3u of %zu   %6.1f\n", m->cache->name,
         sqrt(o.squares / o.steps), o.worst, 100.0 * o.agreed / o.steps, o.answers_equal,
         N_PROMPTS, (double)o.tokens_equal / N_PROMPTS);
}

int main(int argc, char **argv)
{
  static struct bench b;
  static struct machine m;
  struct lls_error err = {0};
  const char *root = getenv("LLS_SRCDIR");
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/share/demo-model",
           root != NULL ? root : LLS_SRCDIR);
  b.folder = argc > 1 ? argv[1] : folder;
  b.block_tokens = argc > 2 ? (uint32_t)atoi(argv[2]) : 16;
  if (b.block_tokens == 0 || (MAX_PROMPT + ANSWER) / b.block_tokens + 1 > MAX_BLOCKS)
    b.block_tokens = 16;
  check(lls_model_config_read(b.folder, &b.config, &err), b.folder, &err);
  b.vocab = b.config.vocab;
  const struct lls_device_options device = {
      .max_rows = MAX_PROMPT,
      .max_sequences = 1,
      .max_columns = lls_engine_max_columns(&b.config),
  };
  check(lls_cpu_device_create(&device, &b.device, &err), "device", &err);
  read_prompts(&b);
  printf("%s, blocks of %u tokens, %zu answers of %d tokens, beside a cache of f32\n"
         "cache         logits: rms      worst    largest same  answers same   tokens "
         "before the first other one\n",
         b.folder, b.block_tokens, N_PROMPTS, ANSWER);
  for (size_t i = 0; i < N_CACHES; i++) {
    open_machine(&b, &caches[i], &m);
    for (size_t j = 0; i == 0 && j < N_PROMPTS; j++)
      freely(&b, &m, &b.answers[j], true);
    if (i > 0)
      compare(&b, &m);
    lls_engine_destroy(m.engine);
  }
  for (size_t i = 0; i < N_PROMPTS; i++)
    free(b.answers[i].logits);
  b.device->ops->destroy(b.device);
  return 0;
}
