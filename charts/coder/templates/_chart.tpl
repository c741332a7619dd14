{{- define "chart.args" -}}
{{- if .Values.coder.workspaceProxy }}
- wsproxy
{{- end }}
- server
{{- end -}}

{{/* "true" if all servers have one database, as far as the values show. */}}
{{- define "chart.hasDatabase" -}}
{{- if or (include "common.hasEnv" (list . "CODER_PG_CONNECTION_URL")) .Values.coder.envFrom -}}true{{- end -}}
{{- end -}}

{{/*
One server after the other. While a server waits for builds, Kubernetes replaces the next one already: a new server must be
ready for a while first, in which the agents, daemons and clients of the stopped one connect to others.
*/}}
{{- define "chart.deployment" -}}
{{- if .Values.coder.strategy -}}
strategy:
  {{- toYaml .Values.coder.strategy | nindent 2 }}
{{- else if or .Values.coder.workspaceProxy (include "chart.hasDatabase" .) -}}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxSurge: 1
    maxUnavailable: 0
{{- else -}}
strategy:
  type: Recreate
{{- end }}
{{- if gt (int .Values.coder.replicaCount) 1 }}
minReadySeconds: 15
{{- end }}
{{- end -}}

{{- define "chart.pod" -}}
terminationGracePeriodSeconds: {{ .Values.coder.terminationGracePeriodSeconds }}
{{- if and (gt (int .Values.coder.replicaCount) 1) (not .Values.coder.topologySpreadConstraints) }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "common.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}

{{- define "chart.env" -}}
{{- $coder := .Values.coder -}}
- name: CODER_HTTP_ADDRESS
  value: 0.0.0.0:8080
{{- if not (include "common.hasEnv" (list . "CODER_PROMETHEUS_ADDRESS")) }}
- name: CODER_PROMETHEUS_ADDRESS
  value: 0.0.0.0:2112
{{- end }}
{{- if not (include "common.hasEnv" (list . "CODER_PPROF_ADDRESS")) }}
- name: CODER_PPROF_ADDRESS
  value: 0.0.0.0:6060
{{- end }}
{{- if and .Values.provisionerDaemon.pskSecretName (not $coder.workspaceProxy) }}
- name: CODER_PROVISIONER_DAEMON_PSK
  valueFrom:
    secretKeyRef:
      name: {{ .Values.provisionerDaemon.pskSecretName | quote }}
      key: psk
{{- end }}
{{- if and $coder.envUseClusterAccessURL (not $coder.workspaceProxy) (not (include "common.hasEnv" (list . "CODER_ACCESS_URL"))) }}
- name: CODER_ACCESS_URL
  value: {{ include "common.clusterURL" . | quote }}
{{- end }}
- name: KUBE_POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- if not (or $coder.workspaceProxy (include "common.hasEnv" (list . "CODER_DERP_SERVER_RELAY_URL"))) }}
- name: CODER_DERP_SERVER_RELAY_URL
  value: http://$(KUBE_POD_IP):8080
{{- end }}
{{- with $coder.tls.secretNames }}
- name: CODER_TLS_ENABLE
  value: "true"
- name: CODER_TLS_ADDRESS
  value: 0.0.0.0:8443
- name: CODER_TLS_CERT_FILE
  value: {{ include "chart.tlsFiles" (list . "tls.crt") | quote }}
- name: CODER_TLS_KEY_FILE
  value: {{ include "chart.tlsFiles" (list . "tls.key") | quote }}
{{- end }}
{{- end -}}

{{/* The paths of one file of each TLS secret, separated by commas. Call it with (list names "file"). */}}
{{- define "chart.tlsFiles" -}}
{{- $file := index . 1 -}}
{{- $paths := list -}}
{{- range index . 0 -}}
{{- $paths = append $paths (printf "/etc/ssl/certs/coder/%s/%s" . $file) -}}
{{- end -}}
{{- join "," $paths -}}
{{- end -}}

{{- define "chart.container" -}}
{{- $coder := .Values.coder -}}
ports:
  - name: http
    containerPort: 8080
    protocol: TCP
  {{- if $coder.tls.secretNames }}
  - name: https
    containerPort: 8443
    protocol: TCP
  {{- end }}
  {{- if eq "true" (include "common.envValue" (list . "CODER_PROMETHEUS_ENABLE")) }}
  - name: prometheus-http
    containerPort: 2112
    protocol: TCP
  {{- end }}
{{- if $coder.readinessProbe.enabled }}
readinessProbe:
  {{- include "common.probe" (list $coder.readinessProbe "/readyz") | nindent 2 }}
{{- end }}
{{- if $coder.livenessProbe.enabled }}
livenessProbe:
  {{- include "common.probe" (list $coder.livenessProbe "/healthz") | nindent 2 }}
{{- end }}
lifecycle:
  {{- with $coder.lifecycle }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  preStop:
    exec:
      command: [/bin/sh, -c, sleep 5]
  {{- end }}
{{- end -}}

{{/* An Ingress host is a star and a domain: the suffix of *-apps.example.com is not part of it. */}}
{{- define "chart.wildcardHost" -}}
{{- regexReplaceAll "^\\*[^.]*" .Values.coder.ingress.wildcardHost "*" -}}
{{- end -}}

{{/* Values that cannot work. */}}
{{- define "chart.check" -}}
{{- with .Values.coder -}}
{{- if .tls.secretName }}{{ fail "coder.tls.secretName is not a value of this chart: list the secrets in coder.tls.secretNames." }}{{ end -}}
{{- if and .workspaceProxy (not .envFrom) }}
{{- range list "CODER_PRIMARY_ACCESS_URL" "CODER_PROXY_SESSION_TOKEN" "CODER_ACCESS_URL" }}
{{- if not (include "common.hasEnv" (list $ .)) }}{{ fail (printf "coder.workspaceProxy needs %s in coder.env." .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and .ingress.enable (not .ingress.host) }}{{ fail "coder.ingress.enable needs coder.ingress.host." }}{{ end -}}
{{- if and (gt (int .replicaCount) 1) (not .workspaceProxy) (not (include "chart.hasDatabase" $)) }}
{{- fail "coder.replicaCount above 1 needs one database for all servers: set CODER_PG_CONNECTION_URL in coder.env." }}
{{- end -}}
{{- end -}}
{{- end -}}
