/* SPDX-License-Identifier: Apache-2.0 */
/* A folder with a tiny model's config.json, and a callback which ignores events, for
 * benchmarks of the step loop. */
#ifndef LLS_BENCH_STEPS_H
#define LLS_BENCH_STEPS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t/harness.h"

struct steps_model {
  unsigned layers, hidden; /* hidden: the size of its only head */
  const char *dtype;
  char folder[32], path[64];
};

static inline void steps_ignore_event(void *context, const struct lls_event *event)
{
  (void)context;
  (void)event;
}

/* Makes the folder. It has no weights: the engine uses random ones. */
static inline int steps_model_make(struct steps_model *m)
{
  snprintf(m->folder, sizeof m->folder, "/tmp/llmserve-bench-XXXXXX");
  setenv("LLS_PLUGIN_PATH", LLS_BUILDDIR "/.libs", 0);
  if (mkdtemp(m->folder) == NULL)
    return -errno;
  snprintf(m->path, sizeof m->path, "%s/config.json", m->folder);
  FILE *file = fopen(m->path, "w");
  if (file == NULL)
    return -errno;
  fprintf(file,
          "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
          " \"hidden_size\": %u, \"intermediate_size\": %u, \"num_hidden_layers\": %u,"
          " \"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"vocab_size\": 256,"
          " \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-5,"
          " \"rope_theta\": 10000.0, \"hidden_act\": \"silu\","
          " \"tie_word_embeddings\": true, \"torch_dtype\": \"%s\"}",
          m->hidden, m->hidden, m->layers, m->dtype);
  return fclose(file) == 0 ? 0 : -errno;
}

static inline void steps_model_remove(const struct steps_model *m)
{
  unlink(m->path);
  rmdir(m->folder);
}

#endif
