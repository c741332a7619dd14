{{- define "chart.args" -}}
- operator
- start
{{- end -}}

{{- define "chart.deployment" -}}{{- end -}}

{{- define "chart.pod" -}}
terminationGracePeriodSeconds: 30
{{- end -}}

{{- define "chart.env" -}}
- name: CODER_OPERATOR_POLL_INTERVAL
  value: {{ .Values.operator.pollInterval | quote }}
- name: CODER_OPERATOR_DEFAULT_IMAGE
  value: {{ include "common.image" . | quote }}
{{- if .Values.operator.keda.enabled }}
- name: CODER_OPERATOR_KEDA_ADDRESS
  value: 0.0.0.0:9666
{{- end }}
{{- if .Values.operator.externalMetrics.enabled }}
- name: CODER_OPERATOR_EXTERNAL_METRICS_ADDRESS
  value: 0.0.0.0:6443
{{- end }}
{{- if not .Values.operator.allNamespaces }}
- name: CODER_OPERATOR_NAMESPACE
  value: {{ .Release.Namespace | quote }}
{{- end }}
{{- end -}}

{{- define "chart.container" -}}
{{- if or .Values.operator.keda.enabled .Values.operator.externalMetrics.enabled }}
ports:
  {{- if .Values.operator.keda.enabled }}
  - name: keda
    containerPort: 9666
    protocol: TCP
  {{- end }}
  {{- if .Values.operator.externalMetrics.enabled }}
  - name: metrics
    containerPort: 6443
    protocol: TCP
  {{- end }}
{{- end }}
{{- end -}}
