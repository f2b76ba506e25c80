{{- /* Merges a component's patch into the Deployment as kustomize does: containers, environment, mounts and volumes
by name, other lists as a whole. */ -}}
{{- define "llmserve.patch" -}}
{{- $pod := .deployment.spec.template.spec -}}
{{- $more := .patch.spec.template.spec -}}
{{- range $new := $more.containers -}}
  {{- $known := false -}}
  {{- range $old := $pod.containers -}}
    {{- if eq $old.name $new.name -}}
      {{- $known = true -}}
      {{- range $list := list "volumeMounts" "env" -}}
        {{- if hasKey $new $list -}}
          {{- $_ := set $old $list (concat (get $new $list) (default list (get $old $list))) -}}
        {{- end -}}
      {{- end -}}
      {{- $_ := mergeOverwrite $old (omit $new "name" "volumeMounts" "env") -}}
    {{- end -}}
  {{- end -}}
  {{- if not $known -}}
    {{- $_ := set $pod "containers" (prepend $pod.containers $new) -}}
  {{- end -}}
{{- end -}}
{{- if $more.volumes -}}
  {{- $_ := set $pod "volumes" (concat $more.volumes $pod.volumes) -}}
{{- end -}}
{{- $_ := mergeOverwrite $pod (omit $more "containers" "volumes") -}}
{{- $_ := mergeOverwrite .deployment.spec (omit .patch.spec "template") -}}
{{- end -}}
