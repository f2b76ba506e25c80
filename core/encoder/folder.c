/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads how to pool from sentence-transformers' files (core/model/pooling.h); a folder
 * without these files is pooled by the mean.
 */
#include "core/encoder/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/model/dense.h"
#include "core/model/gguf.h"
#include "core/model/pooling.h"

/* ---- pooling ----------------------------------------------------------------------- */

static int read_pooling(const char *folder, bool *first_row, struct lls_error *err)
{
  struct lls_pooling_config pooling;
  int rc = lls_pooling_read(folder, LLS_POOLING_MEAN, &pooling, err);
  if (rc < 0)
    return rc;
  *first_row = pooling.pooling == LLS_POOLING_CLS;
  if (pooling.pooling == LLS_POOLING_NONE)
    return lls_fail(err, -ENOTSUP, "%s", pooling.why_none.text);
  return pooling.pooling != LLS_POOLING_LAST
             ? 0
             : lls_fail(err, -ENOTSUP,
                        "%s/1_Pooling/config.json: one of mean and cls pooling is "
                        "supported for an encoder",
                        folder);
}

/* ---- fingerprint ------------------------------------------------------------------- */

#define STRIDE (1 << 20) /* bytes of a large file of which one piece is hashed */
#define PIECE  4096

static uint64_t hash_bytes(uint64_t hash, const unsigned char *data, size_t n)
{
  for (size_t i = 0; i < n; i++) /* FNV-1a */
    hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* Adds a file to the hash. name NULL: the "folder" is the file itself. */
static uint64_t hash_file(uint64_t hash, const char *folder, const char *name)
{
  char path[4096];
  unsigned char piece[PIECE];
  struct stat st;
  snprintf(path, sizeof path, "%s%s%s", folder, name != NULL ? "/" : "",
           name != NULL ? name : "");
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return hash;
  if (fstat(fd, &st) == 0)
    hash = hash_bytes(hash, (unsigned char *)&st.st_size, sizeof st.st_size);
  off_t step = st.st_size > STRIDE ? STRIDE : PIECE;
  ssize_t n;
  for (off_t at = 0; (n = pread(fd, piece, sizeof piece, at)) > 0; at += step)
    hash = hash_bytes(hash, piece, (size_t)n);
  close(fd);
  return hash;
}

/* Adds the matrices of Dense modules; those that cannot be read fail elsewhere. */
static uint64_t hash_dense(uint64_t hash, const char *folder)
{
  char name[sizeof((struct lls_dense_matrix *)0)->folder + 20];
  struct lls_dense dense;
  struct lls_error ignored;
  if (lls_dense_read(folder, &dense, &ignored) < 0)
    return hash;
  for (uint32_t i = 0; i < dense.n; i++) {
    snprintf(name, sizeof name, "%s/model.safetensors", dense.matrix[i].folder);
    hash = hash_file(hash, folder, name);
  }
  return hash;
}

static uint64_t fingerprint(const char *folder)
{
  static const char *const names[] = {
      "config.json", "1_Pooling/config.json", "tokenizer.json",
      "vocab.txt",   "model.safetensors",     "model.safetensors.index.json"};
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  if (lls_is_gguf(folder))
    return hash_file(hash, folder, NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    hash = hash_file(hash, folder, names[i]);
  return hash_dense(hash, folder);
}

int lls_encoder_folder_read(const char *folder, struct lls_encoder_folder *out,
                            struct lls_error *err)
{
  *out = (struct lls_encoder_folder){.fingerprint = fingerprint(folder)};
  return read_pooling(folder, &out->first_row, err);
}
