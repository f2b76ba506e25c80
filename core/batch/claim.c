/* SPDX-License-Identifier: Apache-2.0 */
/* See claim.h. */
#include "core/batch/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define COPY 65536 /* bytes at a time */

static int copy_bytes(int from, int to, int64_t bytes)
{
  char buffer[COPY];
  for (int64_t at = 0; at < bytes;) {
    size_t most = bytes - at < COPY ? (size_t)(bytes - at) : COPY;
    ssize_t n = pread(from, buffer, most, at);
    if (n > 0)
      n = pwrite(to, buffer, (size_t)n, at);
    if (n == 0 || (n < 0 && errno != EINTR))
      return n == 0 ? -EIO : -errno;
    at += n > 0 ? n : 0;
  }
  return fdatasync(to) == 0 ? 0 : -errno;
}

/* Copies the bytes of a result file that count to a new file, whose id it gets. */
static int copy_result(struct lls_store *store, struct lls_batch_results *result,
                       struct lls_error *err)
{
  char old[PATH_MAX], new[PATH_MAX];
  lls_store_path(store, "files", result->id, old);
  lls_file_new_id(result->id, sizeof result->id, "file-", store->replica);
  lls_store_path(store, "files", result->id, new);
  if (result->bytes == 0)
    return 0; /* made when it is opened */
  int from = open(old, O_RDONLY | O_CLOEXEC);
  int to = from >= 0 ? open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  int status = to >= 0 ? copy_bytes(from, to, result->bytes) : -errno;
  if (from >= 0)
    close(from);
  if (to >= 0)
    close(to);
  if (status == 0)
    return 0;
  unlink(new);
  return lls_fail(err, status, "%s: cannot be copied: %s", old, strerror(-status));
}

static void remove_result(const struct lls_store *store, const char *id)
{
  char path[PATH_MAX];
  lls_store_path(store, "files", id, path);
  unlink(path);
}

/* Makes this process the owner, if no process has changed the row since it was read. */
static int write_claim(struct lls_store *store, const struct lls_active *active,
                       bool *taken, struct lls_error *err)
{
  int64_t seq = 0;
  int status = lls_database_run(
      &store->database, lls_row_keep_integer, &seq, err,
      "UPDATE batches SET owner = ?1, output = ?2, error = ?3 WHERE seq = ?4 AND owner = "
      "?5 AND output_bytes = ?6 AND error_bytes = ?7 AND " LLS_BATCH_IS_FREE
      " RETURNING seq",
      "tttitii", store->id, active->output.id, active->errors.id, active->seq,
      active->owner, active->output.bytes, active->errors.bytes);
  *taken = seq == 0;
  return status;
}

int lls_claim_batch(struct lls_store *store, struct lls_active *active, bool *taken,
                    struct lls_error *err)
{
  char output[LLS_FILE_ID_BYTES], errors[LLS_FILE_ID_BYTES];
  bool others = active->owner[0] != '\0' && strcmp(active->owner, store->id) != 0;
  struct lls_error why = {0};
  int status = 0;
  if (store->id[0] == '\0')
    return 0;
  strcpy(output, active->output.id);
  strcpy(errors, active->errors.id);
  if (others)
    status = copy_result(store, &active->output, &why);
  if (others && status == 0)
    status = copy_result(store, &active->errors, &why);
  bool missing = status == -ENOENT;
  if (status != 0 && !missing)
    return lls_fail(err, status, "%s", why.text);
  status = write_claim(store, active, taken, err);
  if (!others || status != 0)
    return status;
  if (missing && !*taken) /* else the process that was first has removed it */
    return lls_fail(err, -ENOENT, "%s", why.text);
  remove_result(store, *taken ? active->output.id : output);
  remove_result(store, *taken ? active->errors.id : errors);
  if (!*taken)
    lls_log(store->log, LLS_LOG_INFO, "batch",
            "%s goes on here: the replica that ran it does not answer", active->id);
  return 0;
}
