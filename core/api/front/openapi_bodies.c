/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of /openapi.json on paths that are no dialect's. Members that a table of
 * parameters has are taken from it; t/api/openapi.t sends each of the others with a value
 * of a wrong type, and leaves each that is required out.
 */
#include <string.h>

#include "core/api/front/openapi_bodies.h"

static const struct lls_body_member file_members[] = {
    {"file", "string", true},
    {"purpose", "string", true},
    {"expires_after[anchor]", "string", false},
    {"expires_after[seconds]", "string", false},
    {NULL, NULL, false}};
static const struct lls_body_member batch_members[] = {
    {"input_file_id", "string", true},
    {"endpoint", "string", true},
    {"completion_window", "string", true},
    {"metadata", "object", false},
    {NULL, NULL, false}};
static const struct lls_body_member conversation_members[] = {
    {"items", "array", false}, {"metadata", "object", false}, {NULL, NULL, false}};
static const struct lls_body_member update_members[] = {{"metadata", "object", false},
                                                        {NULL, NULL, false}};
static const struct lls_body_member item_members[] = {{"items", "array", true},
                                                      {NULL, NULL, false}};
static const struct lls_body_member model_members[] = {{"model", "string", true},
                                                       {NULL, NULL, false}};
static const struct lls_body_member show_members[] = {
    {"model", "string", true}, {"verbose", "boolean", false}, {NULL, NULL, false}};
static const struct lls_body_member whatif_members[] = {{"policies", "array", false},
                                                        {"objective", "string", false},
                                                        {"goodput", "object", false},
                                                        {NULL, NULL, false}};

static const struct lls_body_member unload_members[] = {{"lora_name", "string", true},
                                                        {NULL, NULL, false}};
static const struct lls_body_member load_members[] = {{"lora_name", "string", true},
                                                      {"lora_path", "string", true},
                                                      {"load_inplace", "boolean", false},
                                                      {NULL, NULL, false}};

static const struct plain_body {
  const char *path; /* without /v1 before it */
  const char *type; /* "": there is no body */
  const struct lls_body_member *members;
  enum lls_endpoint params, more; /* tables of parameters; 0: none */
} bodies[] = {
    {"/files", "multipart/form-data", file_members, 0, 0},
    {"/batches", "application/json", batch_members, 0, 0},
    {"/batches/{id}/cancel", "", NULL, 0, 0},
    {"/responses/{id}/cancel", "", NULL, 0, 0},
    {"/conversations", "application/json", conversation_members, 0, 0},
    {"/conversations/{id}", "application/json", update_members, 0, 0},
    {"/conversations/{id}/items", "application/json", item_members, 0, 0},
    {"/models/load", "application/json", model_members, 0, 0},
    {"/models/unload", "application/json", model_members, 0, 0},
    {"/load_lora_adapter", "application/json", load_members, 0, 0},
    {"/unload_lora_adapter", "application/json", unload_members, 0, 0},
    {"/api/show", "application/json", show_members, 0, 0},
    {"/admin/whatif", "application/json", whatif_members, 0, 0},
    {"/admin/reload", "", NULL, 0, 0},
    {"/admin/drain", "", NULL, 0, 0},
    {"/ping", "", NULL, 0, 0},
    {"/tokenize", "application/json", NULL, LLS_TOKENIZE, LLS_TOKENIZE_CHAT},
    {"/detokenize", "application/json", NULL, LLS_DETOKENIZE, 0},
    {"/apply-template", "application/json", NULL, LLS_CHAT, 0},
};

void lls_openapi_put_members(json_t *members, json_t *required,
                             const struct lls_body_member *own)
{
  for (; own != NULL && own->name != NULL; own++) {
    if (own->type == NULL) {
      json_object_del(members, own->name);
      continue;
    }
    json_object_set_new(members, own->name, lls_schema_of_types(own->type));
    if (own->required)
      json_array_append_new(required, json_string(own->name));
  }
}

static const struct plain_body *find(const char *path)
{
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
    if (lls_route_is(path, bodies[i].path))
      return &bodies[i];
  return NULL;
}

bool lls_openapi_has_body(const char *path)
{
  const struct plain_body *body = find(path);
  return body == NULL || body->type[0] != '\0';
}

static json_t *schema_of(const struct plain_body *body)
{
  json_t *required = json_array();
  json_t *members = body->params != 0 ? lls_params_schema(body->params) : json_object();
  json_t *more = body->more != 0 ? lls_params_schema(body->more) : NULL;
  json_object_update_missing(members, more);
  json_decref(more);
  lls_openapi_put_members(members, required, body->members);
  json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", members);
  if (json_array_size(required) > 0)
    json_object_set(schema, "required", required);
  json_decref(required);
  return schema;
}

json_t *lls_openapi_plain_body(const char *path)
{
  const struct plain_body *body = find(path);
  if (body != NULL && body->type[0] == '\0')
    return NULL;
  /* a list of adapters and their scales is the only body that is no object */
  json_t *schema = body != NULL ? schema_of(body) : json_pack("{s:s}", "type", "array");
  return json_pack("{s:{s:{s:o}}}", "content",
                   body != NULL ? body->type : "application/json", "schema", schema);
}
