/* C, with libcurl and jansson: one answer.
 *   cc chat.c -o chat $(pkg-config --cflags --libs libcurl jansson) */
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
  char *text;
  size_t n;
};

static size_t take(char *data, size_t size, size_t n, void *context)
{
  struct body *body = context;
  char *grown = realloc(body->text, body->n + size * n + 1);
  if (grown == NULL)
    return 0;
  memcpy(grown + body->n, data, size * n);
  body->text = grown;
  body->n += size * n;
  grown[body->n] = '\0';
  return size * n;
}

int main(int argc, char **argv)
{
  char url[512];
  struct body body = {0};
  CURL *curl = curl_easy_init();
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  snprintf(url, sizeof url, "%s/v1/chat/completions",
           argc > 1 ? argv[1] : "http://127.0.0.1:8080");
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(
      curl, CURLOPT_POSTFIELDS,
      "{\"messages\": [{\"role\": \"user\", \"content\": \"List five animals.\"}],"
      " \"max_tokens\": 60}");
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  CURLcode rc = curl_easy_perform(curl);
  json_t *answer =
      rc == CURLE_OK ? json_loads(body.text != NULL ? body.text : "", 0, NULL) : NULL;
  const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
  const char *text =
      json_string_value(json_object_get(json_object_get(choice, "message"), "content"));
  if (text != NULL)
    puts(text);
  else
    fprintf(stderr, "%s\n", rc != CURLE_OK ? curl_easy_strerror(rc) : body.text);
  json_decref(answer);
  free(body.text);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return text != NULL ? 0 : 1;
}
