/* SPDX-License-Identifier: Apache-2.0 */
/* One ring for each kind and magnitude of steps; see samples.h. */
#include "core/cost/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#define KINDS      2  /* only decodes; with chunks */
#define MAGNITUDES 12 /* 1 row, 2 or 3, 4 to 7, ..., 2048 and more */
#define EACH       20

struct ring {
  struct lls_step_sample samples[EACH];
  uint64_t n; /* written so far */
};

struct lls_step_samples {
  pthread_mutex_t mutex;
  struct ring rings[KINDS][MAGNITUDES];
};

int lls_step_samples_create(struct lls_step_samples **out)
{
  *out = calloc(1, sizeof **out);
  if (*out == NULL)
    return -ENOMEM;
  pthread_mutex_init(&(*out)->mutex, NULL);
  return 0;
}

void lls_step_samples_destroy(struct lls_step_samples *s)
{
  if (s == NULL)
    return;
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

static struct ring *ring_of(struct lls_step_samples *s,
                            const struct lls_step_sample *sample)
{
  uint64_t rows = sample->chunk_tokens + sample->decodes;
  uint32_t magnitude = 0;
  while (magnitude < MAGNITUDES - 1 && rows >> (magnitude + 1) > 0)
    magnitude++;
  return &s->rings[sample->chunks > 0][magnitude];
}

void lls_step_samples_add(struct lls_step_samples *s,
                          const struct lls_step_sample *sample)
{
  if (pthread_mutex_trylock(&s->mutex) != 0)
    return;
  struct ring *ring = ring_of(s, sample);
  ring->samples[ring->n++ % EACH] = *sample;
  pthread_mutex_unlock(&s->mutex);
}

static void write_ring(const struct ring *ring, struct lls_text *out)
{
  for (uint64_t i = 0; i < ring->n && i < EACH; i++) {
    const struct lls_step_sample *s = &ring->samples[i];
    lls_text_printf(out, "T %" PRId64 " %u %u %" PRIu64 " %" PRIu64 " %u %" PRIu64 "\n",
                    s->ns, s->drawn, s->chunks, s->chunk_tokens, s->pairs, s->decodes,
                    s->cached);
  }
}

void lls_step_samples_write(struct lls_step_samples *s, struct lls_text *out)
{
  pthread_mutex_lock(&s->mutex);
  for (uint32_t kind = 0; kind < KINDS; kind++)
    for (uint32_t i = 0; i < MAGNITUDES; i++)
      write_ring(&s->rings[kind][i], out);
  pthread_mutex_unlock(&s->mutex);
}
