{{- define "chart.args" -}}
- operator
- start
{{- end -}}

{{- define "chart.pod" -}}
terminationGracePeriodSeconds: 30
{{- end -}}

{{- define "chart.env" -}}
- name: CODER_OPERATOR_POLL_INTERVAL
  value: {{ .Values.operator.pollInterval | quote }}
- name: CODER_OPERATOR_DEFAULT_IMAGE
  value: {{ include "common.image" . | quote }}
{{- if not .Values.operator.allNamespaces }}
- name: CODER_OPERATOR_NAMESPACE
  value: {{ .Release.Namespace | quote }}
{{- end }}
{{- end -}}

{{- define "chart.container" -}}
{{- end -}}
