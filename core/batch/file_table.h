/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of clients: each has a row of the database and a file in the folder. The row is
 * added once the whole file is on the disk, and makes it visible; the next start
 * deletes files without a row. Functions run on [store] unless marked otherwise.
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
  char name[LLS_FILE_NAME]; /* the file's name from the client */
  char purpose[LLS_FILE_PURPOSE];
  const char *tenant; /* the owner's tenant, "" without tenants; borrowed */
  int64_t bytes, created_s;
  int64_t expires_s; /* Unix time; 0: never */
};

/* An upload in progress. A zeroed one with fd = -1 has not begun. */
struct lls_upload {
  struct lls_file file;
  int64_t most_bytes;             /* quota for all files of the tenant; 0: no limit */
  struct lls_upload *prev, *next; /* links of store->uploads, from the first byte on */
  int64_t expires_after_s;        /* seconds from creation to expiry; 0: never */
  int fd;
  int status; /* negative errno after a failure */
  struct lls_error error;
};

/* [any] Makes a new id from this prefix and, unless it is "", the name of a replica. */
void lls_file_new_id(char *id, size_t size, const char *prefix, const char *replica);

/* Appends bytes; after a failure it does nothing, and the first failure stays in
 * `status`. */
void lls_upload_write(struct lls_upload *upload, struct lls_store *store,
                      const void *data, size_t length);
/* Ends the upload and makes the file visible. Returns the status. */
int lls_upload_finish(struct lls_upload *upload, struct lls_store *store);
/* Ends the upload and deletes its bytes. */
void lls_upload_abandon(struct lls_upload *upload, struct lls_store *store);

/* Adds the row of a file that is already on the disk. */
int lls_files_add(struct lls_store *store, const struct lls_file *file,
                  struct lls_error *err);

/* Returns 0, or -ENOENT if the tenant has no such file; tenant NULL: any tenant's. */
int lls_files_find(struct lls_store *store, const char *tenant, const char *id,
                   struct lls_file *out, struct lls_error *err);

/* Returns OpenAI's object of a file. */
json_t *lls_file_json(const struct lls_file *file);

struct lls_files_query {
  const char *tenant, *purpose; /* purpose NULL: any */
  const char *after;            /* id of the last file of the previous page, or NULL */
  bool oldest_first;
  int64_t limit;
};

/* Returns OpenAI's list of the files, with "has_more"; NULL with *status and err on
 * failure. */
json_t *lls_files_list(struct lls_store *store, const struct lls_files_query *query,
                       int *status, struct lls_error *err);

/* Returns 0, -ENOENT, or -EBUSY if a batch that has not ended needs the file; err names
 * it. */
int lls_files_delete(struct lls_store *store, const char *tenant, const char *id,
                     struct lls_error *err);

/* Reads up to `size` bytes of a file from an offset. Returns the number read or a
 * negative errno. */
int64_t lls_files_read(struct lls_store *store, const char *id, int64_t offset,
                       void *data, size_t size);

/* Deletes expired files, except for inputs of batches that have not ended. */
int lls_files_expire(struct lls_store *store, int64_t now_s, struct lls_error *err);

/* Deletes files in the folder that have no row; call it before the store's thread
 * starts. */
int lls_files_forget_unknown(struct lls_store *store, struct lls_error *err);

#endif
