# SPDX-License-Identifier: Apache-2.0
"""Manifests (standard input) against the schemas of Kubernetes, as kubernetes-validate has them, and of
custom resources by the definitions in a folder, if one is named. Prints TAP; see kubernetes.t."""
import glob
import sys
import types

# kubernetes-validate reads its schemas by an interface that setuptools has dropped.
try:
    import pkg_resources  # noqa: F401
except ImportError:
    import importlib_resources

    shim = types.ModuleType("pkg_resources")
    shim.resource_string = lambda package, path: (importlib_resources.files(package) / path).read_bytes()
    sys.modules["pkg_resources"] = shim

import jsonschema
import kubernetes_validate
import yaml


def definitions(folder):
    """Schemas of the definitions below a folder, by apiVersion and kind."""
    found = {}
    for path in glob.glob(folder + "/**/*.yaml", recursive=True):
        with open(path, encoding="utf-8") as file:
            for one in yaml.safe_load_all(file):
                if not one or one.get("kind") != "CustomResourceDefinition":
                    continue
                for version in one["spec"]["versions"]:
                    kind = one["spec"]["group"] + "/" + version["name"], one["spec"]["names"]["kind"]
                    found[kind] = closed(version["schema"]["openAPIV3Schema"])
    return found


def closed(schema):
    """A cluster drops unknown members: here they are mistakes."""
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = schema.get("x-kubernetes-preserve-unknown-fields", False)
        for name, value in schema.items():
            if name == "metadata":
                value.pop("additionalProperties", None)
            else:
                closed(value)
    elif isinstance(schema, list):
        for value in schema:
            closed(value)
    return schema


def main():
    own = definitions(sys.argv[1]) if len(sys.argv) > 1 else {}
    builtin = ("v1", "apps/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1")
    for at, one in enumerate((m for m in yaml.safe_load_all(sys.stdin) if m), 1):
        name = f"{one['kind']} {one['metadata']['name']} ({one['apiVersion']})"
        why = None
        try:
            if one["apiVersion"] in builtin:
                kubernetes_validate.validate(one, "1.32", strict=True)
            elif (one["apiVersion"], one["kind"]) in own:
                jsonschema.validate(one, own[one["apiVersion"], one["kind"]])
            else:
                print(f"ok {at} - {name} # SKIP a custom resource: LLS_CRDS has no definition of it")
                continue
        except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
            why = f"{'.'.join(str(p) for p in error.path)}: {error.message}"
        print(f"{'not ok' if why else 'ok'} {at} - {name}" + (f"\n# {why}" if why else ""))


main()
