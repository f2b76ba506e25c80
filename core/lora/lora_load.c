/* SPDX-License-Identifier: Apache-2.0 */
/* Loads an adapter in whichever format it is, and hashes it; see lora.h. */
#include <errno.h>
#include <string.h>

#include "core/base/sha256.h"
#include "core/lora/lora_build.h"
#include "core/model/gguf.h"

static unsigned char hex_pair(const char *hex)
{
  unsigned value = 0;
  for (int i = 0; i < 2; i++)
    value = value * 16 + (unsigned)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
  return (unsigned char)value;
}

/* Hashes what the adapter does to the model: places, ranks and matrices. */
static void make_digest(struct lls_lora *l, const struct lls_model_config *c)
{
  struct lls_sha256 sum;
  char hex[LLS_SHA256_HEX];
  lls_sha256_begin(&sum);
  for (uint32_t i = 0; i < l->layers * LLS_LORA_TARGETS; i++) {
    const struct lls_lora_part *part = &l->parts[i];
    enum lls_lora_target target = (enum lls_lora_target)(i % LLS_LORA_TARGETS);
    const uint32_t head[] = {i, part->rank};
    lls_sha256_add(&sum, head, sizeof head);
    if (part->rank > 0)
      lls_sha256_add(&sum, part->a,
                     lls_lora_part_numbers(c, target, part->rank) * sizeof *part->a);
  }
  lls_sha256_end(&sum, hex);
  for (size_t i = 0; i < sizeof l->digest; i++)
    l->digest[i] = hex_pair(hex + 2 * i);
}

int lls_lora_load(const char *path, const struct lls_model_config *c,
                  struct lls_lora **out, struct lls_error *err)
{
  struct lls_lora *l = lls_lora_create(c);
  if (l == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", path);
  int rc = lls_is_gguf(path) ? lls_lora_read_gguf(path, c, l, err)
                             : lls_lora_read_peft(path, c, l, err);
  if (rc == 0 && l->bytes == 0)
    rc = lls_fail(err, -EINVAL, "%s: the adapter has no matrices", path);
  if (rc == 0 && (l->path = strdup(path)) == NULL)
    rc = lls_fail(err, -ENOMEM, "%s: out of memory", path);
  if (rc < 0) {
    lls_lora_unref(l);
    return rc;
  }
  make_digest(l, c);
  *out = l;
  return 0;
}
