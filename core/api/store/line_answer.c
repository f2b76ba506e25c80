/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See line_answer.h. A 500 usually repeats with the same input: a line gets three
 * tries, since a lost instance may cause two of them. A 429 or 503 means a busy server,
 * and a batch has a day: the delays double up to a minute, for half an hour in all.
 */
#include "core/api/store/line_answer.h"

#include <stdlib.h>

#include "core/api/api_internal.h"
#include "core/base/json_memory.h"
#include "core/batch/progress.h"

#define TRIES_FAILED  3
#define TRIES_REFUSED 35
#define DOUBLED       6 /* number of doubling delays; later ones are LONGEST_S */
#define LONGEST_S     60

int64_t lls_line_retry(unsigned status, uint32_t tries)
{
  uint32_t most = 1;
  if (status == 500)
    most = TRIES_FAILED;
  else if (status == 429 || status == 503)
    most = TRIES_REFUSED;
  if (tries >= most)
    return 0;
  int64_t seconds = tries > DOUBLED ? LONGEST_S : INT64_C(1) << (tries - 1);
  return seconds * LLS_LINE_PAUSE_NS;
}

char *lls_line_answer(const char *custom_id, unsigned status, const char *json)
{
  char id[LLS_BATCH_LINE_ID], request[LLS_ID_BYTES];
  struct lls_text text = {0};
  json_t *custom = json_string(custom_id);
  char *quoted = lls_json_text(custom, JSON_ENCODE_ANY);
  LLS_ON_MAIN_THREAD();
  lls_file_new_id(id, sizeof id, "batch_req_", "");
  lls_api_new_id(request);
  if (quoted != NULL)
    lls_text_printf(&text,
                    "{\"id\":\"%s\",\"custom_id\":%s,\"response\":{\"status_code\":%u,"
                    "\"request_id\":\"%s\",\"body\":%s},\"error\":null}",
                    id, quoted, status, request, json);
  free(quoted);
  json_decref(custom);
  if (!text.failed)
    return text.data;
  lls_text_free(&text);
  return NULL;
}
