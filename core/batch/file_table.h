/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of clients: a row of the database and a file in the folder each. A file is seen
 * once its row is there, which is when all of it is on the disk; what has no row is taken
 * away at the next start. Everything is of [store], but for what says otherwise.
 */
#ifndef LLS_BATCH_FILE_TABLE_H
#define LLS_BATCH_FILE_TABLE_H

#include <jansson.h>

#include "core/batch/store.h"

#define LLS_FILE_ID_BYTES 60 /* "file-", a replica's name, "-", and 32 hex digits */
#define LLS_FILE_NAME     256
#define LLS_FILE_PURPOSE  24

struct lls_file {
  char id[LLS_FILE_ID_BYTES];
  char name[LLS_FILE_NAME]; /* the client's */
  char purpose[LLS_FILE_PURPOSE];
  const char *tenant; /* borrowed; of the key that owns it, "" */
  int64_t bytes, created_s;
  int64_t expires_s; /* Unix time; 0: never */
};

/* A file on its way in. A zeroed one with fd = -1 has not begun. */
struct lls_upload {
  struct lls_file file;
  int64_t most_bytes;             /* of all files of the tenant; 0: no limit */
  struct lls_upload *prev, *next; /* in store->uploads, from its first byte on */
  int64_t expires_after_s;        /* of its creation; 0: never */
  int fd;
  int status; /* negative: it has failed, and why */
  struct lls_error error;
};

/* [any] A fresh id with this prefix and, if it is not "", the name of a replica. */
void lls_file_new_id(char *id, size_t size, const char *prefix, const char *replica);

/* Appends; the first failure stays. */
void lls_upload_write(struct lls_upload *upload, struct lls_store *store,
                      const void *data, size_t length);
/* All has come: it is a file from here on. The status. */
int lls_upload_finish(struct lls_upload *upload, struct lls_store *store);
/* Takes away what there is of it. */
void lls_upload_abandon(struct lls_upload *upload, struct lls_store *store);

/* The row of a file that is on the disk already. */
int lls_files_add(struct lls_store *store, const struct lls_file *file,
                  struct lls_error *err);

/* 0, or -ENOENT: none of this tenant (NULL: of anybody). */
int lls_files_find(struct lls_store *store, const char *tenant, const char *id,
                   struct lls_file *out, struct lls_error *err);

/* OpenAI's object of a file. */
json_t *lls_file_json(const struct lls_file *file);

struct lls_files_query {
  const char *tenant, *purpose; /* purpose NULL: any */
  const char *after;            /* id of the last one seen, or NULL */
  bool oldest_first;
  int64_t limit;
};

/* A list of these, with "has_more"; NULL and why. */
json_t *lls_files_list(struct lls_store *store, const struct lls_files_query *query,
                       struct lls_error *err);

/* 0, -ENOENT, or -EBUSY: a batch that is not over needs it, and which. */
int lls_files_delete(struct lls_store *store, const char *tenant, const char *id,
                     struct lls_error *err);

/* Up to `size` bytes of a file from an offset; how many, or a negative errno. */
int64_t lls_files_read(struct lls_store *store, const char *id, int64_t offset,
                       void *data, size_t size);

/* Takes away those that have expired, but for inputs of batches that are not over. */
int lls_files_expire(struct lls_store *store, int64_t now_s, struct lls_error *err);

/* Takes away what is in the folder and nobody knows of: before the thread begins. */
int lls_files_forget_unknown(struct lls_store *store, struct lls_error *err);

#endif
