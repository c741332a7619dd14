{{- define "common.serviceAccount" -}}
{{- with .Values.coder.serviceAccount -}}
{{- if not .disableCreate -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name | quote }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "common.labels" $ | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Terraform does with the objects of workspaces. */}}
{{- define "common.verbs" -}}
verbs: [create, delete, deletecollection, get, list, patch, update, watch]
{{- end -}}

{{- define "common.workspaceRules" -}}
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  {{- include "common.verbs" . | nindent 2 }}
{{- if .Values.coder.serviceAccount.enableDeployments }}
- apiGroups: [apps]
  resources: [deployments]
  {{- include "common.verbs" . | nindent 2 }}
{{- end }}
{{- with .Values.coder.serviceAccount.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The right to manage workspaces, in the namespace of the release and those of workspaceNamespaces. */}}
{{- define "common.workspacePermissions" -}}
{{- $account := .Values.coder.serviceAccount -}}
{{- $places := ternary (list (dict "name" .Release.Namespace)) (list) (eq true $account.workspacePerms) -}}
{{- range $account.workspaceNamespaces }}
{{- if ne false .workspacePerms }}
{{- $places = append $places . }}
{{- end }}
{{- end }}
{{- range $places }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ printf "%s-workspace-perms" $account.name }}
  namespace: {{ .name }}
  labels:
    {{- include "common.labels" $ | nindent 4 }}
rules:
  {{- include "common.workspaceRules" $ | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ printf "%s-workspace-perms" $account.name }}
  namespace: {{ .name }}
  labels:
    {{- include "common.labels" $ | nindent 4 }}
subjects:
  - kind: ServiceAccount
    name: {{ $account.name | quote }}
    namespace: {{ $.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ printf "%s-workspace-perms" $account.name }}
{{- end }}
{{- end -}}

{{- define "common.extraTemplates" -}}
{{- range .Values.extraTemplates }}
---
{{ include "common.render" (list $ .) }}
{{- end }}
{{- end -}}
