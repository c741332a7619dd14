{{/* The name of the chart's objects. */}}
{{- define "common.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels that select the pods. Kubernetes never lets them change. */}}
{{- define "common.selector" -}}
app.kubernetes.io/name: {{ include "common.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "common.labels" -}}
{{ include "common.selector" . }}
app.kubernetes.io/part-of: {{ include "common.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "common.image" -}}
{{- with .Values.coder.image -}}
{{ .repo }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{/* The address of the server's Service in the cluster. */}}
{{- define "common.clusterURL" -}}
{{ if (.Values.coder.tls).secretNames }}https{{ else }}http{{ end }}://coder.{{ .Release.Namespace }}.svc.cluster.local
{{- end -}}

{{/* The value of an entry of coder.env by its name. Call it with (list . "NAME"). Empty for another kind of value. */}}
{{- define "common.envValue" -}}
{{- $name := index . 1 -}}
{{- range (index . 0).Values.coder.env -}}
{{- if and (eq .name $name) .value -}}{{ .value }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" if coder.env has an entry of this name. Call it with (list . "NAME"). */}}
{{- define "common.hasEnv" -}}
{{- $name := index . 1 -}}
{{- range (index . 0).Values.coder.env -}}
{{- if eq .name $name -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* A value that contains template expressions: a text, or an object. Call it with (list . value). */}}
{{- define "common.render" -}}
{{- $value := index . 1 -}}
{{- tpl (kindIs "string" $value | ternary $value (toYaml $value)) (index . 0) -}}
{{- end -}}
