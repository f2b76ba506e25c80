/* SPDX-License-Identifier: Apache-2.0 */
/* Small GGUF files in a test's folder, to be opened or refused. */
#ifndef LLS_T_GGUF_FILES_H
#define LLS_T_GGUF_FILES_H

#include "t/gguf_model.h"

#include "core/model/gguf.h"

#include <errno.h>

#define FILE_NAME "x.gguf"

static inline const char *path_of(const struct folder *folder, const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder->path, name);
  return path;
}

static inline struct lls_gguf *open_good(const struct folder *folder, const char *name)
{
  struct lls_error err = {0};
  struct lls_gguf *g = NULL;
  int rc = lls_gguf_open(path_of(folder, name), &g, &err);
  if (rc != 0)
    fail_msg("%s", lls_error_text(&err, rc));
  return g;
}

static inline void expect_refusal(const struct folder *folder, const char *name, int code,
                                  const char *sentence)
{
  struct lls_error err = {0};
  struct lls_gguf *g = NULL;
  int rc = lls_gguf_open(path_of(folder, name), &g, &err);
  if (rc != code || strstr(err.text, sentence) == NULL)
    fail_msg("%d and \"%s\" should be %d and contain \"%s\"", rc, err.text, code,
             sentence);
  if (strstr(err.text, folder->path) == NULL)
    fail_msg("\"%s\" should name the file", err.text);
}

static inline void begin(struct gguf_builder *b)
{
  *b = (struct gguf_builder){0};
  gguf_text(b, "general.architecture", "llama");
}

static inline void end(struct gguf_builder *b, const struct folder *folder)
{
  gguf_write(b, folder, FILE_NAME);
  gguf_free(b);
}

static const unsigned char bytes[256] = {1, 2, 3, 4, 5};

#endif
