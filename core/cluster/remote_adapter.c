/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the adapter of a request that has come, which may take seconds. A thread of its
 * own reads; the channel's thread, which handles no further message meanwhile so that
 * messages stay in order, goes on sending: beats, or process 0 would count this one as
 * silent; tokens of other requests; blocks.
 */
#include "core/cluster/remote_internal.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "core/cluster/fetch.h"

#define TURN_NS (LLS_NS_PER_S / 200) /* longest delay of a token meanwhile */

struct reading {
  const struct lls_remote *remote;
  const char *path;
  const unsigned char *digest;
  struct lls_lora **out;
  struct lls_error *err;
  int rc;
  sem_t done;
};

static void *read_main(void *argument)
{
  struct reading *r = argument;
  const struct lls_remote *remote = r->remote;
  r->rc = remote->adapter(remote->adapter_context, r->path, r->digest, r->out, r->err);
  sem_post(&r->done);
  return NULL;
}

/* Returns true once the adapter is read; false after TURN_NS. */
static bool is_read(struct reading *r)
{
  struct timespec until;
  int rc;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += TURN_NS;
  if (until.tv_nsec >= LLS_NS_PER_S) {
    until.tv_sec++;
    until.tv_nsec -= LLS_NS_PER_S;
  }
  do
    rc = sem_timedwait(&r->done, &until);
  while (rc < 0 && errno == EINTR);
  return rc == 0;
}

static void go_on_sending(struct lls_remote *remote)
{
  struct lls_channel *within = remote->within;
  remote->channel->ops->is_flushed(remote->channel); /* makes progress */
  if (within != NULL)
    within->ops->is_flushed(within);
  lls_remote_drain(remote);
  lls_fetches_move(remote->fetches);
  lls_remote_show(remote);
  lls_remote_beat(remote, lls_remote_now(remote));
}

int lls_remote_read_adapter(void *context, const char *path,
                            const unsigned char digest[32], struct lls_lora **out,
                            struct lls_error *err)
{
  struct lls_remote *remote = context;
  struct reading r = {
      .remote = remote, .path = path, .digest = digest, .out = out, .err = err};
  pthread_t thread;
  sem_init(&r.done, 0, 0);
  int rc = -pthread_create(&thread, NULL, read_main, &r);
  if (rc == 0) {
    pthread_setname_np(thread, "llmserve-lora");
    while (!is_read(&r)) {
      go_on_sending(remote);
    }
    pthread_join(thread, NULL);
    rc = r.rc;
  } else {
    rc = lls_fail(err, rc, "%s: no thread to read it: %s", path, strerror(-rc));
  }
  sem_destroy(&r.done);
  return rc;
}
