{{/*
A Deployment. The chart defines "chart.args", "chart.env", "chart.container", "chart.pod" and "chart.deployment": what its
container, its pods and the Deployment have in addition to the common parts.
*/}}
{{- define "common.deployment" -}}
{{- $coder := .Values.coder -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "common.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "common.labels" . | nindent 4 }}
    {{- with $coder.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $coder.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ $coder.replicaCount }}
  {{- with include "chart.deployment" . }}
  {{- . | nindent 2 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "common.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "common.labels" . | nindent 8 }}
        {{- with $coder.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $coder.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $coder.serviceAccount.name }}
      {{- include "chart.pod" . | nindent 6 }}
      {{- with $coder.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $coder.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $coder.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $coder.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $coder.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $coder.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $coder.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: coder
          image: {{ include "common.image" . | quote }}
          imagePullPolicy: {{ $coder.image.pullPolicy }}
          command:
            {{- toYaml $coder.command | nindent 12 }}
          args:
            {{- $coder.commandArgs | default (include "chart.args" . | fromYamlArray) | toYaml | nindent 12 }}
          {{- with $coder.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          env:
            {{- include "chart.env" . | nindent 12 }}
            {{- with $coder.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- include "chart.container" . | nindent 10 }}
          {{- with $coder.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $coder.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with include "common.volumeMounts" . | fromYamlArray }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
      {{- with include "common.volumes" . | fromYamlArray }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{/* Certificates of coder.tls and coder.certs, and further volumes. */}}
{{- define "common.volumes" -}}
{{- range (.Values.coder.tls).secretNames }}
- name: {{ printf "tls-%s" . | quote }}
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- range .Values.coder.certs.secrets }}
- name: {{ printf "ca-cert-%s" .name | quote }}
  secret:
    secretName: {{ .name | quote }}
{{- end }}
{{- with .Values.coder.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "common.volumeMounts" -}}
{{- range (.Values.coder.tls).secretNames }}
- name: {{ printf "tls-%s" . | quote }}
  mountPath: {{ printf "/etc/ssl/certs/coder/%s" . | quote }}
  readOnly: true
{{- end }}
{{- range .Values.coder.certs.secrets }}
- name: {{ printf "ca-cert-%s" .name | quote }}
  mountPath: {{ printf "/etc/ssl/certs/%s.crt" .name | quote }}
  subPath: {{ .key | quote }}
  readOnly: true
{{- end }}
{{- with .Values.coder.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A probe that asks a path over HTTP. Call it with (list probe "/path"). Other fields of a probe are passed on. */}}
{{- define "common.probe" -}}
{{- $probe := index . 0 -}}
httpGet:
  path: {{ index . 1 }}
  port: http
{{- with omit $probe "enabled" }}
{{ toYaml . }}
{{- end }}
{{- end -}}
