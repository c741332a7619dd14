{{- define "chart.args" -}}
- provisionerd
- start
{{- end -}}

{{- define "chart.deployment" -}}{{- end -}}

{{- define "chart.pod" -}}
terminationGracePeriodSeconds: {{ .Values.provisionerDaemon.terminationGracePeriodSeconds }}
{{- end -}}

{{- define "chart.env" -}}
{{- $daemon := .Values.provisionerDaemon -}}
{{- if not (include "common.hasEnv" (list . "CODER_PROMETHEUS_ADDRESS")) }}
- name: CODER_PROMETHEUS_ADDRESS
  value: 0.0.0.0:2112
{{- end }}
{{- if $daemon.keySecretName }}
- name: CODER_PROVISIONER_DAEMON_KEY
  valueFrom:
    secretKeyRef:
      name: {{ $daemon.keySecretName | quote }}
      key: {{ $daemon.keySecretKey | quote }}
{{- else }}
- name: CODER_PROVISIONER_DAEMON_PSK
  valueFrom:
    secretKeyRef:
      name: {{ $daemon.pskSecretName | quote }}
      key: psk
{{- end }}
{{- with $daemon.tags }}
- name: CODER_PROVISIONERD_TAGS
  value: {{ include "chart.tags" . | quote }}
{{- end }}
{{- if not (include "common.hasEnv" (list . "CODER_URL")) }}
- name: CODER_URL
  value: {{ include "common.clusterURL" . | quote }}
{{- end }}
{{- end -}}

{{/* Tags as `a=1,b=2`, sorted. */}}
{{- define "chart.tags" -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- $pairs = append $pairs (printf "%s=%v" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "chart.container" -}}
{{- if eq "true" (include "common.envValue" (list . "CODER_PROMETHEUS_ENABLE")) }}
ports:
  - name: prometheus-http
    containerPort: 2112
    protocol: TCP
{{- end }}
{{- with .Values.coder.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Values that cannot work. */}}
{{- define "chart.check" -}}
{{- with .Values.provisionerDaemon -}}
{{- if not (or .keySecretName .pskSecretName) }}
{{- fail "Name the secret of a provisioner key in provisionerDaemon.keySecretName, or that of a pre-shared key in provisionerDaemon.pskSecretName." }}
{{- end -}}
{{- if .keySecretName -}}
{{- if and .pskSecretName (ne .pskSecretName "coder-provisioner-psk") }}
{{- fail "Set either provisionerDaemon.keySecretName or provisionerDaemon.pskSecretName, not both: daemons present one key." }}
{{- end -}}
{{- if .tags }}
{{- fail "provisionerDaemon.tags: a provisioner key has its own tags. Remove the tags, or create a key with them." }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
