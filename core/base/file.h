/* SPDX-License-Identifier: Apache-2.0 */
/* Files that people name: opened, where that does not wait, and put aside. */
#ifndef LLS_BASE_FILE_H
#define LLS_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"

/* To be read. A FIFO, a device, a folder, or more than `most` bytes (0: no bound) is
 * -EINVAL. The caller closes it. */
int lls_file_open(const char *path, size_t most, FILE **out, struct lls_error *err);

/* All of it, mapped to be read; at least one byte. The caller unmaps it. */
int lls_file_map(const char *path, unsigned char **map, size_t *bytes,
                 struct lls_error *err);

/* Opens `path`, made where it is not there, and locks it for this process: a descriptor,
 * whose close unlocks it; -EWOULDBLOCK where another process has it, or -errno. */
int lls_file_lock(const char *path);

/* The folder of what programs have measured and keep for the next time: llmserve in
 * XDG_CACHE_HOME, else in a service's STATE_DIRECTORY, else in ~/.cache, else in /tmp.
 * Made if it can be. 0 or -ENAMETOOLONG. */
int lls_file_kept_folder(char *path, size_t size);

/*
 * For a file that is begun anew: what is in `path` moves to path.1, that to path.2 and so
 * on; path.`kept` is lost. What is no regular file, empty or not there stays. 0 or
 * -errno.
 */
int lls_file_rotate(const char *path, unsigned kept);

#endif
