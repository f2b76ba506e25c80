/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /openapi.json: the API as OpenAPI 3.1, made of the tables that route and read
 * requests: the routes, each dialect's members, the rows of parameters, and the shape of
 * its errors; who may use a path, and what counts; and of the shapes of answers
 * (openapi_answers.c). It does not depend on the model or on a request, so it is made
 * once. t/api/openapi.t sends each field, t/api/openapi_answers.t reads each answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/api/access.h"
#include "core/api/accounts.h"
#include "core/api/front/openapi_answers.h"
#include "core/api/front/openapi_bodies.h"
#include "core/api/routes.h"
#include "core/base/json_memory.h"

#define JSON_TYPE "application/json"
#define MOST_PATH 160

/* ---- schemas ----------------------------------------------------------------------- */

/* Returns a schema that the value is valid by, with the same members. */
static json_t *schema_like(const json_t *value)
{
  static const char *const types[] = {
      [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
      [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
      [JSON_FALSE] = "boolean"};
  const char *key;
  json_t *member;
  if (json_is_null(value)) /* of errors: the parameter, or the code */
    return lls_schema_of_types("string");
  json_t *schema = json_pack("{s:s}", "type", types[json_typeof(value)]);
  if (!json_is_object(value))
    return schema;
  json_t *members = json_object();
  json_object_foreach((json_t *)value, key, member)
  {
    json_object_set_new(members, key, schema_like(member));
  }
  json_object_set_new(schema, "properties", members);
  return schema;
}

/* Returns the schema of a dialect's errors, from one of them. */
static json_t *error_schema(const struct lls_dialect *dialect)
{
  struct lls_api_error error;
  lls_api_fail(&error, 400, NULL, NULL, "why");
  json_t *sample = (dialect != NULL ? dialect->error : lls_api_error_json)(&error);
  json_t *schema = schema_like(sample);
  json_decref(sample);
  if (dialect != NULL && dialect->id_header != NULL)
    json_object_set_new(json_object_get(schema, "properties"), "request_id",
                        lls_schema_of_types("string"));
  return schema;
}

/* Returns the schema of a dialect's bodies. Members that it does not name are ignored, or
 * refused with [server] strict_params. */
static json_t *body_schema(const struct lls_dialect *dialect)
{
  json_t *required = json_array();
  json_t *members =
      dialect->alone ? json_object() : lls_params_schema(dialect->params_of);
  lls_openapi_put_members(members, required, dialect->members);
  json_t *schema = json_pack("{s:s, s:o, s:o}", "type", "object", "properties", members,
                             "x-refused", lls_params_refused(dialect->params_of));
  if (json_array_size(required) > 0)
    json_object_set(schema, "required", required);
  json_decref(required);
  return schema;
}

/* Writes a name for a path: its letters and digits, '_' between them. */
static void name_of(const char *method, const char *path, char out[MOST_PATH])
{
  size_t n = (size_t)snprintf(out, MOST_PATH, "%s", method);
  for (; *path != '\0' && n + 2 < MOST_PATH; path++) {
    bool letter = strchr("/{}*", *path) == NULL;
    if (letter)
      out[n++] = *path == '-' || *path == '.' ? '_' : *path;
    else if (n > 0 && out[n - 1] != '_')
      out[n++] = '_';
  }
  while (n > 0 && out[n - 1] == '_')
    n--;
  out[n] = '\0';
}

/* Writes the name of the dialect's schema: that of the first path that has it. */
static void schema_name(const struct lls_api *api, const struct lls_dialect *dialect,
                        char out[MOST_PATH])
{
  size_t i = 0;
  while (i < api->n_routes && api->routes[i].dialect != dialect)
    i++;
  name_of("body", api->routes[i].path, out);
}

static json_t *reference(const char *kind, const char *name)
{
  return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

static json_t *content(const char *type, json_t *schema)
{
  return json_pack("{s:{s:o}}", type, "schema", schema);
}

/* ---- answers ----------------------------------------------------------------------- */

/* Returns what a request gets: an answer as a whole, and the events of a stream. */
static json_t *success(const struct lls_dialect *dialect,
                       const struct lls_openapi_answer *answer)
{
  const char *type = answer->type != NULL ? answer->type : JSON_TYPE;
  const char *stream = dialect == &lls_ollama_chat || dialect == &lls_ollama_generate
                           ? "application/x-ndjson"
                           : "text/event-stream";
  json_t *made = json_object();
  if (answer->whole != NULL)
    json_object_update_new(made, content(type, lls_openapi_shape(answer->whole)));
  if (answer->events != NULL)
    json_object_update_new(made, content(stream, lls_openapi_shape(answer->events)));
  return json_pack("{s:s, s:o}", "description",
                   answer->whole == NULL    ? "the answer, as events"
                   : answer->events == NULL ? "the answer"
                                            : "the answer, whole or as events",
                   "content", made);
}

/* Why a request is answered with a status. */
static const struct reason {
  unsigned status;
  const char *why;
} reasons[] = {
    {400, "the request is wrong: the message says where"},
    {401, "a key is wanted"},
    {403, "the client, or the page that it is, may not"},
    {404, "there is no such model, object or path"},
    {409, "it is not in a state for that"},
    {413, "the body is too large"},
    {415, "the body is of a type, or has a coding, that is not read"},
    {421, "the header 'host' is no name of this server"},
    {429, "the tenant has used up its share, or the queue is full"},
    {500, "the server failed"},
    {501, "[server] closed_paths has the path, or this server lacks the feature"},
    {502, "with [models]: the process of the model ended"},
    {503, "not now: the server loads, stops, or has no room"},
    {504, "[server] request_timeout has passed"},
    {529, "not now: Anthropic's status for a server without room"},
};

/* True if a dialect's errors of a status, or the same error's, have this one. */
static bool becomes(const struct lls_dialect *dialect, unsigned from, unsigned status)
{
  struct lls_api_error error;
  if (dialect == NULL || dialect->status == NULL)
    return false;
  lls_api_fail(&error, from, NULL, NULL, "why");
  return dialect->status(&error) == status;
}

/* True for an operation that a server with [models] passes on to a model's process, if
 * its client names one. */
static bool is_passed_on(const char *path, enum lls_access_group group)
{
  return group != LLS_ACCESS_ALL && !lls_route_is(path, "/models/load") &&
         !lls_route_is(path, "/models/unload");
}

/* True if an operation may answer with the status. */
static bool answers_with(const struct lls_route_stats *route, const char *path,
                         const struct lls_openapi_answer *answer, unsigned status)
{
  enum lls_access_group group = lls_access_group_of(route->method, path);
  bool post = strcmp(route->method, "POST") == 0, passed = is_passed_on(path, group);
  for (size_t i = 0; i < sizeof answer->errors / sizeof *answer->errors; i++)
    if (answer->errors[i] == status)
      return true;
  switch (status) {
  case 400:
    return passed || (post && lls_openapi_has_body(path));
  case 401:
    return group != LLS_ACCESS_ALL;
  case 403: /* the page's origin; the key is no admin's */
    return strcmp(route->method, "GET") != 0 || group == LLS_ACCESS_ADMINS ||
           group == LLS_ACCESS_READERS;
  case 404: /* the object; the model */
    return passed || strchr(path, '{') != NULL;
  case 409: /* the model is not loaded */
    return passed && (group == LLS_ACCESS_ADMINS || group == LLS_ACCESS_READERS);
  case 413:
  case 415:
    return post;
  case 421:
  case 501:
    return true;
  case 429:
    return lls_accounts_count(route->method, route->path, route->dialect != NULL);
  case 500:
    return route->dialect != NULL;
  case 502:
  case 504:
    return passed;
  case 503:
    return strcmp(path, "/live") != 0;
  default:
    return becomes(route->dialect, 503, status);
  }
}

static json_t *one_of(json_t *first, json_t *second)
{
  return json_pack("{s:[o, o]}", "anyOf", first, second);
}

static json_t *failure(const struct lls_dialect *dialect,
                       const struct lls_openapi_answer *answer,
                       const struct reason *reason)
{
  json_t *schema = reference("schemas", "Error");
  if (dialect != NULL && dialect->error != lls_api_error_json) {
    json_t *own = error_schema(dialect);
    if (reason->status == 413) { /* core/http may refuse the body, for all paths alike */
      schema = one_of(own, schema);
    } else {
      json_decref(schema);
      schema = own;
    }
  }
  if (answer->refusal != NULL)
    schema = one_of(schema, lls_openapi_shape(answer->refusal));
  return json_pack("{s:s, s:o}", "description", reason->why, "content",
                   content(JSON_TYPE, schema));
}

static json_t *responses_of(const struct lls_route_stats *route, const char *path)
{
  const struct lls_openapi_answer *answer = lls_openapi_answer(route->method, path);
  char status[16];
  json_t *all = json_object();
  if (answer == NULL)
    return all;
  snprintf(status, sizeof status, "%u", answer->status);
  json_object_set_new(all, status, success(route->dialect, answer));
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (!answers_with(route, path, answer, reasons[i].status))
      continue;
    snprintf(status, sizeof status, "%u", reasons[i].status);
    json_object_set_new(all, status, failure(route->dialect, answer, &reasons[i]));
  }
  return all;
}

/* ---- operations -------------------------------------------------------------------- */

static void put_path_parameters(json_t *operation, const char *path)
{
  json_t *parameters = json_array();
  const char *at = path;
  while ((at = strchr(at, '{')) != NULL) {
    size_t n = strcspn(at, "}");
    json_array_append_new(parameters, json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name",
                                                at + 1, n - 1, "in", "path", "required",
                                                1, "schema", "type", "string"));
    at += n;
  }
  if (json_array_size(parameters) > 0)
    json_object_set(operation, "parameters", parameters);
  json_decref(parameters);
}

static json_t *operation_of(const struct lls_api *api,
                            const struct lls_route_stats *route, const char *path)
{
  char name[MOST_PATH], id[MOST_PATH];
  const struct lls_dialect *dialect = route->dialect;
  name_of(route->method, path, id);
  json_t *operation =
      json_pack("{s:s, s:o}", "operationId", id, "responses", responses_of(route, path));
  put_path_parameters(operation, path);
  if (dialect != NULL) {
    schema_name(api, dialect, name);
    json_object_set_new(operation, "requestBody",
                        json_pack("{s:b, s:o}", "required", 1, "content",
                                  content(JSON_TYPE, reference("schemas", name))));
  }
  json_t *body = dialect == NULL && strcmp(route->method, "POST") == 0
                     ? lls_openapi_plain_body(path)
                     : NULL;
  if (body != NULL)
    json_object_set_new(operation, "requestBody", body);
  return operation;
}

/* The paths of routes that end with '*' and have several, and the names of their parts.
 */
static const struct {
  const char *method, *route, *path;
} spelt[] = {
    {"GET", "/responses/*", "/responses/{id}"},
    {"GET", "/responses/*", "/responses/{id}/input_items"},
    {"POST", "/responses/*", "/responses/{id}/cancel"},
    {"GET", "/conversations/*", "/conversations/{id}"},
    {"GET", "/conversations/*", "/conversations/{id}/items"},
    {"GET", "/conversations/*", "/conversations/{id}/items/{item}"},
    {"POST", "/conversations/*", "/conversations/{id}"},
    {"POST", "/conversations/*", "/conversations/{id}/items"},
    {"DELETE", "/conversations/*", "/conversations/{id}"},
    {"DELETE", "/conversations/*", "/conversations/{id}/items/{item}"},
    {"GET", "/files/*", "/files/{id}"},
    {"GET", "/files/*", "/files/{id}/content"},
    {"POST", "/batches/*", "/batches/{id}/cancel"},
};

static void put_operation(const struct lls_api *api, json_t *paths,
                          const struct lls_route_stats *route, const char *path)
{
  char method[16];
  size_t n = 0;
  json_t *item = json_object_get(paths, path);
  for (; route->method[n] != '\0' && n + 1 < sizeof method; n++)
    method[n] = (char)(route->method[n] | 0x20);
  method[n] = '\0';
  if (item == NULL) {
    item = json_object();
    json_object_set_new(paths, path, item);
  }
  json_object_set_new(item, method, operation_of(api, route, path));
}

/* Puts a route whose path has a '*', under the name of the part that it stands for. */
static void put_star(const struct lls_api *api, json_t *paths,
                     const struct lls_route_stats *route)
{
  char path[MOST_PATH];
  const char *star = strchr(route->path, '*');
  bool found = false;
  for (size_t i = 0; i < sizeof spelt / sizeof *spelt; i++) {
    if (strcmp(spelt[i].method, route->method) != 0 ||
        !lls_route_is(route->path, spelt[i].route))
      continue;
    bool v1 = strcmp(route->path, spelt[i].route) != 0;
    snprintf(path, sizeof path, "%s%s", v1 ? "/v1" : "", spelt[i].path);
    put_operation(api, paths, route, path);
    found = true;
  }
  if (found)
    return;
  snprintf(path, sizeof path, "%.*s{id}%s", (int)(star - route->path), route->path,
           star + 1);
  put_operation(api, paths, route, path);
}

/* ---- the document ------------------------------------------------------------------ */

static json_t *schemas_of(const struct lls_api *api)
{
  json_t *schemas = json_pack("{s:o}", "Error", error_schema(NULL));
  for (const struct lls_openapi_part *part = lls_openapi_parts; part->name != NULL;
       part++)
    json_object_set_new(schemas, part->name, lls_openapi_shape(part->shape));
  for (size_t i = 0; i < api->n_routes; i++) {
    char name[MOST_PATH];
    const struct lls_dialect *dialect = api->routes[i].dialect;
    if (dialect == NULL)
      continue;
    schema_name(api, dialect, name);
    if (json_object_get(schemas, name) == NULL)
      json_object_set_new(schemas, name, body_schema(dialect));
  }
  return schemas;
}

static json_t *paths_of(const struct lls_api *api)
{
  json_t *paths = json_object();
  /* the last route is for requests without one */
  for (size_t i = 0; i + 1 < api->n_routes; i++) {
    const struct lls_route_stats *route = &api->routes[i];
    size_t length = strlen(route->path);
    if (strchr(route->path, '*') != NULL)
      put_star(api, paths, route);
    else if (length == 1 || route->path[length - 1] != '/')
      put_operation(api, paths, route, route->path);
  }
  return paths;
}

static json_t *document(const struct lls_api *api)
{
  return json_pack(
      "{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:o, s:{s:o, s:{s:{s:s, s:s}, s:{s:s, s:s, "
      "s:s}}}, s:[{}, {s:[]}, {s:[]}]}",
      "openapi", "3.1.0", "info", "title", "llmserve", "version", PACKAGE_VERSION,
      "description",
      "doc/api.md says what the fields mean. The schema of text/event-stream is that of "
      "each event's data, of application/x-ndjson that of each line. The header "
      "x-llmserve-ignored of an answer "
      "names the members of its request that have no effect; x-refused lists members "
      "that are an error.",
      "license", "name", "Apache-2.0", "identifier", "Apache-2.0", "paths", paths_of(api),
      "components", "schemas", schemas_of(api), "securitySchemes", "bearer", "type",
      "http", "scheme", "bearer", "header", "type", "apiKey", "in", "header", "name",
      "x-api-key", "security", "bearer", "header");
}

void lls_handle_openapi(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error;
  if (api->openapi == NULL) {
    json_t *json = document(api);
    api->openapi = json != NULL ? lls_json_text(json, JSON_COMPACT) : NULL;
    json_decref(json);
  }
  if (api->openapi != NULL) {
    lls_http_reply(exchange, 200, JSON_TYPE, api->openapi, strlen(api->openapi));
    return;
  }
  lls_api_fail(&error, 503, NULL, NULL, "out of memory");
  lls_api_error_reply(exchange, &error);
}
